//! `tune db stats`: what tables hold.

use std::path::PathBuf;

use tgemm_db::stats::{Counter, Group, Stats};

use super::tables::{self, Assumptions};
use crate::cli::{Exit, Failure};
use crate::report::{self, table};

/// What `tune db stats` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Databases and tables of choices, of any format, counted together
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What files do not say themselves
    #[command(flatten)]
    pub assume: Assumptions,
    /// Name every file that rows came from
    #[arg(long)]
    pub sources: bool,
    /// One JSON object a group, then one a source
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let mut counter = Counter::default();
    for path in &args.files {
        tables::each_choice(path, &args.assume.options(), |choice| counter.add(&choice))?;
    }
    let stats = counter.end();
    report::write_stdout(&if args.json { json(&stats) } else { people(&stats, args.sources) })?;
    Ok(Exit::Done)
}

fn verdicts(group: &Group) -> String {
    let each = group.verdicts.iter().map(|(verdict, rows)| format!("{rows} {verdict}"));
    each.collect::<Vec<_>>().join(", ")
}

fn people(stats: &Stats, sources: bool) -> String {
    let headings = ["device", "library", "from", "verdicts", "rows", "problems", "sites", "M", "mean ratio"];
    let mut table = table::table(&headings, 4);
    for group in &stats.groups {
        table.add_row([
            group.device.clone(),
            group.library.clone(),
            group.format.to_string(),
            verdicts(group),
            group.rows.to_string(),
            group.problems.to_string(),
            group.sites.to_string(),
            format!("{}..{}", group.m.0, group.m.1),
            group.ratio_mean.map_or("-".into(), |mean| format!("{mean:.3}")),
        ]);
    }
    let rows: usize = stats.groups.iter().map(|group| group.rows).sum();
    let mut text = format!("{table}\n{rows} rows from {} files and sweeps\n", stats.sources.len());
    if sources {
        let mut table = table::table(&["source", "imported at", "BLAKE3", "rows"], 3);
        for source in &stats.sources {
            let hash: String = source.file_hash.chars().take(HASH_SHOWN).collect();
            table.add_row([source.file.clone(), source.imported_at.clone(), hash, source.rows.to_string()]);
        }
        text += &format!("{table}\n");
    }
    text
}

/// Digits of a file's hash that people are shown.
const HASH_SHOWN: usize = 16;

fn json(stats: &Stats) -> String {
    let groups = stats.groups.iter().map(|group| {
        let verdicts: serde_json::Map<_, _> =
            group.verdicts.iter().map(|(verdict, rows)| (verdict.to_string(), (*rows).into())).collect();
        serde_json::json!({
            "device": group.device, "library": group.library, "format": *group.format, "rows": group.rows,
            "problems": group.problems, "sites": group.sites, "m_min": group.m.0, "m_max": group.m.1,
            "verdicts": verdicts, "ratio_mean": group.ratio_mean,
        })
    });
    let sources = stats.sources.iter().map(|source| {
        serde_json::json!({
            "source": source.file, "file_hash": source.file_hash, "imported_at": source.imported_at,
            "rows": source.rows,
        })
    });
    groups.chain(sources).map(|object| format!("{object}\n")).collect()
}
