//! A library to preload (`LD_PRELOAD`): it sees every GEMM that reaches a vendor library through the dynamic linker, and
//! records it, or runs a tuned choice in its place.
//!
//! | variable | meaning |
//! |---|---|
//! | `TGEMM_TUNE=1`, `TGEMM_UNTUNED` | record, and where to: see `tgemm_recorder` |
//! | `TGEMM_APPLY=1`, `TGEMM_DB` | apply the choices of these tuned CSVs; `TGEMM_APPLY=dry` only counts what would be |
//! | `TGEMM_COUNTERS` | where the file lies that `tune top` reads |
//!
//! What is promised to the host:
//! - its calls reach the function that they would have reached, with their arguments, once, and it gets the status;
//! - no thread, timer or signal handler is put into it; nothing of ours unwinds into it; a panic of ours switches us off;
//! - with nothing to do a call costs two loads and a jump.
//!
//! Not seen: functions found by `dlsym` (ctypes, cudarc, AMD's Python bindings), kernels of other origin (Triton, CUTLASS, CK,
//! AITER), libraries linked statically.
//!
//! A program that knows of it may stop and start it (`int tgemm_shim_pause(int paused)`), to measure with and without.
//!
//! | module | holds |
//! |---|---|
//! | `hooks` | the hooked functions, a file a library |
//! | `real` | the functions behind them |
//! | `guard` | what a library calls while it works is not counted again |
//! | `state` | what this process is asked to do |
//! | `product` | an argument list as a problem |
//! | `program` | which memory holds the program's constants |
//! | `seen` | a call that was looked at, and how it is counted |
//! | `apply` | tuned choices in the place of a library's own |
//! | `cache` | calls that a thread has made before |
//! | `captures` | which problems are in which graph |
//! | `stream` | what the GPU's runtime says of a stream: its capture |
//! | `thread` | what is kept for each thread, and how it is had |
//! | `shadow` | a number for each of a library's handles |

mod apply;
mod cache;
mod captures;
mod guard;
mod hooks;
mod product;
mod program;
mod real;
mod seen;
mod shadow;
mod state;
mod stream;
mod thread;
