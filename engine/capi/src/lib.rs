//! The C interface of tgemm: what an engine that is not written in Rust links to find tuned GEMMs and to record its own.
//!
//! `include/tgemm.h` is made from these sources by cbindgen and checked in; the test `header` compares the two and, with
//! `TGEMM_BLESS=1`, writes it. The text at the head of the header holds the rules for callers, and tells how to begin.
//!
//! How the interface is kept whole while it grows:
//! - Structures start with their size as the caller knows it. Zero is the default of every field, of those that are there
//!   and of those that come later, so either side may be older than the other. Fields are added at the end, never changed.
//! - Words are numbers that are written out here and never given anew. They travel as plain integers and are checked, as a
//!   number that is no variant must never become a Rust enum.
//! - Nothing unwinds into C: every function that can fail returns a status, with a text kept for its thread.
//!
//! | module | holds |
//! |---|---|
//! | [`status`] | statuses, the last error, and what stops a panic |
//! | [`versioned`] | structures that grow |
//! | [`text`] | texts in and out |
//! | [`words`] | enumerations, and their Rust words |
//! | [`handle`] | opaque handles |
//! | [`problem`], [`constraints`], [`device`] | what callers say |
//! | [`database`], [`lookup`], [`tally`] | what they ask |
//! | [`backend`], [`dispatch`], [`plan`] | what runs the answer |
//! | [`recorder`] | what they tell |

#![allow(
    clippy::missing_safety_doc,
    reason = "the rules of pointers and handles stand once, at the head of the header"
)]

pub mod backend;
pub mod constraints;
pub mod database;
pub mod device;
pub mod dispatch;
pub mod handle;
pub mod lookup;
pub mod plan;
pub mod problem;
pub mod recorder;
pub mod status;
pub mod tally;
pub mod text;
pub mod versioned;
pub mod words;

use std::ffi::{CStr, c_char};

/// Goes up when a program that was compiled with an older header would no longer work.
pub const TGEMM_ABI_VERSION: u32 = 1;

/// The library's version, with a NUL.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the library that runs, such as "0.1.0"; never NULL, and always there.
#[unsafe(no_mangle)]
pub extern "C" fn tgemm_version() -> *const c_char {
    CStr::from_bytes_with_nul(VERSION.as_bytes()).unwrap_or(c"").as_ptr()
}

/// The TGEMM_ABI_VERSION of the library that runs: compare it with that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn tgemm_abi_version() -> u32 {
    TGEMM_ABI_VERSION
}

#[cfg(test)]
mod tests;
