//! `tune doctor`: which libraries were found, where, and everything that was tried.

use anyhow::Context as _;
use serde_json::{Value, json};
use tgemm_vendor::gpu::find::Part;
use tgemm_vendor::gpu::{Dialect, Doctor, LibraryReport};

use super::{Exit, Failure};
use crate::device;
use crate::report;

/// What `tune doctor` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand. Whatever is missing, the answer is the result.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let text = if args.json { format!("{}\n", as_json()) } else { as_text() };
    report::write_stdout(&text).context("cannot write results")?;
    Ok(Exit::Done)
}

/// The whole report for people.
pub fn as_text() -> String {
    let mut text = String::new();
    for dialect in Dialect::ALL {
        text += &of_dialect(&tgemm_vendor::gpu::doctor(dialect));
    }
    text += "cpu\n";
    if let Ok(opened) = device::open("cpu") {
        let environment = opened.context.environment();
        environment.builds.iter().for_each(|build| text += &format!("  {build}\n"));
        opened.absent.iter().for_each(|(library, why)| text += &format!("  {library}: absent: {why}\n"));
    }
    text
}

fn of_dialect(doctor: &Doctor) -> String {
    let mut text = match (doctor.devices, &doctor.driver) {
        (Some(devices), Some(driver)) => format!("{}: {devices} devices, driver {driver}\n", doctor.dialect),
        _ => format!("{}: no runtime\n", doctor.dialect),
    };
    for report in &doctor.libraries {
        text += &of_library(report);
    }
    for name in variables(doctor.dialect) {
        if let Some(value) = std::env::var_os(name) {
            text += &format!("  {name}={}\n", value.to_string_lossy());
        }
    }
    let files = Part::ALL.map(|part| part.file_var(doctor.dialect)).join(", ");
    text += &format!("  to name the very file of a library: {files}\n");
    text + &format!("  change which kernel runs: {}\n", tgemm_kernels::gpu::kernel_vars(doctor.dialect).join(", "))
}

/// The environment variables that matter to `dialect`: those that name files, then those that change which kernel runs.
fn variables(dialect: Dialect) -> Vec<&'static str> {
    let files = Part::ALL.map(|part| part.file_var(dialect));
    files.into_iter().chain(tgemm_kernels::gpu::kernel_vars(dialect).iter().copied()).collect()
}

fn of_library(report: &LibraryReport) -> String {
    let mut text = match (&report.file, &report.version) {
        (Some(file), version) => {
            format!("  {} {}: {}\n", report.library, version.as_deref().unwrap_or("?"), file.display())
        }
        (None, _) => format!("  {}: absent\n", report.library),
    };
    for attempt in &report.tried {
        text += &format!("    tried {}: {}\n", attempt.candidate, attempt.reason);
    }
    for symbol in &report.missing {
        text += &format!("    without {symbol}\n");
    }
    text
}

/// The variables that matter and are set.
fn set(dialect: Dialect) -> serde_json::Map<String, Value> {
    let value =
        |name: &'static str| std::env::var_os(name).map(|value| (name.to_owned(), json!(value.to_string_lossy())));
    variables(dialect).into_iter().filter_map(value).collect()
}

/// The whole report for tools.
pub fn as_json() -> Value {
    let library = |report: &LibraryReport| {
        let tried: Vec<Value> = report
            .tried
            .iter()
            .map(|attempt| json!({ "what": attempt.candidate.to_string(), "reason": attempt.reason }))
            .collect();
        json!({
            "library": report.library, "file": report.file, "version": report.version, "tried": tried,
            "missing": report.missing,
        })
    };
    let dialects = Dialect::ALL.map(|dialect| {
        let doctor = tgemm_vendor::gpu::doctor(dialect);
        json!({
            "dialect": dialect.name(), "devices": doctor.devices, "driver": doctor.driver,
            "libraries": doctor.libraries.iter().map(library).collect::<Vec<_>>(), "variables": set(dialect),
        })
    });
    let mut found = dialects.to_vec();
    if let Ok(opened) = device::open("cpu") {
        found.push(json!({
            "dialect": "cpu", "devices": 1, "environment": opened.context.environment(), "absent": opened.absent,
        }));
    }
    Value::Array(found)
}
