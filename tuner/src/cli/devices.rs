//! `tune devices`: what is here.

use anyhow::Context as _;
use serde_json::{Value, json};
use tgemm_db::Device;
use tgemm_kernels::Backend as _;
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
        let mut found = vec![json!({ "name": "cpu", "environment": environment, "absent": opened.absent })];
        found.extend(Dialect::ALL.into_iter().flat_map(gpus_json));
        report::write_stdout(&format!("{}\n", Value::Array(found))).context("cannot write results")?;
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
    text.extend(Dialect::ALL.map(gpus));
    report::write_stdout(&text).context("cannot write results")?;
    Ok(Exit::Done)
}

/// Each GPU of `dialect` in a line, the first with its libraries: those of a dialect are the same for all.
fn gpus(dialect: Dialect) -> String {
    let found = match tgemm_kernels::gpu::devices(dialect) {
        Ok(found) if found.is_empty() => return format!("{dialect}: no devices\n"),
        Ok(found) => found,
        Err(why) => return format!("{dialect}: {why}\n"),
    };
    let mut text: String = found.iter().enumerate().map(|(ordinal, d)| format!("{dialect}:{ordinal}: {d}\n")).collect();
    match tgemm_kernels::gpu::open(dialect, 0) {
        Ok(context) => {
            text += &format!("  driver: {}\n", context.environment().driver);
            context.environment().builds.iter().for_each(|build| text += &format!("  {build}\n"));
            context.absent().iter().for_each(|(library, why)| text += &format!("  {library}: absent: {why}\n"));
            context.environment().vars.iter().for_each(|(name, value)| text += &format!("  {name}={value}\n"));
        }
        Err(why) => text += &format!("  {why}\n"),
    }
    text
}

/// The same for tools: one object a device; one that says why where there is none.
fn gpus_json(dialect: Dialect) -> Vec<Value> {
    let found = match tgemm_kernels::gpu::devices(dialect) {
        Ok(found) => found,
        Err(why) => return vec![json!({ "name": dialect.name(), "why_none": why.to_string() })],
    };
    let one = |(ordinal, device): (usize, &Device)| {
        let name = format!("{dialect}:{ordinal}");
        match tgemm_kernels::gpu::open(dialect, ordinal as u32) {
            Ok(context) => {
                json!({ "name": name, "environment": context.environment(), "absent": context.absent() })
            }
            Err(why) => json!({ "name": name, "device": device, "why_none": why.to_string() }),
        }
    };
    found.iter().enumerate().map(one).collect()
}
