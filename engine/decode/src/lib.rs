//! A small Llama-style decoder with random weights: what an engine looks like that records its GEMMs and runs tuned ones.
//!
//! Layers as vLLM builds them: RMSNorm, fused qkv, per-head norms of q and k (Qwen3), RoPE, grouped-query attention with a
//! KV cache, fused gate and up, SwiGLU, a language-model head over the last position of each sequence. Matrix products run in
//! the model's element type; norms, softmax and the residual stream in f32. A decode step has M = batch, a prefill
//! M = batch x prompt (the head: M = batch).
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | the sizes, read from a Hugging Face `config.json` |
//! | [`tensor`] | aligned memory of one element type |
//! | [`model`] | the weights, from a seed |
//! | [`product`] | the one place that every linear layer goes through: dispatched, or exact for checks |
//! | [`decoder`] | prefill and decode steps of a batch of sequences |
//! | [`mod@run`] | one plain run, timed and recorded |
//! | [`mod@compare`] | baseline against tuned, interleaved, with a check of the logits |
//!
//! It knows nothing about sweeps, and chooses nothing: what runs is said by `tgemm_lookup`.

mod attention;
pub mod compare;
pub mod config;
pub mod decoder;
mod math;
pub mod model;
pub mod product;
mod random;
pub mod run;
pub mod tensor;

pub use compare::{CompareOptions, Comparison, LogitsCheck, compare};
pub use config::{ConfigError, ModelConfig};
pub use decoder::Decoder;
pub use model::Model;
pub use product::{Dispatched, Exact, Product};
pub use run::{Run, RunOptions, run};

/// Why the decoder could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A product could not be computed.
    #[error(transparent)]
    Dispatch(#[from] tgemm_lookup::dispatch::DispatchError),
    /// An element type that the decoder has no weights in.
    #[error("the decoder runs in f32, f16 or bf16, not {0}")]
    DType(tgemm_db::DType),
    /// Batch, prompt or token counts that do not fit.
    #[error("{0}")]
    Request(String),
}
