//! What an engine links: tuned tables made ready, the ladder of hits, and why a lookup answered as it did.
//!
//! ```
//! # use tgemm_db::{Constraints, DType, Environment, Site, device::{Device, Vendor}};
//! # let here = Environment { device: Device { vendor: Vendor::Cpu, arch: "x86_64-v4".into(), compute_units: 8,
//! #     memory_gib: None, chip_id: None, partition: None, last_level_cache_bytes: 0 }, builds: vec![],
//! #     driver: String::new(), vars: Default::default() };
//! use tgemm_lookup::{Database, HitKind};
//!
//! let (database, report) = Database::open(&["tuned.csv".into()], &here); // never fails: what is unreadable is reported
//! println!("{report}");
//! let constraints = Constraints::default();
//! let layer = database.site(&Site::linear(1024, 3072, DType::Bf16)); // once a layer
//! let hit = layer.at(4, &constraints); // once a call: no lock, no allocation
//! assert_eq!(hit.kind, HitKind::Default); // nothing was tuned: run what you would have run without us
//! ```
//!
//! Each level below the first answers only where the ones above do not, and only with what the constraints allow at the real
//! problem. [`Levels`] says how far down a lookup may go; it stops before predictions unless it is told otherwise:
//!
//! | [`HitKind`] | what runs | on by default |
//! |---|---|---|
//! | `Exact` | what was tuned for this very problem | always |
//! | `Padded` | what was tuned at the M that AITER's padding names | yes |
//! | `Interval` | the better neighbour's winner, between two tuned M of the site | yes |
//! | `Predicted` | a winner of a tuned site close by, which nobody timed here | no |
//! | `Default` | nothing: what would have run without us | always |
//!
//! | module | holds |
//! |---|---|
//! | [`database`] | choices made ready, and the lookup |
//! | [`layers`], [`load`] | which tables count before which, and what became of each of their rows |
//! | [`live`] | a database that is replaced whole when its files change |
//! | [`levels`] | how far from what was tuned a lookup may answer |
//! | [`ladder`] | the token counts that a lookup tries: exact, then AITER's padding |
//! | [`interval`], [`predict`] | an M between two tuned ones; a site beside a tuned one |
//! | `moe` | the rules of fused MoE layers: AITER's tiers, vLLM's nearest M |
//! | [`explain`] | which level answered and why the better ones did not |
//! | [`tally`] | how lookups answered, and the misses as what to tune next |
//! | `dispatch` | runs the choice (feature `dispatch`) |
//!
//! The hit path takes no lock, allocates nothing, logs nothing and opens nothing.
//!
//! # What bounds a call
//! A lookup is wait-free: it ends after a bounded number of steps of its own, whatever other threads do. A [`Database`] never
//! changes once it is made, so that nothing is tried again and nobody is waited for. Its steps are
//!
//! - one probe for the site. The map looks at each group of its slots at most once, and an eighth of all slots is free, where
//!   it ends: one group or two for real sites. For a table made on purpose, whose sites all collide, it is the number of sites;
//! - one search by halving among the M of the site on one step of a sixteenth of an octave, again for each of AITER's two
//!   padded M where the rows beside do not settle it;
//! - the rows at that M in turn, until one is allowed: as many as the table has for one problem;
//! - for an interval [`interval::NEIGHBOURS_MAX`] rows on either side, and those of the last M there;
//! - for a prediction the tuned sites of the same types within half an octave of N, then [`predict::NEIGHBOURS_MAX`] of them
//!   as above.
//!
//! [`Live::table`] adds arc-swap's load, whose readers are wait-free; a writer that replaces the table waits, they never do.

mod admit;
mod builder;
pub mod database;
#[cfg(feature = "dispatch")]
pub mod dispatch;
pub mod explain;
mod floor;
mod gather;
mod index;
pub mod interval;
pub mod ladder;
pub mod layers;
pub mod levels;
pub mod live;
pub mod load;
mod moe;
mod numbers;
pub mod predict;
mod rank;
mod site_key;
pub mod tally;

pub use database::{Database, Hit, HitKind, SiteTable};
pub use explain::Explanation;
pub use layers::{Layers, Shipped};
pub use levels::Levels;
pub use live::{Kept, Live, Refreshed};
pub use load::{FileReport, LoadReport};
pub use tally::Tally;

#[cfg(test)]
mod tests;
