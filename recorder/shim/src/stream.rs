//! What the GPU's runtime says of a stream: the capture that it is in, and how far that has come.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use tgemm_vendor::gpu::Dialect;

/// A function of a library by its soname, if that is in the process.
struct Resident {
    soname: &'static [&'static CStr],
    name: &'static CStr,
    address: AtomicUsize,
}

impl Resident {
    /// The function `name` of the first of `soname` that is loaded; nothing is searched yet.
    const fn new(soname: &'static [&'static CStr], name: &'static CStr) -> Resident {
        Resident { soname, name, address: AtomicUsize::new(0) }
    }

    fn address(&self) -> Option<usize> {
        let known = self.address.load(Ordering::Relaxed);
        if known != 0 {
            return Some(known);
        }
        let found = self.soname.iter().find_map(|soname| crate::real::look_up(soname, self.name))?;
        self.address.store(found, Ordering::Relaxed);
        Some(found)
    }
}

/// What a runtime is asked, for [`Dialect::Hip`] and [`Dialect::Cuda`]: what is not wanted may be null.
type Info = unsafe extern "C" fn(usize, *mut i32, *mut u64, *mut usize, *mut usize, *mut usize) -> i32;
type Nodes = unsafe extern "C" fn(usize, *mut usize, *mut usize) -> i32;

const HIP: &[&CStr] = &[c"libamdhip64.so.7", c"libamdhip64.so.6"];
const CUDA: &[&CStr] = &[c"libcuda.so.1"];

/// The driver's (`cuda.h`, since 11.3) and HIP's (`hip_runtime_api.h`) are called alike.
static INFO: [Resident; 2] =
    [Resident::new(HIP, c"hipStreamGetCaptureInfo_v2"), Resident::new(CUDA, c"cuStreamGetCaptureInfo_v2")];
static NODES: [Resident; 2] = [Resident::new(HIP, c"hipGraphGetNodes"), Resident::new(CUDA, c"cuGraphGetNodes")];

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`, `hipStreamCaptureStatusActive`.
const CAPTURING: i32 = 1;

/// A capture under way, as it was when its stream was asked.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// The number that the runtime gives it: no other capture of this process has it.
    pub id: u64,
    /// Nodes that it had, if that is to be had.
    pub nodes: Option<u32>,
    dialect: Dialect,
    graph: usize,
}

impl Capture {
    /// Nodes that it has by now. It must still be under way.
    pub fn nodes_now(&self) -> Option<u32> {
        let address = NODES[self.dialect.pick(0, 1)].address()?;
        // SAFETY: the runtime's function of that name.
        let ask = unsafe { std::mem::transmute::<usize, Nodes>(address) };
        let mut count = 0;
        // SAFETY: the graph of a capture under way may be looked at; without a place for nodes only their number is written.
        let asked = unsafe { ask(self.graph, null_mut(), &raw mut count) };
        u32::try_from(count).ok().filter(|_| asked == 0)
    }
}

/// The capture that `stream` is in.
pub fn capture_of(dialect: Dialect, stream: usize) -> Option<Capture> {
    let address = INFO[dialect.pick(0, 1)].address()?;
    // SAFETY: the runtime's function of that name.
    let ask = unsafe { std::mem::transmute::<usize, Info>(address) };
    let (mut status, mut id, mut graph) = (0, 0, 0);
    // SAFETY: three values are written.
    let asked = unsafe { ask(stream, &raw mut status, &raw mut id, &raw mut graph, null_mut(), null_mut()) };
    if asked != 0 || status != CAPTURING {
        return None;
    }
    let capture = Capture { id, nodes: None, dialect, graph };
    Some(Capture { nodes: capture.nodes_now(), ..capture })
}
