//! A scripted device that notes what it is asked to time.

use tgemm_db::Environment;

use crate::scripted::ScriptedContext;
use crate::{Arm, Backend, Between, Buffer, Context, Error, Library};

/// Where the operands of a launch lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) x: usize,
    pub(super) w: usize,
    pub(super) out: usize,
}

/// An arm that was timed.
pub(super) struct Noted {
    pub(super) start: usize,
    pub(super) calls: u32,
    /// Of its turns.
    pub(super) places: Vec<Place>,
    pub(super) before: Vec<Between>,
}

pub(super) struct Noting {
    inner: ScriptedContext,
    pub(super) arms: Vec<Noted>,
}

impl Noting {
    pub(super) fn new(inner: ScriptedContext) -> Noting {
        Noting { inner, arms: Vec::new() }
    }
}

impl Backend for Noting {
    fn environment(&self) -> &Environment {
        self.inner.environment()
    }
    fn libraries(&self) -> &[Box<dyn Library>] {
        self.inner.libraries()
    }
    fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        self.inner.alloc(bytes)
    }
    fn synchronize(&self) -> Result<(), Error> {
        self.inner.synchronize()
    }
}

impl Context for Noting {
    fn write(&self, buffer: &mut Buffer, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.inner.write(buffer, offset, bytes)
    }
    fn read(&self, buffer: &Buffer, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.inner.read(buffer, offset, bytes)
    }
    fn available_bytes(&self) -> u64 {
        self.inner.available_bytes()
    }
    unsafe fn time(&mut self, block: &[Arm<'_>]) -> Result<Vec<f64>, Error> {
        for arm in block {
            let places = arm.turns.iter().map(|turn| {
                let io = &turn.io;
                Place { x: io.x as usize, w: io.w as usize, out: io.out as usize }
            });
            let before = arm.turns.iter().map(|turn| turn.before).collect();
            self.arms.push(Noted { start: arm.start, calls: arm.calls, places: places.collect(), before });
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.time(block) }
    }
}
