//! A double of ROCm's libraries for tests: one shared library that answers as libamdhip64, libhipblaslt, librocblas,
//! libhiprtc and libhipblas, so that everything that drives them runs where there is no AMD card.
//!
//! **What it does not prove.** It is no AMD hardware, and it is written from the same public headers that its clients are
//! written from: a wrong reading of a header by both would agree with itself. Its times are made up, its solutions are all
//! one loop, kernels of modules run only in CUDA mode. It holds its own tables of numbers, on purpose none of its clients'.
//!
//! # How it is used
//!
//! [`install`] puts [`built`] into a folder under the sonames of a generation of ROCm; a process that is started with the
//! folder in `LD_LIBRARY_PATH` then finds "ROCm". The environment variable [`SCRIPT_VAR`] names a script:
//!
//! ```json
//! {
//!   "mode": "host",
//!   "generation": "7",
//!   "device": {"count": 1, "arch": "gfx942:sramecc+:xnack-", "name": "AMD Instinct MI300X", "cus": 304,
//!              "memory_bytes": 206158430208, "l2_bytes": 4194304, "warp": 64, "pci_bus_id": "0000:c1:00.0",
//!              "xccs": 8, "tflops": 600, "gb_s": 4000},
//!   "revision": "5b515cf1bc",
//!   "index_base": "revision",
//!   "trace": "trace.jsonl",
//!   "noise": {"sigma": 0.01, "seed": 1},
//!   "launch_gap_us": 0, "replay_gap_us": 0,
//!   "rocblas_overstates": 0,
//!   "ranked": 10,
//!   "solutions": [
//!     {"index": 17, "name": "Cijk_A", "tile": [128, 128], "split_k": 1},
//!     {"index": 18, "cost": {"times": 0.8}, "sigma": 0.05},
//!     {"index": 19, "cost": {"base_us": 2, "tflops": 300}, "only": {"types": ["bf16"], "trans": ["TN"], "m": [1, 64],
//!                                                                   "n": [1, 4096], "k": [1, 8192], "k_multiple": 8}},
//!     {"index": -5, "split_k": 4, "workspace_bytes": 1048576},
//!     {"index": 20, "cost": {"times": 0.1}, "fault": "wrong"},
//!     {"index": 21, "fault": {"error_status": 7}},
//!     {"index": -620, "library": "rocblas"}
//!   ]
//! }
//! ```
//!
//! Every field may be left out; the values above are the defaults, but for `revision` (the generation's), `index_base` (0),
//! `trace` (none), `noise` (none) and `solutions` (a set of the double's own whose true costs differ from what the library
//! believes). Without `generation` the name of the loaded file tells it, else it is 7; the three are 7.2, 6.4 and 5.7. Faults:
//! `none`, `wrong`, `nan`, `unwritten`, `out_of_bounds`, `nondeterministic`, `hang`, `abort`, `segfault`, `illegal_address`,
//! `{"error_status": N}`, `workspace`, `capture_fails`. A script that cannot be read is said on standard error, and no call
//! succeeds.
//!
//! # Host mode
//!
//! Device memory is host memory; a launch computes at once. Time is a virtual clock a stream: launches advance it by the
//! solution's cost and noise, events read it, nothing sleeps. A launch whose output holds already what it would write, by
//! the same product from operands that no call has written since, is timed and traced but not computed again; memory that
//! is written without a call (which a card's could not be) is not seen. An operand outside of all allocations loses the
//! device (`hipErrorIllegalAddress`).
//!
//! # CUDA mode
//!
//! `"mode": "cuda"` forwards to libcuda, libcublasLt, libcublas and libnvrtc, translating numbers and statuses. The real
//! device's sizes are reported under the scripted `arch` and name; `solutions`, faults and the trace are not used.

mod abi;
mod cuda;
mod element;
mod gemm;
mod hip;
mod hipblas;
mod hipblaslt;
mod hiprtc;
mod host;
mod install;
mod rocblas;
mod script;
mod solutions;
mod state;
mod trace;
mod version;

pub use install::{LIBRARY_VAR, SCRIPT_VAR, built, install, sonames};
