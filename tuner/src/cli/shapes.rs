//! `tune shapes`: a model's GEMMs, from its `config.json`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use tgemm_db::DType;
use tgemm_db::format::untuned;

use super::{Exit, Failure};
use crate::models::{self, ShapeOptions};
use crate::report;

/// Largest config.json that is read.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

/// What `tune shapes` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A Hugging Face config.json, or the name of a model that ships with tune (`qwen3-0.6b`, `tiny`)
    #[arg(long, value_name = "FILE|NAME")]
    pub model: String,
    /// Tensor-parallel ranks
    #[arg(long, default_value_t = 1)]
    pub tp: u32,
    /// Token counts (M), such as 1,2,4
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "max_batched_tokens")]
    pub tokens: Option<Vec<u32>>,
    /// vLLM's graph capture sizes up to this many tokens, and that count itself
    #[arg(long, value_name = "TOKENS")]
    pub max_batched_tokens: Option<u32>,
    /// Element type; default: the model's own. An 8-bit float type is that of activations and weights of quantised layers,
    /// with one scale each; routers, the output projection and all outputs stay bf16
    #[arg(long, value_parser = |s: &str| s.parse::<DType>())]
    pub dtype: Option<DType>,
    /// Leave the output projection out
    #[arg(long)]
    pub no_lm_head: bool,
    /// File to write; default: standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The text of a model's config: a shipped model's by name, else a file's.
pub fn config_text(model: &str) -> anyhow::Result<String> {
    if let Some(text) = tgemm_configs::model(model) {
        return Ok(text.to_owned());
    }
    let path = std::path::Path::new(model);
    let meta = std::fs::metadata(path).with_context(|| {
        let known: Vec<_> = tgemm_configs::models().iter().map(|m| m.name).collect();
        format!("{model}: no such file, and no shipped model of that name ({})", known.join(", "))
    })?;
    if meta.is_dir() {
        return config_text(&path.join("config.json").display().to_string());
    }
    if meta.len() > CONFIG_BYTES_MAX {
        bail!("{model}: {} bytes; a config.json has at most {CONFIG_BYTES_MAX}", meta.len());
    }
    std::fs::read_to_string(path).with_context(|| format!("{model}: cannot be read"))
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let config = config_text(&args.model)?;
    let options = ShapeOptions { tp: args.tp, dtype: args.dtype, lm_head: !args.no_lm_head };
    let shapes = models::sites(&config, &options).with_context(|| args.model.clone())?;
    let tokens = match (&args.tokens, args.max_batched_tokens) {
        (Some(list), _) => list.clone(),
        (None, Some(max)) => models::capture_sizes(max),
        (None, None) => vec![1],
    };
    let rows = models::recorded(&shapes, &tokens).context("--tokens")?;
    for skipped in &shapes.skipped {
        eprintln!("tune: note: {skipped}");
    }
    match &args.output {
        Some(path) => {
            untuned::write(path, &rows)?;
            eprintln!("{}: {} problems of {} sites", path.display(), rows.len(), shapes.sites.len());
        }
        None => {
            let mut text = untuned::header().to_owned();
            if !text.ends_with('\n') {
                text.push('\n');
            }
            for row in &rows {
                untuned::write_row(&mut text, row);
            }
            report::write_stdout(&text).context("cannot write results")?;
        }
    }
    Ok(Exit::Done)
}
