//! One child process per context: what may crash, hang or scribble runs there, never in the parent.
//!
//! The parent ([`supervise`]) decides everything and keeps every result; the child ([`serve`]) opens the device and does
//! what it is told, one request at a time ([`wire`]). The two talk over a socket pair that is the child's standard input,
//! because vendor libraries print to standard output.

pub mod serve;
pub mod supervise;
pub mod wire;

pub use supervise::{Interrupt, Loss, Worker};
pub use wire::{Candidate, Entry, MixEntry, MixPart, MixTurn, Reply, Request};
