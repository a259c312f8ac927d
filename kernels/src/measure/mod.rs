//! How a solution is checked and timed: operands of a problem, reference, gate and the bench that owns them.
//!
//! | module | holds |
//! |---|---|
//! | [`float`] | floating-point types, 8-bit ones too, whose values the host can make and read |
//! | [`scales`] | the factors of scaled problems |
//! | [`layout`] | where the rows of a matrix, or of a strided batch of them, lie in memory |
//! | [`data`] | operands: N(0,1)-like, asymmetric, made row by row from a seed, so that no host copy is kept |
//! | [`reference`](mod@reference) | what the outputs should be, in f64, and the norms that scale an error |
//! | [`gate`] | the error bound with its derivation, AITER's error ratio, "no worse than the baseline" |
//! | [`scan`] | one pass over a device's output: unwritten, not finite, out of bounds, bitwise digest, sampled cells |
//! | [`rotation`] | how many operand sets it takes to pass the last-level cache (pure arithmetic) |
//! | [`bench`](mod@bench) | [`Bench`]: one problem on one context, candidates loaded, verified and timed |
//! | [`mix`](mod@mix) | [`Mix`]: several problems timed together, each launch after another's |

pub mod bench;
pub mod data;
pub mod float;
pub mod gate;
pub mod layout;
pub mod mix;
mod packs;
pub mod reference;
pub(crate) mod rng;
pub mod rotation;
pub mod scales;
pub mod scan;
mod set;
mod slab;
mod verify;
mod zone;

pub use bench::{Bench, BenchOptions, BlockEntry, Loaded};
pub use gate::{Gate, no_worse_than_baseline};
pub use mix::{Mix, MixEntry, MixTurn};
pub use reference::Reference;
pub use verify::Verified;

#[cfg(all(test, feature = "cpu-crates"))]
mod cpu_tests;
#[cfg(all(test, feature = "scripted"))]
mod noting;
