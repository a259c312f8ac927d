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
//! | module | holds |
//! |---|---|
//! | [`database`] | choices made ready, and the lookup |
//! | [`load`] | which files, and what became of each of their rows |
//! | [`ladder`] | the token counts that a lookup tries: exact, then AITER's padding |
//! | `moe` | the rules of fused MoE layers: AITER's tiers, vLLM's nearest M |
//! | [`explain`] | which level answered and why the better ones did not |
//! | `dispatch` | runs the choice (feature `dispatch`) |
//!
//! The hit path takes no lock, allocates nothing, logs nothing and opens nothing.

mod admit;
pub mod database;
#[cfg(feature = "dispatch")]
pub mod dispatch;
pub mod explain;
mod index;
pub mod ladder;
pub mod load;
mod moe;
mod rank;
mod site_key;

pub use database::{Database, Hit, HitKind, SiteTable};
pub use explain::Explanation;
pub use load::{FileReport, LoadReport};

#[cfg(test)]
mod tests;
