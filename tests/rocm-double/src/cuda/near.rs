//! What lies around the algorithms that cuBLASLt offers, so that a list asked for whole is about as wide as what a search
//! finds on NVIDIA's own interface: hipBLASLt lists every solution that it has, cuBLASLt a few dozen at most.

use std::collections::HashSet;

use super::algo::{self, CudaAlgo, CudaResult};
use super::lt::Table;

/// `cublasLtMatmulAlgoConfigAttributes_t`, with its place in [`algo::config`] and its bytes.
const TILE: (i32, usize, usize) = (1, 1, 4);
const SPLIT_K: (i32, usize, usize) = (2, 3, 4);
const REDUCTION: (i32, usize, usize) = (3, 4, 4);
const CUSTOM: (i32, usize, usize) = (5, 6, 4);
const CLUSTER: (i32, usize, usize) = (8, 8, 2);

/// `cublasLtMatmulAlgoCapAttributes_t`.
const CAP_TILE_IDS: i32 = 6;
const CAP_CUSTOM_OPTION_MAX: i32 = 7;

/// `cublasLtClusterShape_t`, from 1x1x1 to the last of sixteen blocks; higher numbers are rarely taken.
const CLUSTERS: std::ops::RangeInclusive<u32> = 2..=15;
const CUSTOM_MAX: u32 = 31;
const SPLITS: [u32; 5] = [2, 3, 4, 6, 8];
/// `CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`: sums as exact as without.
const REDUCTION_COMPUTE_TYPE: u32 = 2;
/// Tiles are tried around the first of the ranked ones only.
const TILES_AROUND: usize = 1;
const TILES_MAX: usize = 24;

/// Most algorithms that are offered besides those that the library ranks.
const NEAR_MAX: usize = 192;

/// Changes of one algorithm: each a list of (attribute, value).
type Change = Vec<((i32, usize, usize), u32)>;

fn changes(table: &Table, from: &CudaAlgo, rank: usize) -> Vec<Change> {
    let one = |attribute, value| vec![(attribute, value)];
    let mut all: Vec<Change> = CLUSTERS.map(|shape| one(CLUSTER, shape)).collect();
    let custom_max = capability(table, from, CAP_CUSTOM_OPTION_MAX, 1).first().copied().unwrap_or(0);
    all.extend((0..=custom_max.min(CUSTOM_MAX)).map(|custom| one(CUSTOM, custom)));
    all.extend(SPLITS.map(|parts| vec![(SPLIT_K, parts), (REDUCTION, REDUCTION_COMPUTE_TYPE)]));
    all.push(vec![(SPLIT_K, 1), (REDUCTION, 0)]);
    if rank < TILES_AROUND {
        all.extend(capability(table, from, CAP_TILE_IDS, TILES_MAX).into_iter().map(|tile| one(TILE, tile)));
    }
    all
}

/// A capability of the algorithm's family: at most `count` 32-bit numbers.
fn capability(table: &Table, algo: &CudaAlgo, attribute: i32, count: usize) -> Vec<u32> {
    let mut bytes = 0usize;
    let size = &raw mut bytes as usize;
    let mut values = Vec::new();
    // Asked with no room, it tells how much there is.
    if table.cap_get(algo.as_ptr() as usize, attribute, 0, 0, size).is_ok() {
        values = vec![0u32; bytes / 4];
        let room = values.len() * 4;
        if table.cap_get(algo.as_ptr() as usize, attribute, values.as_mut_ptr() as usize, room, size).is_err() {
            values.clear();
        }
    }
    values.truncate(count);
    values
}

/// Algorithms that differ from one of `ranked` in one respect and that `check` takes, without those that are ranked. What is
/// near to the first comes first.
pub fn near(
    table: &Table,
    ranked: &[CudaResult],
    workspace_bytes: u64,
    check: impl Fn(&CudaAlgo) -> Result<CudaResult, i32>,
) -> Vec<CudaResult> {
    let mut seen: HashSet<_> = ranked.iter().filter_map(|result| algo::config(table, &result.algo).ok()).collect();
    let mut found = Vec::new();
    for (rank, from) in ranked.iter().enumerate() {
        let Ok(config) = algo::config(table, &from.algo) else { continue };
        for change in changes(table, &from.algo, rank) {
            let mut wanted = config;
            let mut changed = from.algo;
            let set = change.iter().all(|&((attribute, place, bytes), value)| {
                wanted[place] = value;
                let (to, value) = (changed.as_mut_ptr() as usize, &raw const value as usize);
                table.config_set(to, attribute, value, bytes).is_ok()
            });
            if !set || !seen.insert(wanted) {
                continue;
            }
            let Ok(result) = check(&changed) else { continue };
            // The library may take it and make something else of it.
            let is_kept = algo::config(table, &result.algo) == Ok(wanted);
            if is_kept && result.state == 0 && result.workspace <= workspace_bytes {
                found.push(result);
            }
            if found.len() >= NEAR_MAX {
                return found;
            }
        }
    }
    found
}
