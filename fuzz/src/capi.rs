//! A program in C's words that a fuzzer writes: any calls in any order, with structures of any size, numbers that are no
//! words, NULLs, texts that are none and buffers that are too small. Handles alone are right: they are used while they are
//! open and closed once, as the header asks for; and so are pointers, to memory that is as large as the caller says.
//!
//! - no call is told to be a defect of the library ([`TgemmStatus::Panic`]), and nothing reads or writes beside the caller's
//!   memory;
//! - a call that fails says why, in one text, leaves the caller's structure as it was, and opens nothing;
//! - texts that were answered can be read for as long as the header says;
//! - the tally counts what was answered;
//! - a product that is told to be done is right, and counted.

mod calls;
mod memory;
mod model;
mod products;
mod values;

use std::sync::Once;

use tgemm::status::{TgemmStatus, tgemm_last_error};

use crate::feed::Feed;
use crate::scratch;
use model::Model;

/// Calls of one program.
const CALLS_MAX: usize = 64;

/// Tables that programs open and replace.
const TABLES: [&[u8]; 3] = [
    include_bytes!("../corpus/lookup/cpu"),
    include_bytes!("../corpus/lookup/cut"),
    include_bytes!("../corpus/tuned/row"),
];

/// Files that stay.
fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let table = scratch::file("fixed.csv", TABLES[0]);
        scratch::file("broken.csv", b"this is no table\n");
        // SAFETY: before the first call, when there is no other thread of ours.
        unsafe {
            std::env::set_var("TGEMM_DB", table);
            std::env::set_var("TGEMM_TUNE", "1");
            std::env::set_var("TGEMM_UNTUNED", scratch::folder().join("global.csv"));
        }
    });
    scratch::file("t.csv", TABLES[0]);
    scratch::remove("untuned.csv");
}

/// Runs the program that `bytes` are.
pub fn run(bytes: &[u8]) {
    prepare();
    let mut feed = Feed::new(bytes);
    let mut model = Model::default();
    for _ in 0..CALLS_MAX {
        if feed.is_empty() {
            break;
        }
        calls::any(&mut model, &mut feed);
        model.read_all();
    }
    model.close();
}

/// Looks at a status, and at what is told of a failure.
fn checked(status: TgemmStatus) -> bool {
    // SAFETY: never NULL, and valid until the next call of this thread fails.
    let said = scratch::must(unsafe { std::ffi::CStr::from_ptr(tgemm_last_error()) }.to_str(), "an error's text");
    assert!(status != TgemmStatus::Panic, "{said}");
    assert!(status == TgemmStatus::Ok || !said.is_empty(), "{status:?} without a reason");
    status == TgemmStatus::Ok
}
