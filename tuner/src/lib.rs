//! The tuner: from recorded problems to chosen solutions, and the `tune` command.
//!
//! | module | holds |
//! |---|---|
//! | [`models`], [`filter`] | problems from a model's `config.json`; which of them are meant |
//! | [`plan`] | which problem first, and how much time each gets |
//! | [`roofline`] | what a device could do at best |
//! | [`race`], [`stats`] | the decision, pure: no clock, no device |
//! | [`worker`] | the child process that touches the device, and its supervision |
//! | [`sweep`] | a plan through its contests into the store |
//! | [`launch`] | programs with the shim in them |
//! | [`report`] | progress, tables, JSON lines |
//! | [`selfcheck`] | what the owner of a card runs once, and sends |
//! | [`cli`] | one file a subcommand |

pub mod cli;
pub mod device;
pub mod filter;
pub mod launch;
pub mod models;
pub mod plan;
pub mod race;
pub mod report;
pub mod roofline;
pub mod selfcheck;
pub mod stats;
pub mod sweep;
pub mod worker;
