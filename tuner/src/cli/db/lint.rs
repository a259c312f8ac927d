//! `tune db lint`: what is wrong with files.

use std::path::PathBuf;

use tgemm_db::lint::{Code, Finding, Report, Severity, lint};

use super::tables::Assumptions;
use crate::cli::{Exit, Failure};
use crate::report;

/// What `tune db lint` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 no errors; 1 errors (with --strict: or warnings); 2 usage.\n\
Codes are stable: TG001 means the same in every version.")]
pub struct Args {
    /// Files of any format; those named together are looked at beside each other too
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What files do not say themselves
    #[command(flatten)]
    pub assume: Assumptions,
    /// Warnings count as errors
    #[arg(long)]
    pub strict: bool,
    /// Only findings at least this bad
    #[arg(long, value_name = "SEVERITY", default_value = "note", value_parser = |s: &str| s.parse::<Severity>())]
    pub least: Severity,
    /// Do not name these codes, such as TG031,TG011 (they are counted)
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = code)]
    pub ignore: Vec<Code>,
    /// One JSON object a finding
    #[arg(long)]
    pub json: bool,
}

/// Reads `TG031` or `time-falls`.
fn code(text: &str) -> Result<Code, String> {
    let find = |code: &&Code| code.id().eq_ignore_ascii_case(text) || code.name() == text;
    Code::ALL.iter().find(find).copied().ok_or_else(|| format!("'{text}' is no code; write TG001 or placeholder-time"))
}

/// Runs the subcommand. Errors make the exit code 1.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let report = lint(&args.files, &args.assume.options());
    let named = |finding: &&Finding| finding.code.severity() <= args.least && !args.ignore.contains(&finding.code);
    let text: String = report
        .findings
        .iter()
        .filter(named)
        .map(|finding| if args.json { json(finding) } else { format!("{finding}\n") })
        .collect();
    report::write_stdout(&text)?;
    tell(&report);
    let counted = |severity| {
        let counts =
            report.counts.iter().filter(|(code, _)| code.severity() == severity && !args.ignore.contains(code));
        counts.map(|(_, n)| n).sum::<u64>()
    };
    let bad = counted(Severity::Error) + if args.strict { counted(Severity::Warning) } else { 0 };
    Ok(if bad > 0 { Exit::Partly } else { Exit::Done })
}

fn json(finding: &Finding) -> String {
    let object = serde_json::json!({
        "code": finding.code.id(), "name": finding.code.name(), "severity": finding.code.severity().name(),
        "file": finding.file, "line": finding.line, "what": finding.what, "mend": finding.code.mend(),
    });
    format!("{object}\n")
}

/// The summary: how many of each code.
fn tell(report: &Report) {
    let [errors, warnings, notes] =
        [Severity::Error, Severity::Warning, Severity::Note].map(|severity| report.count(severity));
    eprintln!("{} files, {} rows: {errors} errors, {warnings} warnings, {notes} notes", report.files, report.rows);
    for (code, n) in &report.counts {
        eprintln!("  {n:>6} {code} ({})", code.severity());
    }
    let total: u64 = report.counts.iter().map(|(_, n)| n).sum();
    let unnamed = total - report.findings.len() as u64;
    if unnamed > 0 {
        eprintln!("tune: warning: {unnamed} findings are counted but not named: lint fewer files at once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_by_number_and_by_name() {
        assert_eq!(code("tg003"), Ok(Code::ShortRow));
        assert_eq!(code("short-row"), Ok(Code::ShortRow));
        assert!(code("TG999").unwrap_err().contains("TG001"));
    }
}
