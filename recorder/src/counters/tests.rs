use super::*;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn bytes_of(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join(std::process::id().to_string())).unwrap()
}

/// What reading a file of these bytes comes to.
fn read_bytes(bytes: &[u8]) -> Result<Snapshot, CountersError> {
    let folder = scratch();
    let path = folder.path().join("1");
    std::fs::write(&path, bytes).unwrap();
    Counters::read(&path)
}

#[test]
fn what_is_counted_is_read_while_the_process_runs() {
    let folder = scratch();
    let counters = Counters::create(folder.path()).unwrap();
    let path = counters.path().unwrap();
    assert_eq!(path, folder.path().join(std::process::id().to_string()));
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| counters.add(Counter::Seen, 1)));
        }
    });
    counters.add(Counter::SwitchedOff, 7);
    let snapshot = Counters::read(&path).unwrap();
    assert_eq!((snapshot.get(Counter::Seen), snapshot.get(Counter::SwitchedOff)), (4000, 7));
    assert_eq!(snapshot.counts.iter().map(|(_, value)| value).sum::<u64>(), 4007);
    let names: Vec<&str> = snapshot.counts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, Counter::ALL.iter().map(|counter| counter.name()).collect::<Vec<_>>());
    assert_eq!((snapshot.pid, snapshot.writer()), (std::process::id().into(), Writer::Runs));
    let reader = Reader::open(&path).unwrap();
    counters.remove();
    assert!(!path.exists());
    counters.add(Counter::Seen, 1);
    assert_eq!(reader.snapshot().unwrap().get(Counter::Seen), 4001, "who has it open reads on");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing else is left");
}

#[test]
fn threads_count_apart_and_are_read_together() {
    /// More than there are shares.
    const THREADS: usize = map::SHARES + 10;
    let folder = scratch();
    let counters = Counters::create(folder.path()).unwrap();
    let apart = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| match counters.share() {
                Some(share) => {
                    apart.fetch_add(1, Ordering::Relaxed);
                    (0..1000).for_each(|_| share.add(1));
                }
                None => (0..1000).for_each(|_| counters.add(Counter::Seen, 1)),
            });
        }
    });
    assert_eq!(apart.into_inner(), map::SHARES as u64);
    let seen = THREADS as u64 * 1000;
    let snapshot = Counters::read(&counters.path().unwrap()).unwrap();
    assert_eq!((snapshot.get(Counter::Seen), counters.get(Counter::Seen)), (seen, seen));
    assert_eq!(snapshot.counts.iter().map(|(_, value)| value).sum::<u64>(), seen, "and nothing else");
}

#[test]
fn the_names_are_those_that_were_promised() {
    let names: Vec<&str> = Counter::ALL.iter().map(|counter| counter.name()).collect();
    let promised = "seen captured replayed unrepresentable applied dry_hit left_as_is missed_not_tuned missed_workspace \
        missed_constraint missed_under_capture fallen_back_not_prepared fallen_back_not_started \
        fallen_back_build_differs switched_off";
    assert_eq!(names.join(" "), promised.split_whitespace().collect::<Vec<_>>().join(" "));
    for (at, counter) in Counter::ALL.iter().enumerate() {
        assert_eq!(*counter as usize, at);
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_and_no_bytes_panic() {
    let folder = scratch();
    let counters = Counters::create(folder.path()).unwrap();
    counters.add(Counter::Applied, 3);
    let whole = bytes_of(folder.path());
    assert_eq!(read_bytes(&whole).unwrap().get(Counter::Applied), 3);
    for end in 0..whole.len() {
        assert!(read_bytes(&whole[..end]).is_err(), "cut at {end}");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        let _ = read_bytes(&changed);
    }
    assert!(matches!(read_bytes(b""), Err(CountersError::Foreign(_))));
    assert!(matches!(read_bytes(&[0xff; 5000]), Err(CountersError::Foreign(_))));
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = scratch();
    let _counters = Counters::create(folder.path()).unwrap();
    let whole = bytes_of(folder.path());
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        read_bytes(&changed).unwrap_err()
    };
    assert!(matches!(with(8, &1u32.to_ne_bytes()), CountersError::Version { found: 1, .. }));
    let said = |error: CountersError| error.to_string();
    assert!(said(with(12, &u32::MAX.to_ne_bytes())).contains("at most 1024"));
    assert!(said(with(12, &64u32.to_ne_bytes())).contains("it ends after"));
    assert!(said(with(64, b"\x1b[2J")).contains("no name at byte 64"));
    let missing = Counters::read(&folder.path().join("none")).unwrap_err();
    assert!(matches!(missing, CountersError::Missing(_)));
    assert!(matches!(Counters::read(folder.path()).unwrap_err(), CountersError::Foreign(_)));
}

#[test]
fn a_file_of_an_ended_process_is_known_by_its_start() {
    let folder = scratch();
    let _counters = Counters::create(folder.path()).unwrap();
    let mut bytes = bytes_of(folder.path());
    assert_eq!(read_bytes(&bytes).unwrap().writer(), Writer::Runs);
    let ticks = u64::from_ne_bytes(*bytes[24..].first_chunk().unwrap());
    assert_ne!(ticks, 0);
    // Another process has the number now.
    bytes[24..32].copy_from_slice(&(ticks - 1).to_ne_bytes());
    assert_eq!(read_bytes(&bytes).unwrap().writer(), Writer::Ended);
    // Nobody has it: numbers end at 2^22 (proc_sys_kernel(5), pid_max).
    bytes[24..32].copy_from_slice(&ticks.to_ne_bytes());
    bytes[16..24].copy_from_slice(&(1u64 << 23).to_ne_bytes());
    assert_eq!(read_bytes(&bytes).unwrap().writer(), Writer::Ended);
}

#[test]
fn whatever_lies_in_the_way_is_replaced() {
    let folder = scratch();
    let path = folder.path().join(std::process::id().to_string());
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "keep me").unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    std::fs::write(folder.path().join(format!(".{}", std::process::id())), "half").unwrap();
    let counters = Counters::create(folder.path()).unwrap();
    counters.add(Counter::Seen, 2);
    assert_eq!(Counters::read(&path).unwrap().get(Counter::Seen), 2);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "keep me");
}

#[test]
fn a_folder_is_made_but_not_its_parents() {
    let scratch = scratch();
    let folder = scratch.path().join("own");
    drop(Counters::create(&folder).unwrap());
    assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    assert!(Counters::create(&scratch.path().join("no/such")).is_err());
    assert!(!scratch.path().join("no").exists());
    let counters = Counters::in_memory();
    counters.add(Counter::Replayed, 5);
    assert_eq!((counters.get(Counter::Replayed), counters.path()), (5, None));
}

/// Runs `child` in a forked process; its exit code.
fn forked(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs only the given closure, which waits for no lock of another thread, and `_exit`s.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: ends the child without the test harness's exit handlers.
        unsafe { libc::_exit(if good { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    libc::WEXITSTATUS(status)
}

#[test]
fn a_forked_child_counts_into_its_own_file() {
    let folder = scratch();
    let counters = Counters::create(folder.path()).unwrap();
    let share = counters.share().unwrap();
    share.add(4);
    counters.add(Counter::Seen, 6);
    let child = || {
        counters.reset_after_fork(folder.path()).unwrap();
        counters.add(Counter::Seen, 2);
        share.add(1);
        let own = Counters::read(&folder.path().join(std::process::id().to_string())).unwrap();
        own.get(Counter::Seen) == 3 && own.pid == u64::from(std::process::id()) && own.writer() == Writer::Runs
    };
    assert_eq!(forked(child), 0);
    assert_eq!(Counters::read(&counters.path().unwrap()).unwrap().get(Counter::Seen), 10);
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let ended: Vec<Snapshot> = files
        .filter(|path| Some(path) != counters.path().as_ref())
        .map(|path| Counters::read(&path).unwrap())
        .collect();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].get(Counter::Seen), ended[0].writer()), (3, Writer::Ended));
}

#[test]
fn a_forked_child_without_a_folder_counts_in_memory_and_leaves_the_parents_file() {
    let folder = scratch();
    let counters = Counters::create(folder.path()).unwrap();
    counters.add(Counter::Seen, 10);
    let child = || {
        let refused = counters.reset_after_fork(Path::new("/proc/no/such")).is_err();
        counters.add(Counter::Seen, 3);
        counters.remove();
        refused && counters.get(Counter::Seen) == 3 && counters.path().is_none()
    };
    assert_eq!(forked(child), 0);
    assert_eq!(Counters::read(&counters.path().unwrap()).unwrap().get(Counter::Seen), 10);
    // One that was never told of the fork does not remove what is not its own either.
    assert_eq!(
        forked(|| {
            counters.remove();
            true
        }),
        0
    );
    assert!(counters.path().unwrap().exists());
}

#[test]
fn only_a_yes_keeps_files() {
    assert!(is_kept(Some("1".into())));
    assert!(!is_kept(Some("0".into())) && !is_kept(Some("".into())) && !is_kept(None));
}
