//! What each model type's fields mean: which are required, what their absence means, where biases are, which layers
//! have experts.
//!
//! Where the class of a model type in `transformers` fills a missing field with a number of its own, the field is
//! required here: the file would not say what the engine runs.

use super::config::Config;
use super::{LAYERS_MAX, ModelError};

/// The type of a router's GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouterType {
    /// The model's own element type.
    Model,
    /// 32-bit, whatever the model's type.
    F32,
}

/// A gated feed-forward block and how many layers have it.
pub(super) struct Mlp {
    /// Names of its two sites.
    pub names: [&'static str; 2],
    /// Width between them, all ranks together.
    pub intermediate: u32,
    /// The field that gave the width.
    pub field: &'static str,
    /// Layers that have it.
    pub layers: u32,
    /// Do its two layers add a bias?
    pub bias: bool,
}

/// The dense parts of expert layers.
pub(super) struct Router {
    /// vLLM's name of the layer.
    pub name: &'static str,
    /// Out features, on every rank.
    pub experts: u32,
    /// Layers that have it.
    pub layers: u32,
    /// Does it add a bias?
    pub bias: bool,
    /// In which type it runs.
    pub dtype: RouterType,
}

/// A decoder, as far as it decides GEMM sites.
pub(super) struct Model {
    pub hidden: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub layers: u32,
    /// `None` where the file does not say: an error only if the output projection is wanted.
    pub vocab: Option<u32>,
    /// The error to give then.
    pub vocab_missing: ModelError,
    pub qkv_bias: bool,
    pub o_bias: bool,
    /// In the order of the forward pass.
    pub mlps: Vec<Mlp>,
    pub router: Option<Router>,
    /// Does the file's quantisation leave all sites alone?
    pub quantized_experts_only: bool,
}

impl Model {
    /// What the sites leave out.
    pub(super) fn notes(&self, config: &Config<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(router) = &self.router {
            notes.push(format!(
                "experts of {} layers: grouped GEMMs inside a fused MoE kernel, not GEMM sites yet",
                router.layers
            ));
        }
        if config.beside_text("vision_config") {
            notes.push("vision tower: only the text model is derived".into());
        }
        if config.beside_text("audio_config") {
            notes.push("audio tower: only the text model is derived".into());
        }
        notes
    }
}

const DENSE: [&str; 2] = ["gate_up_proj", "down_proj"];
const SHARED: [&str; 2] = ["shared_experts.gate_up_proj", "shared_experts.down_proj"];
const KNOWN: &str = "known: gemma3, glm4_moe, gpt_oss, llama, llama4, mistral, mixtral, phi3, qwen2, qwen3, qwen3_moe";

/// Reads the decoder that `config` describes.
pub(super) fn read(config: &Config<'_>) -> Result<Model, ModelError> {
    let model_type = config.model_type()?;
    match model_type {
        "llama" => llama(config, KvHeads::AsHeads),
        // vLLM runs it with its Llama code, but its class has a number of KV heads of its own.
        "mistral" => llama(config, KvHeads::Required),
        "phi3" => llama(config, KvHeads::AsHeads),
        "qwen2" => qwen2(config),
        "qwen3" => qwen3(config),
        "gemma3" | "gemma3_text" => gemma3(config),
        "mixtral" => mixtral(config),
        "qwen3_moe" => qwen3_moe(config),
        "llama4" | "llama4_text" => llama4(config),
        "glm4_moe" => glm4_moe(config),
        "gpt_oss" => gpt_oss(config),
        _ => Err(ModelError::UnsupportedModel { model_type: model_type.to_owned(), why: why_not(model_type).into() }),
    }
}

fn why_not(model_type: &str) -> &'static str {
    match model_type {
        "deepseek_v2" | "deepseek_v3" | "kimi_k2" => {
            "latent attention (MLA) turns its projections into batched products whose layout depends on the attention backend"
        }
        _ => KNOWN,
    }
}

/// What a missing `num_key_value_heads` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KvHeads {
    /// As many as `num_attention_heads`.
    AsHeads,
    /// The class has a number of its own.
    Required,
}

/// What a missing `head_dim` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeadDim {
    /// `hidden_size / num_attention_heads`.
    Derived,
    /// The class has a number of its own.
    Required,
}

/// The attention and vocabulary that all decoders have; no biases, no feed-forward blocks yet.
fn attention(config: &Config<'_>, kv_heads: KvHeads, head_dim: HeadDim) -> Result<Model, ModelError> {
    let hidden = config.size("hidden_size")?;
    let layers = config.size("num_hidden_layers")?;
    if layers > LAYERS_MAX {
        return Err(config.wrong("num_hidden_layers", layers, &format!("at most {LAYERS_MAX}")));
    }
    let heads = config.size_no_default("num_attention_heads")?;
    let kv_heads = match (config.size_or_none("num_key_value_heads")?, kv_heads) {
        (Some(kv_heads), _) => kv_heads,
        (None, KvHeads::AsHeads) => heads,
        (None, KvHeads::Required) => config.size_no_default("num_key_value_heads")?,
    };
    if kv_heads > heads || heads % kv_heads != 0 {
        return Err(config.wrong(
            "num_key_value_heads",
            kv_heads,
            &format!("a divisor of num_attention_heads = {heads}"),
        ));
    }
    let head_dim = match (config.size_or_none("head_dim")?, head_dim) {
        (Some(head_dim), _) => head_dim,
        (None, HeadDim::Required) => config.size_no_default("head_dim")?,
        (None, HeadDim::Derived) if hidden % heads == 0 => hidden / heads,
        (None, HeadDim::Derived) => {
            let expected = format!("a multiple of num_attention_heads = {heads}, as head_dim is not given");
            return Err(config.wrong("hidden_size", hidden, &expected));
        }
    };
    Ok(Model {
        hidden,
        heads,
        kv_heads,
        head_dim,
        layers,
        vocab: config.size_or_none("vocab_size")?,
        vocab_missing: config.missing("vocab_size", "; leave the output projection out, or write it into the file"),
        qkv_bias: false,
        o_bias: false,
        mlps: Vec::new(),
        router: None,
        quantized_experts_only: false,
    })
}

/// The feed-forward block of every layer.
fn dense(config: &Config<'_>, layers: u32) -> Result<Mlp, ModelError> {
    let field = "intermediate_size";
    Ok(Mlp { names: DENSE, intermediate: config.size(field)?, field, layers, bias: false })
}

/// `llama.py`: `attention_bias` (or `bias`) is on both projections, `mlp_bias` on both feed-forward layers.
fn llama(config: &Config<'_>, kv_heads: KvHeads) -> Result<Model, ModelError> {
    let mut model = attention(config, kv_heads, HeadDim::Derived)?;
    let bias = config.switch("attention_bias")? || config.switch("bias")?;
    let mlp = Mlp { bias: config.switch("mlp_bias")?, ..dense(config, model.layers)? };
    model.mlps.push(mlp);
    Ok(Model { qkv_bias: bias, o_bias: bias, ..model })
}

/// `qwen2.py`: q, k and v always have a bias, whatever the file says; head size is never given apart.
fn qwen2(config: &Config<'_>) -> Result<Model, ModelError> {
    let mut model = attention(config, KvHeads::Required, HeadDim::Derived)?;
    model.mlps.push(dense(config, model.layers)?);
    Ok(Model { qkv_bias: true, ..model })
}

/// `qwen3.py`: `attention_bias` is on q, k and v only; the norm of q and k is no GEMM.
fn qwen3(config: &Config<'_>) -> Result<Model, ModelError> {
    let mut model = attention(config, KvHeads::Required, HeadDim::Required)?;
    model.mlps.push(dense(config, model.layers)?);
    Ok(Model { qkv_bias: config.switch("attention_bias")?, ..model })
}

/// `gemma3.py`: `attention_bias` is on both projections.
fn gemma3(config: &Config<'_>) -> Result<Model, ModelError> {
    let mut model = attention(config, KvHeads::Required, HeadDim::Required)?;
    model.mlps.push(dense(config, model.layers)?);
    let bias = config.switch("attention_bias")?;
    Ok(Model { qkv_bias: bias, o_bias: bias, ..model })
}

/// `mixtral.py`: experts in every layer, no biases.
fn mixtral(config: &Config<'_>) -> Result<Model, ModelError> {
    let model = attention(config, KvHeads::Required, HeadDim::Derived)?;
    let router = router("gate", config.size("num_local_experts")?, model.layers);
    Ok(Model { router, ..model })
}

/// `qwen3_moe.py`: a layer has experts if it is not in `mlp_only_layers` and its 1-based number is a multiple of
/// `decoder_sparse_step`.
fn qwen3_moe(config: &Config<'_>) -> Result<Model, ModelError> {
    let mut model = attention(config, KvHeads::Required, HeadDim::Required)?;
    let step = u64::from(config.size_or_none("decoder_sparse_step")?.unwrap_or(1));
    let dense_only = config.layer_list("mlp_only_layers")?;
    let has_experts = |layer: &u64| (layer + 1).is_multiple_of(step) && !dense_only.contains(layer);
    let layers = (0..u64::from(model.layers)).filter(has_experts).count() as u32;
    if layers < model.layers {
        model.mlps.push(dense(config, model.layers - layers)?);
    }
    let router = router("gate", config.size("num_experts")?, layers);
    Ok(Model { qkv_bias: config.switch("attention_bias")?, router, ..model })
}

/// `llama4.py`: layers whose 1-based number is a multiple of `interleave_moe_layer_step` have experts and one shared
/// expert of `intermediate_size`, the others a block of `intermediate_size_mlp`; never a bias.
fn llama4(config: &Config<'_>) -> Result<Model, ModelError> {
    let mut model = attention(config, KvHeads::Required, HeadDim::Required)?;
    let field = "interleave_moe_layer_step";
    let remedy = "; the model type's class has a default for it, write that into the file";
    let step = config.whole_or_none(field)?.ok_or_else(|| config.missing(field, remedy))?;
    let layers = model.layers.checked_div(step).unwrap_or(0);
    if layers < model.layers {
        let field = "intermediate_size_mlp";
        let intermediate = config.size(field)?;
        model.mlps.push(Mlp { names: DENSE, intermediate, field, layers: model.layers - layers, bias: false });
    }
    if layers > 0 {
        model.mlps.push(Mlp { names: SHARED, ..dense(config, layers)? });
    }
    let router = router("router", config.size("num_local_experts")?, layers);
    Ok(Model { router, ..model })
}

/// `glm4_moe.py`: the first `first_k_dense_replace` layers are dense; the others have experts, a router in 32 bits, and
/// `n_shared_experts` experts of `moe_intermediate_size` that are one block; a bias on q, k and v by `attention_bias`.
fn glm4_moe(config: &Config<'_>) -> Result<Model, ModelError> {
    let mut model = attention(config, KvHeads::Required, HeadDim::Required)?;
    let field = "first_k_dense_replace";
    let remedy = "; the model type's class has a default for it, write that into the file";
    let dense_layers = config.whole_or_none(field)?.ok_or_else(|| config.missing(field, remedy))?.min(model.layers);
    let layers = model.layers - dense_layers;
    if dense_layers > 0 {
        model.mlps.push(dense(config, dense_layers)?);
    }
    if let (Some(shared), true) = (config.size_or_none("n_shared_experts")?, layers > 0) {
        let field = "moe_intermediate_size";
        let one = config.size(field)?;
        let too_wide =
            || config.wrong(field, one, &format!("small enough to be held {shared} times (n_shared_experts)"));
        let intermediate = one.checked_mul(shared).ok_or_else(too_wide)?;
        model.mlps.push(Mlp { names: SHARED, intermediate, field, layers, bias: false });
    }
    let router = router("gate", config.size("n_routed_experts")?, layers)
        .map(|router| Router { dtype: RouterType::F32, ..router });
    Ok(Model { qkv_bias: config.switch("attention_bias")?, router, ..model })
}

/// `gpt_oss.py`: biases on q, k, v, on the output projection and on the router; experts in every layer, and only they
/// are stored as MXFP4.
fn gpt_oss(config: &Config<'_>) -> Result<Model, ModelError> {
    let model = attention(config, KvHeads::Required, HeadDim::Required)?;
    let router =
        router("router", config.size("num_local_experts")?, model.layers).map(|router| Router { bias: true, ..router });
    Ok(Model { qkv_bias: true, o_bias: true, router, quantized_experts_only: true, ..model })
}

fn router(name: &'static str, experts: u32, layers: u32) -> Option<Router> {
    (layers > 0).then_some(Router { name, experts, layers, bias: false, dtype: RouterType::Model })
}
