//! What a caller may get wrong, and where: numbers at their ends, texts with a NUL inside, handles on other threads, tables on
//! a read-only mount. What any bytes at all do is for the fuzz target `capi`.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};

use tgemm::backend::TgemmBackend;
use tgemm::constraints::TgemmConstraints;
use tgemm::database::{TgemmDatabase, tgemm_database_close, tgemm_database_open, tgemm_database_report};
use tgemm::device::TgemmDevice;
use tgemm::dispatch::TgemmDispatch;
use tgemm::lookup::{
    TgemmHit, TgemmSite, tgemm_explain, tgemm_lookup, tgemm_site_close, tgemm_site_lookup, tgemm_site_open,
};
use tgemm::plan::TgemmPlan;
use tgemm::problem::TgemmProblem;
use tgemm::recorder::{
    TgemmCall, TgemmRecorder, tgemm_record, tgemm_recorder_close, tgemm_recorder_flush, tgemm_recorder_open,
};
use tgemm::status::{TgemmStatus, tgemm_last_error};
use tgemm_db::format::tuned;
use tgemm_db::{Build, Choice, DType, Device, Site, Solution, Vendor};

const FOLDER: &str = "TGEMM_TEST_READ_ONLY_FOLDER";

/// Everything zero, which is the default of every field, but for the size.
macro_rules! sized {
    ($type:ident { $($field:ident: $value:expr),* }) => {
        $type { size: size_of::<$type>(), $($field: $value,)* ..zero() }
    };
}

/// One of the header's structures, all zero.
fn zero<T>() -> T {
    // SAFETY: they are made of integers and pointers.
    unsafe { std::mem::zeroed() }
}

fn choice(name: &str) -> Choice {
    let solution = Solution::bare(Build::unknown("gemm"), 7, name);
    let problem = Site::linear(64, 64, DType::F32).at(4).into();
    Choice::uncompared(problem, Device::named(Vendor::Cpu, "x86_64-v4", 2), solution, 1.0)
}

fn c(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn last() -> String {
    // SAFETY: never NULL, and no call of this thread fails meanwhile.
    unsafe { CStr::from_ptr(tgemm_last_error()) }.to_str().unwrap().to_owned()
}

fn open(path: &Path) -> *mut TgemmDatabase {
    let (path, mut database) = (c(path), null_mut());
    let device = sized!(TgemmDevice { vendor: 3, arch: c"x86_64-v4".as_ptr(), compute_units: 2 });
    // SAFETY: all of it is there.
    let status = unsafe { tgemm_database_open(&path.as_ptr(), 1, &device, null(), &mut database) };
    assert_eq!(status, TgemmStatus::Ok, "{}", last());
    database
}

fn problem() -> TgemmProblem {
    sized!(TgemmProblem { m: 4, n: 64, k: 64, x: 2 })
}

/// A text that a call writes: what C sees, and how much was said to be needed.
fn written(call: impl FnOnce(*mut std::ffi::c_char, usize, *mut usize) -> TgemmStatus) -> (String, usize) {
    let (mut buffer, mut needed) = (vec![0u8; 4096], 0);
    assert_eq!(call(buffer.as_mut_ptr().cast(), buffer.len(), &mut needed), TgemmStatus::Ok, "{}", last());
    (CStr::from_bytes_until_nul(&buffer).unwrap().to_str().unwrap().to_owned(), needed)
}

#[test]
fn every_handle_may_go_to_another_thread_and_be_shared() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<TgemmBackend>();
    is_shared::<TgemmConstraints>();
    is_shared::<TgemmDatabase>();
    is_shared::<TgemmDispatch>();
    is_shared::<TgemmPlan>();
    is_shared::<TgemmRecorder>();
    is_shared::<TgemmSite>();
}

#[test]
fn counts_at_their_ends_are_refused_or_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("untuned.csv");
    let mut recorder = null_mut();
    let call = |calls: u64| sized!(TgemmCall { calls: calls });
    // SAFETY: all of it is there, and the recorder is open until it is closed.
    unsafe {
        assert_eq!(tgemm_recorder_open(c(&path).as_ptr(), &mut recorder), TgemmStatus::Ok);
        for calls in [u64::from(u32::MAX), u64::from(u32::MAX), 1, 0] {
            assert_eq!(tgemm_record(recorder, &problem(), &call(calls)), TgemmStatus::Ok, "{}", last());
        }
        for calls in [1 << 32, 1 << 63, u64::MAX] {
            assert_eq!(tgemm_record(recorder, &problem(), &call(calls)), TgemmStatus::Value);
            assert!(last().contains("at most 4294967295 are counted"), "{}", last());
        }
        assert_eq!(tgemm_recorder_flush(recorder), TgemmStatus::Ok);
        tgemm_recorder_close(recorder);
    }
    let rows = tgemm_db::recording::merge(tgemm_db::format::read_untuned(&path).unwrap().into_values());
    assert_eq!(rows[0].count, 2 * u64::from(u32::MAX) + 2);
}

#[test]
fn a_nul_from_a_table_ends_no_text_early() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    tuned::write(&path, &[choice("before\0behind")]).unwrap();
    let database = open(&path);
    // SAFETY: the database is open, and the rest is there.
    unsafe {
        let (told, needed) =
            written(|to, bytes, needed| tgemm_explain(database, &problem(), null(), to, bytes, needed));
        assert_eq!(told.len() + 1, needed, "{told}");
        assert!(told.contains("before?behind"), "{told}");
        // Where the text has a length, it is as it was.
        let mut hit = sized!(TgemmHit {});
        assert_eq!(tgemm_lookup(database, &problem(), null(), &mut hit), TgemmStatus::Ok);
        let name = std::slice::from_raw_parts(hit.name.data.cast::<u8>(), hit.name.bytes);
        assert_eq!(name, b"before\0behind");
        tgemm_database_close(database);
    }
}

#[test]
fn a_site_that_another_thread_closes_outlives_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    tuned::write(&path, &[choice("gemm")]).unwrap();
    let database = open(&path);
    let mut site = null_mut();
    // SAFETY: all of it is there.
    assert_eq!(unsafe { tgemm_site_open(database, &problem(), &mut site) }, TgemmStatus::Ok);
    let site = site.expose_provenance();
    // SAFETY: nobody uses it any more but the site, which holds what it needs.
    unsafe { tgemm_database_close(database) };
    let closed = std::thread::spawn(move || {
        let site: *mut TgemmSite = std::ptr::with_exposed_provenance_mut(site);
        let mut hit = sized!(TgemmHit {});
        // SAFETY: it is open until it is closed, and this thread alone has it.
        unsafe {
            assert_eq!(tgemm_site_lookup(site, 0, null(), &mut hit), TgemmStatus::Value);
            assert_eq!(tgemm_site_lookup(site, 4, null(), &mut hit), TgemmStatus::Ok);
            tgemm_site_close(site);
        }
        (hit.kind, last())
    });
    let (kind, said) = closed.join().unwrap();
    assert_eq!(kind, 1);
    assert!(said.contains("M is 0"), "{said}");
    assert!(!last().contains("M is 0"), "the error of another thread");
}

#[test]
fn tables_open_from_a_read_only_mount() {
    let folder = tempfile::tempdir().unwrap();
    tuned::write(&folder.path().join("t.csv"), &[choice("gemm")]).unwrap();
    // Whether this build reads databases or not, it has to say what is wrong with half of one.
    std::fs::write(folder.path().join("t.sqlite"), b"SQLite format 3\0 and then nothing").unwrap();
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-ec", script]).env("D", folder.path());
        command.env(FOLDER, folder.path()).env("EXE", std::env::current_exe().unwrap()).output()
    };
    let mount = "mount --bind \"$D\" \"$D\" && mount -o remount,bind,ro \"$D\" && ! touch \"$D/x\" 2>/dev/null";
    if !run(mount).is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine does not allow mounts in a name space (unshare --mount --map-root-user)");
        return;
    }
    let body = "exec \"$EXE\" --exact body_on_a_read_only_mount --ignored --nocapture";
    let output = run(&format!("{mount}\n{body}")).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("test result: ok. 1 passed"), "the body failed");
}

#[test]
#[ignore = "body of tables_open_from_a_read_only_mount"]
fn body_on_a_read_only_mount() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    for (name, kind, says) in [("t.csv", 1, "1 rows serve here"), ("t.sqlite", 0, "t.sqlite: ")] {
        let database = open(&folder.join(name));
        let mut hit = sized!(TgemmHit {});
        // SAFETY: the database is open, and the rest is there.
        unsafe {
            let (told, _) = written(|to, bytes, needed| tgemm_database_report(database, to, bytes, needed));
            assert!(told.contains(says), "{told}");
            assert_eq!(tgemm_lookup(database, &problem(), null(), &mut hit), TgemmStatus::Ok);
            tgemm_database_close(database);
        }
        assert_eq!(hit.kind, kind, "{name}");
    }
}
