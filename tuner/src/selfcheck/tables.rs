//! What was found as CSV, for whoever reads a bundle with a program.

use tgemm_db::Solution;

use super::routes::{Lists, Route};

fn csv<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(header);
    rows.into_iter().for_each(|row| {
        let _ = writer.write_record(row);
    });
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// How many solutions each library listed for each problem.
pub fn lists(lists: &Lists) -> String {
    let offers = lists.offers.iter().map(|offer| {
        [
            offer.problem.clone(),
            offer.effort.to_owned(),
            offer.library.clone(),
            offer.baselines.to_string(),
            offer.candidates.to_string(),
            String::new(),
        ]
    });
    let failed = lists.failed.iter().map(|(problem, why)| {
        [problem.clone(), String::new(), String::new(), String::new(), String::new(), why.clone()]
    });
    csv(["problem", "effort", "library", "baselines", "candidates", "why_none"], offers.chain(failed))
}

/// The first solutions of each list by index and name.
pub fn solutions(lists: &Lists) -> String {
    let named = lists.offers.iter().flat_map(|offer| {
        offer.named.iter().map(move |solution: &Solution| {
            [
                offer.problem.clone(),
                offer.effort.to_owned(),
                offer.library.clone(),
                solution.index.to_string(),
                solution.name.to_string(),
                solution.params.to_string(),
                solution.workspace_bytes.to_string(),
            ]
        })
    });
    csv(["problem", "effort", "library", "index", "name", "params", "workspace_bytes"], named)
}

/// Each stored solution that was asked for again.
pub fn routes(routes: &[Route]) -> String {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    let rows = routes.iter().map(|route| {
        [
            route.problem.clone(),
            route.asked.library().to_owned(),
            route.asked.key(),
            route.ran.key(),
            (if route.foreign { "other build" } else { "stored" }).to_owned(),
            route.outcome.to_string(),
            route.holds().to_string(),
            number(route.error_over_bound),
            number(route.probe_us),
            route.detail.clone(),
        ]
    });
    let header =
        ["problem", "library", "asked", "ran", "kind", "outcome", "holds", "error_over_bound", "probe_us", "why"];
    csv(header, rows)
}
