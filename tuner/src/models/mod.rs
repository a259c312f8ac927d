//! From a Hugging Face `config.json` to the GEMM sites of the served model, sharded and fused as vLLM runs it.
//!
//! | module | knows |
//! |---|---|
//! | `config` | how to read a field, and how to say what is wrong with it |
//! | `family` | which fields a model type has, what it leaves to defaults, which layers have experts |
//! | `shard` | what tensor parallelism leaves of a layer on one rank |
//!
//! A model that is not listed in `family` is an error, never a guess: a wrong shape costs an hour of tuning and is then
//! never looked up. Rules are taken from vLLM's `model_executor/models/*.py`, `layers/linear.py` and
//! `layers/vocab_parallel_embedding.py`.

mod config;
mod family;
mod shard;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use tgemm_db::problem::EXTENT_MAX;
use tgemm_db::{DType, Problem, Recorded, Site, Via, recording};

/// The largest `config.json` read, bytes; real ones are below 100 KiB.
pub const CONFIG_BYTES_MAX: usize = 4 << 20;

/// The most layers a model may have; real ones have some hundred.
pub const LAYERS_MAX: u32 = 10_000;

/// The largest M that vLLM captures a graph for by default.
pub const CAPTURE_SIZE_MAX: u32 = 512;

/// How a model is served, as far as it changes its shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeOptions {
    /// Ranks that share each layer (vLLM's `--tensor-parallel-size`); at least 1.
    pub tp: u32,
    /// Element type to use instead of the one in the file (vLLM's `--dtype`).
    pub dtype: Option<DType>,
    /// Is the output projection wanted too?
    pub lm_head: bool,
}

impl Default for ShapeOptions {
    /// One rank, the file's element type, output projection included.
    fn default() -> ShapeOptions {
        ShapeOptions { tp: 1, dtype: None, lm_head: true }
    }
}

/// One linear layer of a model, as one rank runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSite {
    /// vLLM's name of the layer (`qkv_proj`), with `@rank0` / `@others` where ranks differ.
    pub name: String,
    /// What it computes.
    pub site: Site,
    /// How often one forward pass runs it: the layers that have it.
    pub count: u32,
}

/// The GEMM sites of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelShapes {
    /// `model_type` of the (text) model.
    pub model_type: String,
    /// Decoder layers.
    pub layers: u32,
    /// Linear layers, in the order in which a forward pass meets them.
    pub sites: Vec<ModelSite>,
    /// What is not among the sites, and other things to know; a sentence each.
    pub skipped: Vec<String>,
}

/// Why a configuration gives no shapes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file is larger than [`CONFIG_BYTES_MAX`].
    #[error("the model configuration has {bytes} bytes; at most {CONFIG_BYTES_MAX} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not JSON.
    #[error("line {line}, column {column}: not JSON: {reason}")]
    NotJson {
        /// 1-based line.
        line: usize,
        /// 1-based column.
        column: usize,
        /// What the parser met.
        reason: String,
    },
    /// JSON, but not an object.
    #[error("the model configuration is not a JSON object")]
    NotAnObject,
    /// A field that the model type needs is not there.
    #[error("field '{field}' is missing{remedy}")]
    Missing {
        /// Its name, with `text_config.` where it belongs there.
        field: String,
        /// What to do, led by a separator; may be empty.
        remedy: &'static str,
    },
    /// A field has a value that cannot be.
    #[error("field '{field}' is {value}; it must be {expected}")]
    Field {
        /// Its name.
        field: String,
        /// Its value as written, shortened.
        value: String,
        /// What would have been taken.
        expected: String,
    },
    /// A model type whose layers are not known here.
    #[error("model type '{model_type}' is not supported: {why}")]
    UnsupportedModel {
        /// As the file has it.
        model_type: String,
        /// The reason, or what is known.
        why: String,
    },
    /// The linear layers are quantised, so that their GEMMs are not those of the file's element type.
    #[error(
        "the weights are quantised ({method}), whose GEMMs are not derived yet; give an element type for the shapes of the unquantised model"
    )]
    Quantized {
        /// `quant_method` of the file.
        method: String,
    },
    /// Ranks cannot share a layer evenly.
    #[error("tensor parallelism {tp} does not fit {what} = {size}: one must divide the other")]
    HeadReplicas {
        /// Ranks.
        tp: u32,
        /// The field shared.
        what: &'static str,
        /// Its value.
        size: u32,
    },
    /// A size is not a multiple of the ranks that share it.
    #[error("tensor parallelism {tp} does not divide {what} = {size}")]
    Indivisible {
        /// Ranks.
        tp: u32,
        /// The field shared.
        what: &'static str,
        /// Its value.
        size: u32,
    },
    /// A number of ranks or tokens that cannot be.
    #[error("{what} is {value}; it must be between 1 and {EXTENT_MAX}")]
    Argument {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// A layer is larger than any BLAS takes.
    #[error("{site} would have {name} = {value}, more than {EXTENT_MAX}")]
    Extent {
        /// The layer.
        site: &'static str,
        /// `N` or `K`.
        name: &'static str,
        /// The size.
        value: u64,
    },
}

/// The GEMM sites of the model that `config` (the text of a `config.json`) describes, as one rank of `options.tp` runs
/// them in vLLM: q, k, v fused; gate and up fused; output projections split along K.
///
/// Multimodal files are read through their `text_config`. Errors name the field.
pub fn sites(config: &str, options: &ShapeOptions) -> Result<ModelShapes, ModelError> {
    if options.tp == 0 || options.tp > EXTENT_MAX {
        return Err(ModelError::Argument { what: "tensor parallelism", value: options.tp });
    }
    let root = config::parse(config)?;
    let config = config::Config::new(&root)?;
    let model = family::read(&config)?;
    let mut skipped = model.notes(&config);
    let dtype = config.dtype(options.dtype, model.quantized_experts_only, &mut skipped)?;
    let sites = shard::sites(&model, dtype, options)?;
    Ok(ModelShapes { model_type: config.model_type()?.to_owned(), layers: model.layers, sites, skipped })
}

/// The problems of `shapes` at each number of tokens in `tokens`, with the count of one forward pass; equal problems of
/// different layers are one row, repeated token counts count once.
///
/// The output projection is listed at the same M. vLLM runs it on the last token of each sequence only, so there M is
/// the number of sequences: equal to the tokens while decoding, far fewer in a prefill.
pub fn recorded(shapes: &ModelShapes, tokens: &[u32]) -> Result<Vec<Recorded>, ModelError> {
    if let Some(&value) = tokens.iter().find(|&&m| m == 0 || m > EXTENT_MAX) {
        return Err(ModelError::Argument { what: "a number of tokens", value });
    }
    let mut seen = HashSet::new();
    let rows = tokens.iter().filter(|&&m| seen.insert(m)).flat_map(|&m| {
        shapes.sites.iter().map(move |layer| Recorded {
            count: layer.count.into(),
            via: Via::Linear,
            ..Recorded::bare(Problem::Gemm(layer.site.at(m)))
        })
    });
    Ok(recording::merge(rows))
}

/// The token counts for which vLLM captures graphs by default, and to which it pads smaller batches: 1, 2, 4, then
/// every 8 below 256, then every 16 up to [`CAPTURE_SIZE_MAX`], none above `max_batched_tokens`.
///
/// From `_set_cudagraph_sizes` in vLLM's `config/vllm.py`. There the list also ends at twice `max_num_seqs`, which its
/// default of 256 and more does not reach; data-centre Blackwell goes on to 1024.
pub fn capture_sizes(max_batched_tokens: u32) -> Vec<u32> {
    let last = max_batched_tokens.min(CAPTURE_SIZE_MAX);
    let grid = [1, 2, 4].into_iter().chain((8..256).step_by(8)).chain((256..=CAPTURE_SIZE_MAX).step_by(16));
    grid.take_while(|&m| m <= last).collect()
}
