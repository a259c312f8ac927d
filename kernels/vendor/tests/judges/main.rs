//! Every number and every signature that this crate tells a GPU library, against what others say of it.
//!
//! | module | judge |
//! |---|---|
//! | [`cuda`] | `cudarc` and `nvml-wrapper-sys`: bindings that others made from NVIDIA's headers |
//! | [`rocm`] | AMD's own Python bindings of HIP, hipRTC and hipBLASLt, asked by `tests/judges/rocm_numbers.py` |
//! | [`rocblas`] | rocBLAS's public headers, which no package binds, written down a second time |
//! | [`kinds`] | none: one spelling of C types, to compare them in |
//! | [`python`] | none: a Python that has the bindings |
//!
//! A function that is added to a table without a judge fails a test here.

mod cuda;
mod kinds;
mod python;
mod rocblas;
mod rocm;
