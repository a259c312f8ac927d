//! hipBLASLt's solutions: an index that means nothing beside its build, kept with the library's own bytes.
//!
//! Its heuristic, asked for many, lists the ranked solutions and then, since ROCm 6.2, every other one that it supports.

use std::collections::BTreeSet;
use std::sync::Arc;

use tgemm_db::solution::ALGO_PARAM;
use tgemm_db::{Params, Problem, Solution};
use tgemm_vendor::gpu::CallError;
use tgemm_vendor::gpu::Dialect;
use tgemm_vendor::gpu::blaslt::Offer;
use tgemm_vendor::gpu::blaslt::algo::{Algo, OFFERS_MAX, Preference};
use tgemm_vendor::gpu::blaslt::product::Product;

use super::lt::Lt;
use crate::{Ask, Effort, Error};

/// Entries asked of the library, by effort: its first few; what it ranks; everything.
fn entries(effort: Effort) -> usize {
    match effort {
        Effort::Minimal => 8,
        Effort::Balanced => 256,
        _ => OFFERS_MAX,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

pub(super) fn solution(lt: &Lt, offer: &Offer) -> Solution {
    let (index, name) = (lt.library.index_of(&offer.algo), lt.library.name_of(&offer.algo));
    // Exact, as a bare one is: its split-K kernels add in the compute type, in the workspace; the gate sees to those that do not.
    Solution {
        params: Params::new().with(ALGO_PARAM, hex(&offer.algo.bytes(Dialect::Hip))),
        workspace_bytes: offer.workspace_bytes as u64,
        ..Solution::bare(Arc::clone(&lt.build), index.into(), name)
    }
}

pub(super) fn candidates(
    lt: &Lt,
    product: &Product,
    preference: &Preference,
    effort: Effort,
) -> Result<Vec<Solution>, Error> {
    let mut seen = BTreeSet::new();
    let offers = lt.offers(product, preference, entries(effort))?;
    let new = offers.iter().filter(|offer| seen.insert(lt.library.index_of(&offer.algo)));
    Ok(new.map(|offer| solution(lt, offer)).collect())
}

/// Everything that the library lists.
pub(super) fn listed(lt: &Lt, product: &Product, preference: &Preference) -> Result<Vec<Offer>, Error> {
    lt.offers(product, preference, OFFERS_MAX)
}

/// The algorithm of a solution: by its stored bytes on the very build that gave them, else by its index put into an
/// algorithm of this problem. Either is validated, and the index and name are read back.
pub(super) fn find(lt: &Lt, problem: &Problem, product: &Product, wanted: &Solution) -> Result<Offer, Error> {
    let index = i32::try_from(wanted.index)
        .map_err(|_| Error::unsupported(format!("{} is no solution index of hipBLASLt", wanted.index)))?;
    let preference = Preference {
        // Solutions may need more than is usual: they said how much.
        workspace_bytes_max: wanted.workspace_bytes.max(super::WORKSPACE_BYTES_USUAL),
        ..lt.preference(problem, &Ask::default())
    };
    let is_same_build = wanted.build.is_known() && wanted.build == lt.build;
    // The bytes carry more than the index: which fallback it came by.
    let stored = wanted.params.get(ALGO_PARAM).filter(|_| is_same_build);
    let algo = match stored.and_then(unhex).and_then(|bytes| Algo::from_bytes(Dialect::Hip, &bytes)) {
        Some(algo) => algo,
        None => {
            let first = lt.offers(product, &preference, 1)?.into_iter().next();
            let first = first.ok_or_else(|| Error::unsupported("hipBLASLt has no solution for this problem"))?;
            lt.library.with_index(&first.algo, index)
        }
    };
    let offer = validated(lt, product, &preference, &algo, index)?;
    let read_back = solution(lt, &offer);
    if read_back.index != wanted.index {
        return Err(Error::unsupported(format!("asked for solution {index}, the library made it {}", read_back.index)));
    }
    if !wanted.name.is_empty() && !read_back.name.is_empty() && read_back.name != wanted.name {
        let why = format!("solution {index} is {} in this build, it was {} when tuned", read_back.name, wanted.name);
        return Err(Error::Unsupported(why));
    }
    // The bytes that were asked for are what runs; validation may have filled in its own.
    Ok(match stored {
        Some(_) => Offer { algo, ..offer },
        None => offer,
    })
}

fn validated(lt: &Lt, product: &Product, preference: &Preference, algo: &Algo, index: i32) -> Result<Offer, Error> {
    match lt.library.check(product, algo) {
        Ok(offer) => Ok(offer),
        Err(CallError::Status { .. }) => {
            Err(Error::unsupported(format!("this build does not support solution {index} for this problem")))
        }
        // Without the call that validates, only what the library lists itself is safe: some builds run an index that does
        // not fit.
        Err(CallError::Missing(_)) => {
            let found =
                listed(lt, product, preference)?.into_iter().find(|offer| lt.library.index_of(&offer.algo) == index);
            found.ok_or_else(|| {
                Error::unsupported(format!("this build does not list solution {index} for this problem"))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_as_text() {
        let bytes: Vec<u8> = (0..24).map(|i| i * 11).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!(unhex("0g"), None);
        assert_eq!(unhex("abc"), None);
        assert_eq!(unhex(""), Some(Vec::new()));
    }
}
