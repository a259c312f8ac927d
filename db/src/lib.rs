//! The words of GEMM tuning as types, and everything that can be said about them without a device:
//! their text form, their BLAS view, their cost, the files they are kept in, and the store.
//!
//! | module | holds |
//! |---|---|
//! | [`dtype`], [`problem`] | what is to be computed, typed |
//! | [`moe`] | fused mixture-of-experts layers |
//! | [`key`] | the canonical text form of a problem, and its parser |
//! | [`blas`] | the column-major BLAS call that a problem is; the only transposition in the house |
//! | [`cost`] | FLOPs, bytes, and the time a device's roofline allows |
//! | [`device`], [`solution`] | who computes, and how, with exact builds |
//! | [`outcome`], [`choice`] | what a sweep found, and what it decided |
//! | [`mod@format`] | one file a format: readers that never panic, writers that never tear |
//! | `store` | the SQLite database of a sweep (feature `sqlite`) |
//!
//! This crate opens no device and starts no thread.

pub mod atomic;
pub mod blas;
pub mod choice;
pub mod cost;
pub mod device;
pub mod dtype;
pub mod format;
pub mod key;
pub mod moe;
pub mod outcome;
pub mod problem;
pub mod recording;
pub mod solution;
#[cfg(feature = "sqlite")]
pub mod store;

pub use choice::{Choice, Constraints, Verdict};
pub use device::{Build, Device, Environment, Vendor};
pub use dtype::{Compute, DType};
pub use moe::{Moe, MoeSite};
pub use outcome::{Outcome, Trial};
pub use problem::{Gemm, Problem, Site};
pub use recording::{Recorded, Via};
pub use solution::{Numerics, Params, Solution, WeightForm};
