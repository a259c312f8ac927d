//! The host's processors opened in this process: their libraries, memory, and how a block of launches is timed.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use tgemm_db::Environment;

use super::batched::Batched;
use super::memory;
use super::widen::Widened;
use crate::{Arm, Backend, Buffer, Context, Error, Launch, Library, Queue, Stream};

/// Environment variables that change which kernel runs, or on how many threads.
const VARS: &[&str] = &["MATMUL_NUM_THREADS", "RAYON_NUM_THREADS"];

/// How long an arm runs untimed before it is timed: caches and branch predictors warm to it, and threads that another
/// library left spinning give up their cores. OpenMP's spin for far longer by default; whoever times sees to it that
/// they do not (the tuner's worker sets `GOMP_SPINCOUNT` and `KMP_BLOCKTIME`).
const LEAD_IN: Duration = Duration::from_millis(2);

/// The host's processors, opened.
pub struct CpuContext {
    environment: Environment,
    libraries: Vec<Box<dyn Library>>,
    absent: Vec<(String, String)>,
}

impl CpuContext {
    /// Opens every library that can be opened here. A library that cannot is no error: see [`CpuContext::absent`].
    pub fn open() -> CpuContext {
        let mut absent = Vec::new();
        let mut libraries: Vec<Box<dyn Library>> = Vec::new();
        #[cfg(feature = "cpu-crates")]
        {
            libraries.push(Box::new(Batched::as_engines_do(Box::new(Widened::as_engines_do(super::gemm::open())))));
            libraries.push(batched(Widened::new(super::rten::open())));
            libraries.push(batched(Widened::new(super::matrixmultiply::open())));
            libraries.push(Box::new(Batched::new(super::skinny::open())));
        }
        match super::onednn::open() {
            Ok(library) => libraries.push(batched(Widened::new(library))),
            Err(why) => absent.push(("onednn".to_owned(), why.to_string())),
        }
        let mut builds: Vec<_> = libraries.iter().map(|library| library.build().clone()).collect();
        builds.sort();
        let environment = Environment { device: super::device(), builds, driver: kernel_release(), vars: vars() };
        CpuContext { environment, libraries, absent }
    }

    /// The libraries that could not be opened, by name, each with the reason.
    pub fn absent(&self) -> &[(String, String)] {
        &self.absent
    }
}

/// `library`, with batches taken item by item.
fn batched(library: Widened) -> Box<dyn Library> {
    Box::new(Batched::new(Box::new(library)))
}

/// The kernel's name and release, such as `Linux 6.8.0-45-generic`; empty where it does not say.
fn kernel_release() -> String {
    let read = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    format!("{} {}", read("ostype").trim(), read("osrelease").trim()).trim().to_owned()
}

fn vars() -> BTreeMap<String, String> {
    let set = |name: &&str| Some(((*name).to_owned(), std::env::var_os(name)?.to_string_lossy().into_owned()));
    VARS.iter().chain(super::onednn::ENVIRONMENT_VARS).filter_map(set).collect()
}

impl Backend for CpuContext {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn libraries(&self) -> &[Box<dyn Library>] {
        &self.libraries
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        memory::alloc(bytes)
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Launches run on the thread that makes them.
    fn queue(&self, _: Stream) -> Queue {
        Queue::of_this_thread()
    }
}

impl Context for CpuContext {
    fn write(&self, buffer: &mut Buffer, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        buffer.check_range("write", offset, bytes.len())?;
        // SAFETY: the range is within the buffer, which is ours alone while it is borrowed.
        unsafe { buffer.as_mut_ptr().cast::<u8>().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        buffer.check_range("read", offset, bytes.len())?;
        // SAFETY: the range is within the buffer, every byte of which is initialised: `alloc` zeroes, or recycles.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(buffer.as_ptr().cast::<u8>().add(offset), bytes.len()) };
        Ok(())
    }

    fn available_bytes(&self) -> u64 {
        memory::available_bytes()
    }

    unsafe fn time(&mut self, block: &[Arm<'_>]) -> Result<Vec<f64>, Error> {
        // SAFETY: the contract of this method.
        block.iter().map(|arm| unsafe { time_arm(arm) }).collect()
    }
}

/// Mean microseconds of one call of `arm`, after the lead-in.
///
/// # Safety
/// As [`Context::time`].
unsafe fn time_arm(arm: &Arm<'_>) -> Result<f64, Error> {
    if arm.turns.is_empty() || arm.calls == 0 {
        return Err(Error::Failed { call: "time".into(), reason: "an arm without operands or calls".into() });
    }
    let launch = |at: usize| {
        // SAFETY: the contract of this function.
        unsafe { arm.turns[at].launch(Stream::DEFAULT) }.map_err(|failed| match failed {
            Launch::NotEnqueued(error) | Launch::MayHaveRun(error) => error,
        })
    };
    let (turns, calls) = (arm.turns.len(), arm.calls as usize);
    let start = arm.start % turns;
    // The lead-in goes backwards from the first timed set, so that it warms none of the operands that are timed first.
    let began = Instant::now();
    let mut back = start;
    loop {
        back = (back + turns - 1) % turns;
        launch(back)?;
        if began.elapsed() >= LEAD_IN {
            break;
        }
    }
    let began = Instant::now();
    let mut at = start;
    for _ in 0..calls {
        launch(at)?;
        at = if at + 1 == turns { 0 } else { at + 1 };
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(arm.calls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Between, Operands, Packed, Prepared, Turn};
    use std::ffi::c_void;
    use std::sync::Mutex;
    use tgemm_db::{Build, Solution};

    /// Notes the order of its launches; fails from the given one on.
    struct Noted {
        solution: Solution,
        launched: Mutex<Vec<usize>>,
        fail_from: usize,
    }

    impl Noted {
        fn new(fail_from: usize) -> Noted {
            let solution = Solution::bare(Build::unknown("noted"), 0, "");
            Noted { solution, launched: Mutex::default(), fail_from }
        }
    }

    impl Prepared for Noted {
        fn ran(&self) -> &Solution {
            &self.solution
        }
        fn workspace_bytes(&self) -> usize {
            0
        }
        fn pack_key(&self) -> Option<&str> {
            None
        }
        unsafe fn pack(&self, _: *const c_void) -> Result<Option<Packed>, Error> {
            Ok(None)
        }
        unsafe fn launch(&self, io: &Operands, _: Stream) -> Result<(), Launch> {
            let mut launched = self.launched.lock().unwrap();
            launched.push(io.workspace_bytes);
            if launched.len() > self.fail_from {
                return Err(Launch::MayHaveRun(Error::unsupported("worn out")));
            }
            drop(launched);
            std::thread::sleep(Duration::from_micros(300));
            Ok(())
        }
    }

    #[test]
    fn arms_are_led_in_and_go_round_their_rotation() {
        let noted = Noted::new(usize::MAX);
        let turns = [0, 1, 2].map(|workspace_bytes| Turn {
            id: 0,
            prepared: &noted,
            io: Operands { workspace_bytes, ..Operands::default() },
            before: Between::default(),
        });
        let mut context = CpuContext::open();
        let arm = Arm { turns: &turns, start: 4, calls: 5 };
        // SAFETY: these launches use no pointer.
        let times = unsafe { context.time(&[arm]) }.unwrap();
        assert!(times.len() == 1 && times[0] >= 300.0, "{times:?}");
        let launched = noted.launched.into_inner().unwrap();
        let (lead_in, timed) = launched.split_at(launched.len() - 5);
        assert_eq!(timed, [1, 2, 0, 1, 2]);
        assert!(!lead_in.is_empty() && lead_in[0] == 0, "{lead_in:?}");
    }

    #[test]
    fn a_failed_launch_and_an_empty_arm_are_errors() {
        let noted = Noted::new(2);
        let turns = [Turn { id: 0, prepared: &noted, io: Operands::default(), before: Between::default() }];
        let mut context = CpuContext::open();
        for (turns, calls) in [(&turns[..], 9), (&turns[..0], 1), (&turns[..], 0)] {
            let arm = Arm { turns, start: 0, calls };
            // SAFETY: these launches use no pointer.
            assert!(unsafe { context.time(&[arm]) }.is_err());
        }
    }

    #[test]
    fn the_environment_says_what_was_opened() {
        let context = CpuContext::open();
        let environment = context.environment();
        assert_eq!(environment.builds.len(), context.libraries().len());
        assert!(environment.builds.is_sorted());
        assert!(environment.builds.iter().all(Build::is_known));
        assert_eq!(context.libraries().iter().any(|l| l.build().library == "onednn"), context.absent().is_empty());
        assert!(!cfg!(target_os = "linux") || environment.driver.starts_with("Linux "), "{}", environment.driver);
        assert!(VARS.is_sorted());
    }

    #[test]
    fn copies_stay_within_their_buffer() {
        let context = CpuContext::open();
        let mut buffer = context.alloc(100).unwrap();
        context.write(&mut buffer, 98, &[7, 8]).unwrap();
        let mut bytes = [1; 3];
        context.read(&buffer, 97, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 7, 8]);
        assert!(context.read(&buffer, 98, &mut bytes).is_err());
        assert!(context.write(&mut buffer, usize::MAX, &bytes).is_err());
    }
}
