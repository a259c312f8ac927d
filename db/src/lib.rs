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
//! | [`mod@origin`], [`name`] | which row of which file something was read from; names that are shared |
//! | [`mod@format`] | one file a format: readers that never panic, writers that never tear |
//! | [`mod@merge`], [`mod@diff`] | several tables made one by the one rule, and what differs between two |
//! | [`mod@lint`] | what is wrong with a file, with a stable code and the mend |
//! | [`mod@coverage`], [`mod@stats`] | how much of a recording a table answers, and what it holds |
//! | `store` | the SQLite database of a sweep (feature `sqlite`) |
//!
//! This crate opens no device and starts no thread.

pub mod atomic;
pub mod blas;
pub mod choice;
pub mod cost;
pub mod coverage;
pub mod device;
pub mod diff;
pub mod dtype;
pub mod format;
pub mod key;
pub mod lint;
pub mod merge;
pub mod moe;
pub mod name;
pub mod origin;
pub mod outcome;
pub mod problem;
pub mod recording;
pub mod solution;
pub mod stats;
#[cfg(feature = "sqlite")]
pub mod store;

pub use choice::{Choice, Constraints, Verdict};
pub use device::{Build, Device, Environment, Vendor};
pub use dtype::{Compute, DType};
pub use moe::{Moe, MoeSite};
pub use name::Name;
pub use origin::{Origin, Source};
pub use outcome::{Outcome, Trial};
pub use problem::{Gemm, Problem, Site};
pub use recording::{Follows, Recorded, Via};
pub use solution::{Numerics, Params, Solution, WeightForm};
