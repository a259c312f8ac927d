//! Starts a program with the shim in it, waits for it, and looks at what it left.
//!
//! | module | holds |
//! |---|---|
//! | [`shim`] | where the shim is, and how it gets into a program |
//! | [`host`] | the program: started, waited for, its end |
//! | `signals` | what is sent to us reaches the program |
//! | [`recording`] | the recorded files of its processes, as one |
//! | [`summary`] | what a recording comes to, for a person |
//! | [`tally`] | the counters of its processes, summed |

pub mod host;
pub mod recording;
pub mod shim;
mod signals;
pub mod summary;
pub mod tally;
