//! The lists that a library gave last: making one may take a library of thousands of solutions longer than timing one of
//! them, and the same list is asked for by whoever offers, finds again, or leaves out what others offer.

use std::sync::{Arc, Mutex, PoisonError};

use tgemm_db::blas::Call;
use tgemm_vendor::gpu::blaslt::Offer;
use tgemm_vendor::gpu::blaslt::algo::Preference;

use crate::Error;

/// Lists that are kept: of one problem the whole one, the first few and the first one, and as many of the one before.
pub(super) const LISTS_MAX: usize = 6;

/// What a list is of: the call, what it may use, and how many entries were asked for.
type Asked = (Call, Preference, usize);

/// The last lists, the latest at the end.
#[derive(Default)]
pub(super) struct Lists(Mutex<Vec<(Asked, Arc<[Offer]>)>>);

impl Lists {
    /// The list of `asked`: as it was given before, or else as `list` gives it now. Failures are not kept.
    pub(super) fn get(
        &self,
        asked: Asked,
        list: impl FnOnce() -> Result<Vec<Offer>, Error>,
    ) -> Result<Arc<[Offer]>, Error> {
        // Nothing in here can panic half-way; a poisoned lock holds whole lists.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(have, _)| *have == asked) {
            let again = kept.remove(at);
            let offers = Arc::clone(&again.1);
            kept.push(again);
            return Ok(offers);
        }
        let offers: Arc<[Offer]> = list()?.into();
        if kept.len() >= LISTS_MAX {
            kept.remove(0);
        }
        kept.push((asked, Arc::clone(&offers)));
        Ok(offers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tgemm_db::{DType, Site};
    use tgemm_vendor::gpu::Dialect;
    use tgemm_vendor::gpu::blaslt::algo::Algo;

    fn asked(m: u32, count: usize, workspace_bytes_max: u64) -> Asked {
        let call = Call::from_gemm(&Site::linear(8, 8, DType::Bf16).at(m));
        (call, Preference { workspace_bytes_max, reductions: None, align_bytes: 16 }, count)
    }

    /// A list whose entries need `workspace_bytes`.
    fn offers(workspace_bytes: usize) -> Vec<Offer> {
        let algo = Algo::from_bytes(Dialect::Hip, &[0; 24]).unwrap();
        vec![Offer { algo, workspace_bytes, waves: 0.0 }]
    }

    #[test]
    fn a_list_is_made_once_until_others_pushed_it_out() {
        let (lists, made) = (Lists::default(), Cell::new(0));
        let get = |asked: Asked| {
            let offers = lists.get(asked, || {
                made.set(made.get() + 1);
                Ok(offers(made.get()))
            });
            offers.unwrap()[0].workspace_bytes
        };
        assert_eq!([get(asked(1, 9, 0)), get(asked(1, 9, 0)), made.get()], [1, 1, 1]);
        // Another problem, count or limit is another list.
        assert_eq!([get(asked(2, 9, 0)), get(asked(1, 1, 0)), get(asked(1, 9, 5))], [2, 3, 4]);
        assert_eq!([get(asked(1, 9, 0)), get(asked(1, 9, 5)), get(asked(2, 9, 0))], [1, 4, 2]);
        for m in 10..10 + LISTS_MAX as u32 - 1 {
            get(asked(m, 9, 0));
        }
        let before = made.get();
        assert_eq!(get(asked(2, 9, 0)), 2, "used last, kept longest");
        assert_eq!(get(asked(1, 9, 0)), before + 1, "pushed out, made again");
    }

    #[test]
    fn failures_are_not_kept() {
        let lists = Lists::default();
        let failure = Error::unsupported("not now");
        assert_eq!(lists.get(asked(1, 9, 0), || Err(failure.clone())).unwrap_err(), failure);
        assert_eq!(lists.get(asked(1, 9, 0), || Ok(offers(7))).unwrap().len(), 1);
        assert!(lists.get(asked(1, 9, 0), || Err(failure)).is_ok());
    }
}
