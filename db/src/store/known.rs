//! What rows say again and again, read once: a table of a hundred thousand choices has some hundred sites and a handful of
//! words.

use std::str::FromStr;

use crate::format::known::Known;
use crate::key::KeyError;
use crate::problem::{Gemm, Problem, Site};

/// Rows of a table by number. Numbers are given one after the other, so that a number nearly always says the place.
#[derive(Debug)]
pub(super) struct ById<T>(Vec<(i64, T)>);

impl<T> ById<T> {
    pub(super) fn new(mut rows: Vec<(i64, T)>) -> ById<T> {
        rows.sort_by_key(|(id, _)| *id);
        ById(rows)
    }

    pub(super) fn get(&self, id: i64) -> Option<&T> {
        let rows = &self.0;
        let guess = usize::try_from(id.wrapping_sub(rows.first()?.0)).ok().and_then(|at| rows.get(at));
        match guess {
            Some((have, row)) if *have == id => Some(row),
            _ => rows.binary_search_by_key(&id, |(have, _)| *have).ok().map(|at| &rows[at].1),
        }
    }
}

/// A word, and what it means.
#[derive(Debug)]
pub(super) struct Recent<T> {
    text: String,
    value: Option<T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent { text: String::new(), value: None }
    }
}

impl<T: FromStr + Copy> Recent<T> {
    /// What `text` means.
    pub(super) fn parse(&mut self, text: &str) -> Result<T, T::Err> {
        if let Some(value) = self.value
            && self.text == text
        {
            return Ok(value);
        }
        let value = text.parse()?;
        self.value = Some(value);
        self.text.clear();
        self.text.push_str(text);
        Ok(value)
    }
}

/// Sites by the text of a key behind its M.
#[derive(Debug)]
pub(super) struct Keys(Known<Site>);

/// The start of a canonical key, up to its M.
pub(super) const GEMM: &str = "gemm,m=";

/// A GEMM's key as its M and what is behind it, which is its site's.
pub(super) fn split_gemm(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(GEMM)?.split_once(',')
}

impl Keys {
    /// So many sites are remembered.
    const SITES: usize = 4096;

    pub(super) fn new() -> Keys {
        Keys(Known::of(Keys::SITES))
    }

    /// The problem with this key: the same as parsing it, whatever was asked before.
    pub(super) fn problem(&mut self, text: &str) -> Result<Problem, KeyError> {
        let Some((m, rest)) = split_gemm(text) else { return text.parse() };
        let site = self.0.get(rest, || text.parse::<Gemm>().map(|gemm| gemm.site))?;
        match m.parse().map(|m| site.at(m)) {
            Ok(gemm) if gemm.validate().is_ok() => Ok(gemm.into()),
            // Read whole, so that it says what is wrong.
            _ => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::solution::Numerics;

    #[test]
    fn rows_are_found_by_number_wherever_numbers_were_left_out() {
        let dense = ById::new(vec![(3, 'a'), (4, 'b'), (5, 'c')]);
        assert_eq!([2, 3, 5, 6, i64::MIN].map(|id| dense.get(id)), [None, Some(&'a'), Some(&'c'), None, None]);
        let sparse = ById::new(vec![(90, 'd'), (-7, 'a'), (i64::MAX, 'e'), (2, 'b'), (1, 'x')]);
        let asked = [-7, -6, 1, 2, 90, i64::MAX, i64::MIN];
        let found = [Some(&'a'), None, Some(&'x'), Some(&'b'), Some(&'d'), Some(&'e'), None];
        assert_eq!(asked.map(|id| sparse.get(id)), found);
        assert_eq!(ById::<char>::new(Vec::new()).get(0), None);
    }

    #[test]
    fn a_word_is_read_anew_where_it_changes() {
        let mut recent = Recent::<Numerics>::default();
        assert!(recent.parse("").is_err());
        for numerics in Numerics::ALL.iter().chain(Numerics::ALL) {
            assert_eq!(recent.parse(numerics.name()), Ok(*numerics));
            assert!(recent.parse("nonsense").is_err());
            assert_eq!(recent.parse(numerics.name()), Ok(*numerics));
        }
    }

    #[test]
    fn a_known_site_changes_no_answer() {
        let site = Site::linear(64, 32, DType::Bf16);
        let padded = Site { trans: crate::problem::Trans::X, ld: crate::problem::Leading { x: 8, ..site.ld }, ..site };
        let mut texts: Vec<String> = [1, 2, 8].map(|m| site.at(m).to_string()).into();
        texts.extend([1, 8].map(|m| padded.at(m).to_string()));
        // Rows of x are shorter than they must be from 9 tokens on; what else is wrong with a key stays wrong.
        texts.push(texts[4].replace("m=8", "m=9"));
        texts.extend(["m=0", "m=x", "m=-1", "m=4294967296", "n=1", "m=+3"].map(|m| texts[0].replacen("m=1", m, 1)));
        texts.push(format!("{},m=2", texts[0]));
        texts.push("moe,m=1".into());
        texts.extend(["", "gemm", "gemm,m=", "gemm,m=1"].map(str::to_owned));
        let mut keys = Keys::new();
        for text in texts.iter().chain(&texts) {
            assert_eq!(keys.problem(text), text.parse(), "{text}");
        }
    }

    #[test]
    fn more_sites_than_are_remembered_are_read_as_well() {
        let keys_of = |n: u32| Site::linear(n, 32, DType::Bf16).at(n % 7 + 1);
        let mut keys = Keys::new();
        for n in (1..3 * Keys::SITES as u32).chain(1..99) {
            assert_eq!(keys.problem(&keys_of(n).to_string()), Ok(keys_of(n).into()));
        }
    }
}
