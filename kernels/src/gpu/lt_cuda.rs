//! cuBLASLt's solutions: nine configuration attributes, listed by its heuristic and searched around what proves good.
//!
//! Its heuristic lists few solutions for each preference (8 for most problems on an H200), and other ones for other
//! preferences. Blind enumeration of families, tiles and stages finds hundreds that run and none that is better: the
//! fastest family's clusters and variants are in no capability list. So: lists under several preferences, then one
//! attribute at a time changed around the best.

use std::collections::BTreeSet;
use std::sync::Arc;

use tgemm_db::{Numerics, Params, Solution};
use tgemm_vendor::gpu::blaslt::Config;
use tgemm_vendor::gpu::blaslt::algo::{Offer, Preference};
use tgemm_vendor::gpu::blaslt::product::Product;

use super::failed;
use super::lt::Lt;
use crate::{Effort, Error};

/// Entries asked of each list.
const LISTED: usize = 100;

/// Entries asked of the only list of the least effort.
const LISTED_MINIMAL: usize = 8;

/// Ways to add the parts of a sum that keep 32 bits: none, or in the compute type.
const REDUCTIONS_EXACT: u32 = 2;

/// No split of K that needs adding up.
const REDUCTIONS_NONE: u32 = 0;

/// In how many parts K is tried.
const SPLITS: [i32; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];

/// Highest variant that is tried of a family.
const CUSTOM_MAX: u32 = 63;

/// `cublasLtClusterShape_t`: the shapes that are tried, 2 (1x1x1) to 15, of which small ones come first.
const CLUSTERS: std::ops::RangeInclusive<u16> = 2..=15;

/// Tiles tried around one solution, and how much more work by waves they may mean.
const TILES_MAX: usize = 24;
const WAVES_MORE: f32 = 2.0;

/// Most neighbours of one solution.
const NEIGHBOURS_MAX: usize = 96;

fn params(config: &Config) -> Params {
    Params::new()
        .with("tile", config.tile)
        .with("stages", config.stages)
        .with("split_k", config.split_k)
        .with("reduction", config.reduction)
        .with("swizzle", config.swizzle)
        .with("custom", config.custom)
        .with("inner", config.inner)
        .with("cluster", config.cluster)
}

/// The configuration that [`params`] wrote.
fn config(solution: &Solution) -> Option<Config> {
    let p = &solution.params;
    Some(Config {
        id: i32::try_from(solution.index).ok()?,
        tile: p.parse("tile")?,
        stages: p.parse("stages")?,
        split_k: p.parse("split_k")?,
        reduction: p.parse("reduction")?,
        swizzle: p.parse("swizzle")?,
        custom: p.parse("custom")?,
        inner: p.parse("inner")?,
        cluster: p.parse("cluster")?,
    })
}

/// Where partial sums of a 16-bit output leave the accumulator in 16 bits: added in the output's type (4), in place (1), or
/// split without a word about how (0), which was seen to be a serial sum in the output's type.
fn numerics(config: &Config, out_bits: u32) -> Numerics {
    match config.split_k > 1 && config.reduction != REDUCTIONS_EXACT && out_bits <= 16 {
        true => Numerics::Partial16,
        false => Numerics::Exact,
    }
}

pub(super) fn solution(lt: &Lt, product: &Product, offer: &Offer) -> Result<Solution, Error> {
    let config = lt.library.config(&offer.algo).map_err(failed)?;
    Ok(Solution {
        params: params(&config),
        workspace_bytes: offer.workspace_bytes as u64,
        numerics: numerics(&config, product.call().c.bits()),
        ..Solution::bare(Arc::clone(&lt.build), config.id.into(), "")
    })
}

pub(super) fn candidates(
    lt: &Lt,
    product: &Product,
    preference: &Preference,
    effort: Effort,
) -> Result<Vec<Solution>, Error> {
    if effort == Effort::Minimal {
        return named(lt, product, lt.offers(product, preference, LISTED_MINIMAL)?);
    }
    let mut offers = Vec::new();
    let smaller = if effort >= Effort::Extensive { vec![1, 8, 0] } else { vec![1, 0] };
    for part in smaller {
        for reductions in [None, Some(REDUCTIONS_EXACT), Some(REDUCTIONS_NONE)] {
            let workspace_bytes_max = preference.workspace_bytes_max.checked_div(part).unwrap_or(0);
            let other = Preference { workspace_bytes_max, reductions, ..*preference };
            offers.extend(lt.offers(product, &other, LISTED)?);
        }
    }
    named(lt, product, offers)
}

/// The solutions of `offers`, each once.
fn named(lt: &Lt, product: &Product, offers: Vec<Offer>) -> Result<Vec<Solution>, Error> {
    let mut seen = BTreeSet::new();
    let mut solutions = Vec::new();
    for offer in offers {
        if seen.insert(lt.library.config(&offer.algo).map_err(failed)?) {
            solutions.push(solution(lt, product, &offer)?);
        }
    }
    Ok(solutions)
}

/// The algorithm of a solution, built from its attributes and checked; what the library then says it is must be the same.
pub(super) fn find(lt: &Lt, product: &Product, wanted: &Solution) -> Result<Offer, Error> {
    let config = config(wanted)
        .ok_or_else(|| Error::unsupported(format!("'{}' is no configuration of cuBLASLt", wanted.key())))?;
    let rejected = |what: &str, e| Error::unsupported(format!("this build does not {what} it: {}", failed(e)));
    let algo = lt.library.configure(product, &config).map_err(|e| rejected("configure", e))?;
    let offer = lt.library.check(product, &algo).map_err(|e| rejected("accept", e))?;
    let read_back = lt.library.config(&offer.algo).map_err(failed)?;
    if read_back != config {
        return Err(Error::unsupported(format!("asked for {config:?}, the library made it {read_back:?}")));
    }
    Ok(offer)
}

/// Solutions that differ from `around` in one attribute and that the library accepts.
pub(super) fn neighbours(
    lt: &Lt,
    product: &Product,
    around: &Solution,
    preference: &Preference,
) -> Result<Vec<Solution>, Error> {
    let Some(base) = config(around) else { return Ok(Vec::new()) };
    let capabilities = lt.library.capabilities(product, base.id).unwrap_or_default();
    let mut others: Vec<Config> = Vec::new();
    others.extend(SPLITS.iter().flat_map(|&split_k| {
        let reductions = if split_k == 1 { vec![0] } else { vec![REDUCTIONS_EXACT, base.reduction] };
        reductions.into_iter().map(move |reduction| Config { split_k, reduction, ..base })
    }));
    others.extend(CLUSTERS.map(|cluster| Config { cluster, ..base }));
    others.extend((0..=capabilities.custom_max.min(CUSTOM_MAX)).map(|custom| Config { custom, ..base }));
    others.extend((0..=1).map(|swizzle| Config { swizzle, ..base }));
    others.extend(capabilities.stages.iter().map(|&stages| Config { stages, ..base }));
    let mut seen = BTreeSet::from([base]);
    let mut solutions = Vec::new();
    let mut accept = |config: Config, waves_max: f32| -> Result<bool, Error> {
        if solutions.len() >= NEIGHBOURS_MAX || !seen.insert(config) {
            return Ok(false);
        }
        let Ok(algo) = lt.library.configure(product, &config) else { return Ok(false) };
        let Ok(offer) = lt.library.check(product, &algo) else { return Ok(false) };
        let fits = offer.workspace_bytes as u64 <= preference.workspace_bytes_max && offer.waves <= waves_max;
        if fits && lt.library.config(&offer.algo).map_err(failed)? == config {
            solutions.push(solution(lt, product, &offer)?);
            return Ok(true);
        }
        Ok(false)
    };
    for config in others {
        accept(config, f32::INFINITY)?;
    }
    let waves = find(lt, product, around).map_or(f32::INFINITY, |offer| offer.waves * WAVES_MORE);
    let mut tiles = 0;
    for &tile in &capabilities.tiles {
        tiles += usize::from(accept(Config { tile, ..base }, waves)?);
        if tiles >= TILES_MAX {
            break;
        }
    }
    Ok(solutions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::Build;

    #[test]
    fn a_configuration_survives_its_parameters() {
        let wanted = Config {
            id: 66,
            tile: 393,
            stages: 36,
            split_k: 2,
            reduction: 2,
            swizzle: 1,
            custom: 5,
            inner: 1,
            cluster: 3,
        };
        let solution = Solution { params: params(&wanted), ..Solution::bare(Build::unknown("cublaslt"), 66, "") };
        assert_eq!(config(&solution), Some(wanted));
        assert_eq!(config(&Solution { params: Params::new(), ..solution }), None);
    }

    #[test]
    fn partial_sums_in_16_bits_are_told_apart() {
        let whole = Config { split_k: 1, ..Config::default() };
        assert_eq!(numerics(&whole, 16), Numerics::Exact);
        for (reduction, want) in [(0, Numerics::Partial16), (1, Numerics::Partial16), (4, Numerics::Partial16)] {
            assert_eq!(numerics(&Config { split_k: 2, reduction, ..whole }, 16), want);
            assert_eq!(numerics(&Config { split_k: 2, reduction, ..whole }, 32), Numerics::Exact);
        }
        assert_eq!(numerics(&Config { split_k: 2, reduction: 2, ..whole }, 16), Numerics::Exact);
    }
}
