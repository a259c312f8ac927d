//! `tune db import`: files of every format into a database.

use std::path::{Path, PathBuf};

use anyhow::bail;
use tgemm_db::Recorded;
use tgemm_db::format::{self, Content, Format, ReadOptions, Unreadable};
use tgemm_db::merge::{Merge, MergeError, SourceReport};
use tgemm_db::recording;
use tgemm_db::store::Store;

use super::keep::{self, Keeper};
use super::tables::{self, Assumptions};
use crate::cli::{Exit, Failure, input};
use crate::report::{self, table};

/// What `tune db import` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files of any known format: AITER's tables, TunableOp results, hipBLASLt, rocBLAS and cuBLASLt files and logs,
    /// vLLM's fused MoE JSON, our own tables; untuned files become recordings
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Database to bring them into; made if it is not there
    #[arg(long, value_name = "FILE")]
    pub db: PathBuf,
    /// What files do not say themselves
    #[command(flatten)]
    pub assume: Assumptions,
    /// End with exit code 1 if any row was rejected or any file left alone
    #[arg(long)]
    pub strict: bool,
    /// One JSON object a file
    #[arg(long)]
    pub json: bool,
}

/// What became of a file.
enum Fate {
    /// It is this source of the merge.
    Choices(usize),
    /// It holds problems: so many, and so many rejected rows.
    Problems { format: Format, rows: usize, rejected: Vec<format::Rejected> },
    /// It is of something that is not kept here.
    Foreign(String),
    /// It cannot be read.
    Failed(String),
}

/// Everything that was read, before anything is written.
struct Incoming {
    merge: Merge,
    /// Number of the first file's source: 1 where the database has rows already.
    first_file: usize,
    /// Recorded problems, and the full path of the file that they came from.
    recorded: Vec<(Vec<Recorded>, String)>,
    /// One a file.
    fates: Vec<Fate>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let options =
        ReadOptions { keep_origin: true, imported_at: jiff::Timestamp::now().to_string(), ..args.assume.options() };
    let Incoming { merge, first_file, recorded, fates } = read(args, &options)?;
    tell_unread(&fates);
    let is_unread = |fate: &Fate| matches!(fate, Fate::Failed(_) | Fate::Foreign(_));
    if fates.iter().all(is_unread) {
        bail_nothing(&args.files)?;
    }
    let merged = merge.finish();
    tell_reports(&args.files, &fates, merged.reports());
    let mut store = Store::open(&args.db)?;
    let run = serde_json::json!({ "files": args.files, "imported_at": options.imported_at });
    let mut keeper = Keeper::new(&mut store, run)?;
    for batch in merged.batches_with_source() {
        // What is there already stays as it is.
        let new = batch?.into_iter().filter(|(source, _)| *source >= first_file);
        keeper.save(new.map(|(_, row)| row).collect())?;
    }
    for (rows, source) in &recorded {
        keeper.record(rows, source)?;
    }
    let (saved, superseded) = (keeper.saved, keeper.superseded);
    keeper.end()?;
    store.close()?;
    tell(args, &fates, merged.reports())?;
    let problems: usize = recorded.iter().map(|(rows, _)| rows.len()).sum();
    eprintln!("{}: {saved} choices and {problems} recorded problems brought in", args.db.display());
    keep::tell_superseded(superseded);
    let failed = fates.iter().any(|fate| matches!(fate, Fate::Failed(_)));
    let rejected = fates.iter().any(|fate| match fate {
        Fate::Choices(source) => merged.reports()[*source].rejected > 0,
        Fate::Problems { rejected, .. } => !rejected.is_empty(),
        Fate::Foreign(_) | Fate::Failed(_) => true,
    });
    Ok(if failed || args.strict && rejected { Exit::Partly } else { Exit::Done })
}

fn read(args: &Args, options: &ReadOptions) -> Result<Incoming, Failure> {
    let first_file = usize::from(args.db.exists());
    let mut incoming = Incoming { merge: Merge::new(), first_file, recorded: Vec::new(), fates: Vec::new() };
    if first_file > 0 {
        // The empty name: of rows that say the same the one that is there stays.
        incoming.merge.add_rows("", tables::stored_rows(&args.db)?)?;
    }
    let mut source = first_file;
    for path in &args.files {
        let fate = match incoming.merge.add_file(path, options) {
            Ok(()) => {
                source += 1;
                Fate::Choices(source - 1)
            }
            Err(MergeError::Read(error)) => match error.unreadable {
                Unreadable::WrongKind { .. } => add_problems(&mut incoming.recorded, path, options)?,
                Unreadable::Foreign(_) => Fate::Foreign(error.to_string()),
                _ => Fate::Failed(error.to_string()),
            },
            Err(error) => return Err(error.into()),
        };
        incoming.fates.push(fate);
    }
    Ok(incoming)
}

fn bail_nothing(files: &[PathBuf]) -> anyhow::Result<()> {
    match files {
        [_] => bail!("nothing to import"),
        files => bail!("nothing to import: none of {} files can be read", files.len()),
    }
}

fn tell_unread(fates: &[Fate]) {
    for fate in fates {
        if let Fate::Foreign(why) | Fate::Failed(why) = fate {
            eprintln!("tune: warning: {why}");
        }
    }
}

/// What the readers of the files of choices had to say.
fn tell_reports(files: &[PathBuf], fates: &[Fate], reports: &[SourceReport]) {
    for (path, fate) in files.iter().zip(fates) {
        if let Fate::Choices(source) = fate {
            tables::tell_rejected(path, &reports[*source]);
            tell_warnings(&reports[*source].warnings);
        }
    }
}

fn add_problems(
    recorded: &mut Vec<(Vec<Recorded>, String)>,
    path: &Path,
    options: &ReadOptions,
) -> Result<Fate, Failure> {
    let read = match format::read(path, options) {
        Ok(Content::Problems(read)) => read,
        Ok(Content::Choices(_)) => return Ok(Fate::Failed(format!("{}: changed while it was read", path.display()))),
        Err(error) => return Ok(Fate::Failed(error.to_string())),
    };
    input::report_rejected(path, &read.rejected);
    tell_warnings(&read.warnings);
    // Recordings are kept by their source's full path, so that to import one again counts nothing double.
    let source = std::fs::canonicalize(path)?.display().to_string();
    let fate = Fate::Problems { format: read.format, rows: read.rows.len(), rejected: read.rejected.clone() };
    recorded.push((recording::merge(read.into_values()), source));
    Ok(fate)
}

fn tell_warnings(warnings: &[format::Warning]) {
    for warning in warnings {
        eprintln!("tune: note: {warning}");
    }
}

/// One line a file: what it is, its rows, and what became of them.
fn tell(args: &Args, fates: &[Fate], reports: &[SourceReport]) -> Result<(), Failure> {
    let headings = ["file", "format", "rows", "kept", "known", "lost", "rejected"];
    let mut table = table::table(&headings, 2);
    let mut lines = String::new();
    for (path, fate) in args.files.iter().zip(fates) {
        let (format, figures, rejected) = match fate {
            Fate::Choices(source) => {
                let report = &reports[*source];
                let figures = [report.rows, report.won, report.identical, report.lost_total(), report.rejected];
                let format = report.format.map_or_else(String::new, |format| format.to_string());
                (format, figures, tables::rejected_json(&report.rejections))
            }
            Fate::Problems { format, rows, rejected } => {
                let rows = *rows as u64;
                (format.to_string(), [rows, rows, 0, 0, rejected.len() as u64], tables::rejected_json(rejected))
            }
            Fate::Foreign(why) => ("left alone".into(), [0; 5], serde_json::json!([{ "reason": why }])),
            Fate::Failed(why) => ("unreadable".into(), [0; 5], serde_json::json!([{ "reason": why }])),
        };
        let [rows, kept, known, lost, refused] = figures;
        if args.json {
            let object = serde_json::json!({
                "file": path, "format": format, "rows": rows, "kept": kept, "known": known, "lost": lost,
                "rejected": refused, "reasons": rejected,
            });
            lines += &format!("{object}\n");
        } else {
            let cells = [path.display().to_string(), format].into_iter();
            table.add_row(cells.chain(figures.map(|figure| figure.to_string())));
        }
    }
    report::write_stdout(&if args.json { lines } else { format!("{table}\n") })?;
    Ok(())
}
