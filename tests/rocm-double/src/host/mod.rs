//! The device that is played on the host: memory, queues with a virtual clock, and graphs.
//!
//! Nothing sleeps: each queue has a clock that launches advance by what they cost, and events read it. Work is done when it
//! is enqueued (or when its graph is launched), in order.

pub mod memory;
mod product;
mod queue;
mod run;

use std::collections::HashMap;
use std::sync::Arc;

use crate::abi::Answer;
use crate::gemm::Gemm;
use crate::script::{Device, Script};
use crate::solutions::Solution;
use crate::trace::Trace;
pub use memory::Memory;
pub use queue::{Event, Stream, exchange_thread_mode};

/// `hipErrorInvalidValue`.
pub const INVALID_VALUE: i32 = 1;
/// `hipErrorOutOfMemory`.
pub const OUT_OF_MEMORY: i32 = 2;
/// `hipErrorInvalidHandle`: CUDA's number, which HIP shares.
pub const INVALID_HANDLE: i32 = 400;
/// `hipErrorIllegalState`.
pub const ILLEGAL_STATE: i32 = 401;
/// `hipErrorIllegalAddress`.
pub const ILLEGAL_ADDRESS: i32 = 700;

/// A product to be launched.
#[derive(Clone, Debug)]
pub struct GemmWork {
    /// The library that was called, and the index by which it knows the solution.
    pub library: &'static str,
    pub index: i32,
    pub solution: Arc<Solution>,
    pub gemm: Gemm,
    pub workspace: usize,
}

/// What can be enqueued, or be a node of a graph.
#[derive(Clone, Debug)]
pub enum Work {
    Gemm(Box<GemmWork>),
    Set {
        to: usize,
        byte: u8,
        bytes: usize,
    },
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    /// A kernel of a module: noted and timed, but there is nothing here that could run it.
    Kernel {
        name: String,
    },
}

/// Why a product was not enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The scripted status.
    Status(i32),
    /// It cannot be captured, and the capture is spoilt; or there is no such stream, or the device is lost.
    Failed,
}

/// The whole state.
#[derive(Debug)]
pub struct Host {
    pub memory: Memory,
    pub device: Device,
    /// Names of kernels, one a line.
    pub modules: HashMap<usize, Vec<u8>>,
    pub functions: HashMap<usize, String>,
    streams: HashMap<usize, Stream>,
    events: HashMap<usize, Event>,
    graphs: HashMap<usize, Arc<Vec<Work>>>,
    execs: HashMap<usize, Arc<Vec<Work>>>,
    trace: Trace,
    next_handle: usize,
    launches: u64,
    /// How many were begun.
    captures: u64,
    launch_gap_us: f64,
    replay_gap_us: f64,
    /// The error that has taken the device from this process.
    lost: Option<i32>,
}

impl Host {
    pub fn new(script: &Script, trace: Trace) -> Host {
        Host {
            memory: Memory::new(script.device.memory_bytes),
            device: script.device.clone(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            // The default stream.
            streams: HashMap::from([(0, Stream::default())]),
            events: HashMap::new(),
            graphs: HashMap::new(),
            execs: HashMap::new(),
            trace,
            next_handle: 0x1000,
            launches: 0,
            captures: 0,
            launch_gap_us: script.launch_gap_us,
            replay_gap_us: script.replay_gap_us,
            lost: None,
        }
    }

    /// A handle that none other equals.
    pub fn handle(&mut self) -> usize {
        self.next_handle += 0x10;
        self.next_handle
    }

    /// After an illegal access every call answers with that error.
    pub fn alive(&self) -> Answer {
        self.lost.map_or(Ok(()), Err)
    }
}
