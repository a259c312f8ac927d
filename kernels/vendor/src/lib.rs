//! Vendor libraries, opened at run time or not at all: nothing here is linked, so a binary with this crate in it starts
//! on a machine that has none of them, and says which it looked for.
//!
//! | module | holds |
//! |---|---|
//! | [`load`] | the search for a library, the file it was really loaded from, [`Absent`] with everything tried |
//! | [`table`] | [`symbol_table!`]: a struct of function pointers, filled symbol by symbol |
//! | [`openmp`] | the thread count of the OpenMP runtime that a library uses |
//! | [`onednn`] | oneDNN 2.x and 3.x: matrix products on a CPU |
//! | [`gpu`] | HIP and CUDA, hipBLASLt and cuBLASLt, rocBLAS, cuBLAS, hipRTC and NVRTC |
//!
//! One file or folder a vendor library, with its numbers and where they come from. This crate knows a column-major
//! [`Call`](tgemm_db::blas::Call), which it turns into each library's own words; it does not know what a solution is.

pub mod gpu;
pub mod load;
pub mod onednn;
pub mod openmp;
pub mod table;

pub use load::{Absent, Attempt, Candidate, Loaded};
pub use table::MissingSymbol;
