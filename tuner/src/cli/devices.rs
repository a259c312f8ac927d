//! `tune devices`: what is here.

use anyhow::Context as _;
use tgemm_vendor::gpu::Dialect;

use super::{Exit, Failure};
use crate::device;
use crate::report;

/// What `tune devices` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let opened = device::open("cpu").map_err(Failure::device)?;
    let environment = opened.context.environment();
    if args.json {
        let value = serde_json::json!([{ "name": "cpu", "environment": environment, "absent": opened.absent }]);
        report::write_stdout(&format!("{value}\n")).context("cannot write results")?;
        return Ok(Exit::Done);
    }
    let d = &environment.device;
    let mut text = format!(
        "cpu: {} with {} cores, {} GiB of memory, {} MiB last-level cache, signature {}\n",
        d.arch,
        d.compute_units,
        d.memory_gib.map_or("unknown".into(), |gib| gib.to_string()),
        d.last_level_cache_bytes >> 20,
        d.chip_id.map_or("unknown".into(), |id| format!("{id:#x}")),
    );
    text += &format!("  features: {}\n", tgemm_kernels::cpu::device::features().join(" "));
    text += &format!("  driver: {}\n", environment.driver);
    for build in &environment.builds {
        text += &format!("  {build}\n");
    }
    for (library, why) in &opened.absent {
        text += &format!("  {library}: absent: {why}\n");
    }
    for (name, value) in &environment.vars {
        text += &format!("  {name}={value}\n");
    }
    for dialect in Dialect::ALL {
        match tgemm_kernels::gpu::devices(dialect) {
            Ok(found) if found.is_empty() => text += &format!("{dialect}: no devices\n"),
            Ok(found) => {
                text.extend(found.iter().enumerate().map(|(ordinal, d)| format!("{dialect}:{ordinal}: {d}\n")))
            }
            Err(why) => text += &format!("{dialect}: {why}\n"),
        }
    }
    report::write_stdout(&text).context("cannot write results")?;
    Ok(Exit::Done)
}
