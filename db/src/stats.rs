//! What a table of choices holds, by device, library and source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::choice::{Choice, Verdict};
use crate::device::Device;
use crate::merge::identity;
use crate::origin::Source;

/// The choices of one device and library.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The device, as it shows itself.
    pub device: String,
    /// The library of the chosen solutions.
    pub library: String,
    /// What kind of file they came from; `sweep` for those made here.
    pub format: Arc<str>,
    /// Rows.
    pub rows: usize,
    /// Different problems.
    pub problems: usize,
    /// Different sites.
    pub sites: usize,
    /// Fewest and most tokens.
    pub m: (u32, u32),
    /// How many rows have which verdict.
    pub verdicts: BTreeMap<Verdict, usize>,
    /// Geometric mean of time over baseline, of the rows that were compared.
    pub ratio_mean: Option<f64>,
}

/// A file that rows came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Its name when it was imported.
    pub file: String,
    /// BLAKE3 of it, hexadecimal.
    pub file_hash: String,
    /// When it was imported first, RFC 3339.
    pub imported_at: String,
    /// Rows.
    pub rows: usize,
}

/// What a table holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Ordered by device, library, format.
    pub groups: Vec<Group>,
    /// Ordered by file.
    pub sources: Vec<Provenance>,
}

/// What choices that no file brought are shown to come from.
pub const SWEEP: &str = "sweep";

/// Counts choices one by one, and holds none of them.
#[derive(Debug, Default)]
pub struct Counter {
    /// By device, library and format.
    groups: BTreeMap<(String, String, String), Tally>,
    /// By name and hash.
    sources: BTreeMap<(String, String), (String, usize)>,
    /// The last row's place, since rows of one come together.
    last: Option<(Arc<Device>, String)>,
}

impl Counter {
    /// Counts one more.
    pub fn add(&mut self, choice: &Choice) {
        let origin = choice.origin.as_deref();
        let format = origin.map_or(SWEEP, |origin| origin.source.format.as_str());
        let device = match self.last.take() {
            Some((known, text)) if *known == *choice.device => text,
            _ => choice.device.to_string(),
        };
        let key = (device.clone(), choice.solution.library().to_owned(), format.to_owned());
        self.groups.entry(key).or_default().add(choice);
        self.last = Some((Arc::clone(&choice.device), device));
        if let Some(origin) = origin {
            let Source { file, file_hash, imported_at, .. } = &*origin.source;
            let source = self.sources.entry((file.clone(), file_hash.clone()));
            let (first, rows) = source.or_insert_with(|| (imported_at.clone(), 0));
            if imported_at < first {
                first.clone_from(imported_at);
            }
            *rows += 1;
        }
    }

    /// What was counted.
    pub fn end(self) -> Stats {
        let group = |((device, library, format), tally): ((String, String, String), Tally)| {
            tally.end(device, &library, &format)
        };
        let source = |((file, file_hash), (imported_at, rows))| Provenance { file, file_hash, imported_at, rows };
        Stats {
            groups: self.groups.into_iter().map(group).collect(),
            sources: self.sources.into_iter().map(source).collect(),
        }
    }
}

/// Counts.
pub fn stats<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> Stats {
    let mut counter = Counter::default();
    choices.into_iter().for_each(|choice| counter.add(choice));
    counter.end()
}

#[derive(Debug, Default)]
struct Tally {
    rows: usize,
    problems: BTreeSet<crate::Problem>,
    verdicts: BTreeMap<Verdict, usize>,
    log_ratios: f64,
    compared: usize,
}

impl Tally {
    fn add(&mut self, choice: &Choice) {
        self.rows += 1;
        self.problems.insert(choice.problem);
        *self.verdicts.entry(choice.verdict).or_default() += 1;
        if !matches!(choice.verdict, Verdict::Unknown | Verdict::NoBaseline) {
            self.log_ratios += choice.ratio.estimate.ln();
            self.compared += 1;
        }
    }

    fn end(self, device: String, library: &str, format: &str) -> Group {
        let sites: BTreeSet<_> = self.problems.iter().map(|problem| identity::layer(problem).0).collect();
        let ms = || self.problems.iter().map(|problem| problem.m());
        Group {
            device,
            library: library.into(),
            format: format.into(),
            rows: self.rows,
            sites: sites.len(),
            m: (ms().min().unwrap_or(0), ms().max().unwrap_or(0)),
            problems: self.problems.len(),
            verdicts: self.verdicts,
            ratio_mean: (self.compared > 0).then(|| (self.log_ratios / self.compared as f64).exp()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::sample::{Figures, choice};
    use crate::origin::Origin;

    #[test]
    fn groups_and_sources_are_counted_by_hand() {
        let raced = |m, high| choice(Figures { m, high, verdict: Verdict::Faster, ..Figures::default() });
        let mut imported = choice(Figures { m: 9, n: 96, ..Figures::default() });
        let origin = |at: &str| {
            let source =
                Source { file: "a.csv".into(), imported_at: at.into(), format: "aiter".into(), ..Source::default() };
            Some(Arc::new(Origin::new(source.into(), 2, [])))
        };
        imported.origin = origin("2026-02");
        let mut again = imported.clone();
        again.origin = origin("2026-01");
        let choices = [raced(1, 0.5), raced(4, 0.5), raced(4, 2.0), imported, again];
        let stats = stats(&choices);
        let [imported, swept] = &stats.groups[..] else { panic!("{stats:?}") };
        assert_eq!((swept.rows, swept.problems, swept.sites, swept.m), (3, 2, 1, (1, 4)));
        assert!((swept.ratio_mean.unwrap() - 0.5f64.powf(1.0 / 3.0)).abs() < 1e-12);
        assert_eq!(swept.verdicts, BTreeMap::from([(Verdict::Faster, 3)]));
        assert_eq!((imported.rows, imported.problems, imported.ratio_mean), (2, 1, None));
        assert_eq!(
            (stats.sources.len(), stats.sources[0].rows, stats.sources[0].imported_at.as_str()),
            (1, 2, "2026-01")
        );
    }
}
