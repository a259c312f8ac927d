//! One call each, and what it is held to.

use std::ffi::c_char;
use std::ptr::{null, null_mut};

use tgemm::constraints::{TgemmConstraints, tgemm_constraints_close, tgemm_constraints_open};
use tgemm::database::{
    TgemmDatabase, tgemm_database_close, tgemm_database_open, tgemm_database_reload, tgemm_database_report,
    tgemm_database_rows, tgemm_database_trim,
};
use tgemm::lookup::{TgemmHit, tgemm_explain, tgemm_lookup, tgemm_site_close, tgemm_site_lookup, tgemm_site_open};
use tgemm::problem::{TgemmProblem, tgemm_problem_from_key, tgemm_problem_init, tgemm_problem_key};
use tgemm::recorder::{
    tgemm_record, tgemm_recorder_close, tgemm_recorder_flush, tgemm_recorder_global, tgemm_recorder_open,
};
use tgemm::status::TgemmStatus;
use tgemm::tally::{TgemmTally, tgemm_tally, tgemm_tally_write};
use tgemm::{tgemm_abi_version, tgemm_version};

use super::memory::{Memory, Room, at, structure, text};
use super::model::{Model, Owner, Site, pick};
use super::{TABLES, checked, products, values};
use crate::feed::Feed;
use crate::scratch;

/// Keys that are right, and some that are not.
const KEYS: &[&str] = &[
    "gemm,m=4,n=64,k=64,x=f32,w=f32,out=f32,compute=f32",
    "gemm,m=16,n=64,k=128,x=bf16,w=bf16,out=f32,compute=f32,bias=f32,act=gelu,trans=xw,ldx=40",
    "gemm,m=1,n=2,k=3,x=f16,w=i4,out=f16,compute=f32,batch=3,sx=1,sw=2,so=3",
    "moe,m=4,experts=8,topk=2,model=256,inter=128",
    "gemm",
    "",
];

/// The next call of the program.
pub(super) fn any(model: &mut Model, feed: &mut Feed<'_>) {
    match feed.below(28) {
        0 | 1 => open_database(model, feed),
        2 => open_site(model, feed),
        3 => open_constraints(model, feed),
        4 => open_recorder(model, feed),
        5..8 => lookup(model, feed),
        8..10 => site_lookup(model, feed),
        10 | 11 => record(model, feed),
        12 => explain(model, feed),
        13 => report(model, feed),
        14 => replace(feed),
        15 => reload(model, feed),
        16 => trim(model, feed),
        17 => tally(model, feed),
        18 => tally_write(model, feed),
        19 => problem_init(feed),
        20 => problem_from_key(feed),
        21 => problem_key(feed),
        22 => flush_and_rows(model, feed),
        23 => close(model, feed),
        _ => products::any(model, feed),
    }
}

/// Whom an opened handle goes to: nowhere, now and then.
pub(super) fn slot<T>(out: &mut *mut T, feed: &mut Feed<'_>) -> *mut *mut T {
    // What is not NULL must become so where nothing is opened.
    *out = std::ptr::dangling_mut();
    if feed.rarely(32) { null_mut() } else { out }
}

/// The handle that a call opened; `slot` is where it was told to put it.
pub(super) fn opened<T>(status: TgemmStatus, slot: *mut *mut T, out: *mut T) -> Option<*mut T> {
    let is_open = checked(status);
    assert!(slot.is_null() && !is_open || out.is_null() != is_open, "{status:?} and a handle of {out:p}");
    is_open.then_some(out)
}

fn open_database(model: &mut Model, feed: &mut Feed<'_>) {
    if Model::is_full(&model.databases) {
        model.close_database(0);
    }
    let names: Vec<String> = ["t.csv", "fixed.csv", "broken.csv", "none.csv", ""]
        .map(|name| scratch::folder().join(name).display().to_string())
        .into();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let first = text(&known[..1], feed);
    let (mut paths, mut count, _behind) = values::texts(&known, feed);
    let one = at(&first);
    if feed.rarely(2) {
        (paths, count) = (&raw const one, 1);
    }
    let (device, options) = (values::device(feed), values::options(feed));
    let mut out: *mut TgemmDatabase = null_mut();
    let to = slot(&mut out, feed);
    // SAFETY: all of it is there.
    let status = unsafe { tgemm_database_open(paths, count, device.pointer(), options.pointer(), to) };
    if let Some(handle) = opened(status, to, out) {
        model.add_database(handle);
    }
}

fn open_site(model: &mut Model, feed: &mut Feed<'_>) {
    if Model::is_full(&model.sites) {
        model.close_site(0);
    }
    let problem = values::problem(feed);
    let database = pick(&model.databases, feed);
    let handle = database.map_or(null(), |database| database.handle.cast_const());
    let number = database.map(|database| database.number);
    let mut out = null_mut();
    let to = slot(&mut out, feed);
    // SAFETY: the database is open, and the rest is there.
    let status = unsafe { tgemm_site_open(handle, problem.pointer(), to) };
    if let (Some(handle), Some(database)) = (opened(status, to, out), number) {
        model.sites.push(Site { handle, database });
    }
}

fn open_constraints(model: &mut Model, feed: &mut Feed<'_>) {
    if Model::is_full(&model.constraints) {
        // SAFETY: open until now.
        unsafe { tgemm_constraints_close(model.constraints.remove(0)) };
    }
    let limits = values::limits(feed);
    let mut out: *mut TgemmConstraints = null_mut();
    let to = slot(&mut out, feed);
    // SAFETY: all of it is there.
    let status = unsafe { tgemm_constraints_open(limits.pointer(), to) };
    model.constraints.extend(opened(status, to, out));
}

/// Is there nothing to be written, or only in our own folder?
fn is_harmless(path: &Option<Memory>) -> bool {
    let is_inside = |path: &[u8]| {
        let ours = scratch::folder().as_os_str().as_encoded_bytes();
        path == [0]
            || path.starts_with(b"/nowhere/")
            || path.starts_with(ours) && !path.windows(2).any(|two| two == b"..")
    };
    path.as_ref().is_none_or(|path| is_inside(path.bytes()))
}

fn open_recorder(model: &mut Model, feed: &mut Feed<'_>) {
    if Model::is_full(&model.recorders) {
        // SAFETY: open until now; that of the process is left alone.
        unsafe { tgemm_recorder_close(model.recorders.remove(0)) };
    }
    if feed.rarely(4) {
        let global = tgemm_recorder_global();
        assert!(!global.is_null() && global == tgemm_recorder_global(), "the environment asks for one");
        model.recorders.push(global);
        return;
    }
    let path = scratch::folder().join("untuned.csv").display().to_string();
    let path = text(&[&path], feed);
    if !is_harmless(&path) {
        return;
    }
    let mut out = null_mut();
    let to = slot(&mut out, feed);
    // SAFETY: all of it is there.
    let status = unsafe { tgemm_recorder_open(at(&path), to) };
    model.recorders.extend(opened(status, to, out));
}

pub(super) fn some_constraints(model: &Model, feed: &mut Feed<'_>) -> *const TgemmConstraints {
    pick(&model.constraints, feed).map_or(null(), |constraints| constraints.cast_const())
}

/// An answer's structure as a caller has it before the call.
fn hit(feed: &mut Feed<'_>) -> Memory {
    // SAFETY: any bytes are one.
    let mut hit: TgemmHit = unsafe { std::mem::zeroed() };
    hit.tuned_m = 77;
    structure(&hit, feed)
}

fn lookup(model: &mut Model, feed: &mut Feed<'_>) {
    let (problem, hit) = (values::problem(feed), hit(feed));
    let constraints = some_constraints(model, feed);
    let Some(database) = pick(&model.databases, feed) else {
        // SAFETY: NULL is refused.
        assert!(!checked(unsafe { tgemm_lookup(null(), problem.pointer(), constraints, hit.pointer()) }));
        return;
    };
    let (handle, number, before) = (database.handle, database.number, hit.bytes().to_vec());
    // SAFETY: handles are open, and the rest is there.
    if checked(unsafe { tgemm_lookup(handle, problem.pointer(), constraints, hit.pointer()) }) {
        model.add_answer(Owner::Database(handle), number, &hit);
    } else {
        assert_eq!(hit.bytes(), before, "a lookup that failed wrote an answer");
    }
}

fn site_lookup(model: &mut Model, feed: &mut Feed<'_>) {
    let (m, hit) = (feed.one(&[4, 9, 33, 512, 0, 1, 100_000, u32::MAX, 1 << 31]), hit(feed));
    let constraints = some_constraints(model, feed);
    let Some(&Site { handle, database }) = pick(&model.sites, feed) else { return };
    let before = hit.bytes().to_vec();
    // SAFETY: as above.
    if checked(unsafe { tgemm_site_lookup(handle, m, constraints, hit.pointer()) }) {
        model.add_answer(Owner::Site(handle), database, &hit);
    } else {
        assert_eq!(hit.bytes(), before, "a lookup that failed wrote an answer");
    }
}

fn record(model: &mut Model, feed: &mut Feed<'_>) {
    let (problem, call) = (values::problem(feed), values::call(feed));
    let recorder = pick(&model.recorders, feed).map_or(null(), |recorder| recorder.cast_const());
    // SAFETY: as above.
    checked(unsafe { tgemm_record(recorder, problem.pointer(), call.pointer()) });
}

/// A call that writes a text.
pub(super) fn written(feed: &mut Feed<'_>, call: impl FnOnce(*mut c_char, usize, *mut usize) -> TgemmStatus) {
    let room = Room::new(feed);
    let status = call(room.data(), room.bytes(), room.needed());
    let is_done = checked(status);
    let Some(data) = room.data.as_ref().map(Memory::bytes) else { return };
    let end = data.iter().position(|&byte| byte == 0);
    match (is_done, room.said()) {
        (true, said) => {
            let end = end.unwrap_or(data.len());
            assert!(end < data.len(), "a text without its NUL");
            assert!(std::str::from_utf8(&data[..end]).is_ok() && said.is_none_or(|said| said == end + 1));
        }
        (false, said) if status == TgemmStatus::Buffer => {
            assert!(said.is_none_or(|said| said > data.len()) && (data.is_empty() || end == Some(0)));
        }
        _ => assert!(data.iter().all(|&byte| byte == 0), "{status:?} and a text"),
    }
}

fn explain(model: &mut Model, feed: &mut Feed<'_>) {
    let (problem, constraints) = (values::problem(feed), some_constraints(model, feed));
    let database = pick(&model.databases, feed).map_or(null(), |database| database.handle.cast_const());
    // SAFETY: as above.
    written(feed, |data, bytes, needed| unsafe {
        tgemm_explain(database, problem.pointer(), constraints, data, bytes, needed)
    });
}

fn report(model: &mut Model, feed: &mut Feed<'_>) {
    let database = pick(&model.databases, feed).map_or(null(), |database| database.handle.cast_const());
    // SAFETY: as above.
    written(feed, |data, bytes, needed| unsafe { tgemm_database_report(database, data, bytes, needed) });
}

fn replace(feed: &mut Feed<'_>) {
    let table = feed.one(&TABLES);
    match feed.below(4) {
        0 => scratch::remove("t.csv"),
        1 => drop(scratch::file("t.csv", &table[..feed.word() as usize % (table.len() + 1)])),
        _ => drop(scratch::file("t.csv", table)),
    }
}

fn reload(model: &mut Model, feed: &mut Feed<'_>) {
    let at = feed.below(model.databases.len());
    let (mut changed, is_asked) = (7, !feed.rarely(4));
    let Some(database) = model.databases.get(at) else { return };
    // SAFETY: as above.
    let status = unsafe { tgemm_database_reload(database.handle, if is_asked { &mut changed } else { null_mut() }) };
    let is_done = checked(status);
    assert!(!is_asked || changed <= u32::from(is_done), "{status:?} and changed={changed}");
    if is_done {
        model.reloaded(at);
    }
}

fn trim(model: &mut Model, feed: &mut Feed<'_>) {
    let at = feed.below(model.databases.len());
    let Some(database) = model.databases.get(at) else { return };
    let handle = database.handle;
    model.trimmed(at);
    // SAFETY: no other thread, and older answers are forgotten.
    checked(unsafe { tgemm_database_trim(handle) });
}

fn tally(model: &mut Model, feed: &mut Feed<'_>) {
    // SAFETY: any bytes are one.
    let memory = structure(&unsafe { std::mem::zeroed::<TgemmTally>() }, feed);
    let Some(database) = pick(&model.databases, feed) else { return };
    // SAFETY: as above.
    let is_done = checked(unsafe { tgemm_tally(database.handle, memory.pointer()) });
    if is_done && memory.bytes().len() >= size_of::<TgemmTally>() {
        // SAFETY: as large as that.
        let tally = unsafe { memory.pointer::<TgemmTally>().read_unaligned() };
        let all = tally.exact + tally.padded + tally.interval + tally.predicted + tally.missed;
        assert_eq!(all, model.lookups(database.number), "{tally:?}");
        assert!(tally.untold <= tally.missed, "{tally:?}");
    }
}

fn tally_write(model: &mut Model, feed: &mut Feed<'_>) {
    let path = scratch::folder().join("misses.csv").display().to_string();
    let path = text(&[&path, "/nowhere/at/all.csv"], feed);
    if let Some(database) = pick(&model.databases, feed).filter(|_| is_harmless(&path)) {
        // SAFETY: as above.
        checked(unsafe { tgemm_tally_write(database.handle, at(&path)) });
    }
}

/// A problem that is to be filled.
fn empty_problem(feed: &mut Feed<'_>) -> Memory {
    // SAFETY: any bytes are one.
    structure(&unsafe { std::mem::zeroed::<TgemmProblem>() }, feed)
}

fn problem_init(feed: &mut Feed<'_>) {
    let problem = empty_problem(feed);
    let size = problem.bytes()[..size_of::<usize>().min(problem.bytes().len())].to_vec();
    // SAFETY: it is there.
    checked(unsafe { tgemm_problem_init(problem.pointer()) });
    assert!(problem.bytes().starts_with(&size), "its size is the caller's");
}

/// What a key says is what a problem says.
fn problem_from_key(feed: &mut Feed<'_>) {
    let (key, problem) = (text(KEYS, feed), empty_problem(feed));
    // SAFETY: both are there.
    if !checked(unsafe { tgemm_problem_from_key(at(&key), problem.pointer()) }) {
        return;
    }
    let again = empty_problem(&mut Feed::new(&[15]));
    let mut back = vec![0u8; 4096];
    // SAFETY: all of it is there.
    unsafe {
        let wrote = tgemm_problem_key(problem.pointer(), back.as_mut_ptr().cast(), back.len(), null_mut());
        assert!(checked(wrote), "a problem that was read from a key has none");
        assert!(checked(tgemm_problem_from_key(back.as_ptr().cast(), again.pointer())));
    }
    let (one, other) = (&problem.bytes()[size_of::<usize>()..], &again.bytes()[size_of::<usize>()..]);
    let both = one.len().min(other.len());
    // A field that is cut in its middle is not written.
    let whole = both - both % size_of::<u64>();
    assert_eq!(one[..whole], other[..whole], "a key and the key of its problem are two problems");
}

fn problem_key(feed: &mut Feed<'_>) {
    let problem = values::problem(feed);
    // SAFETY: all of it is there.
    written(feed, |data, bytes, needed| unsafe { tgemm_problem_key(problem.pointer(), data, bytes, needed) });
}

fn flush_and_rows(model: &mut Model, feed: &mut Feed<'_>) {
    assert_eq!(tgemm_abi_version(), tgemm::TGEMM_ABI_VERSION);
    assert!(!tgemm_version().is_null());
    let recorder = pick(&model.recorders, feed).map_or(null(), |recorder| recorder.cast_const());
    // SAFETY: as above.
    checked(unsafe { tgemm_recorder_flush(recorder) });
    let database = pick(&model.databases, feed).map_or(null(), |database| database.handle.cast_const());
    let mut rows = 0usize;
    // SAFETY: as above.
    checked(unsafe { tgemm_database_rows(database, if feed.rarely(8) { null_mut() } else { &mut rows }) });
}

fn close(model: &mut Model, feed: &mut Feed<'_>) {
    match feed.below(4) {
        0 if !model.databases.is_empty() => model.close_database(feed.below(model.databases.len())),
        1 if !model.sites.is_empty() => model.close_site(feed.below(model.sites.len())),
        2 if !model.recorders.is_empty() => {
            let at = feed.below(model.recorders.len());
            // SAFETY: open until now; that of the process is left alone.
            unsafe { tgemm_recorder_close(model.recorders.remove(at)) };
        }
        // SAFETY: NULL is none.
        _ => unsafe {
            tgemm_database_close(null_mut());
            tgemm_site_close(null_mut());
            tgemm_constraints_close(null_mut());
            tgemm_recorder_close(null_mut());
        },
    }
}
