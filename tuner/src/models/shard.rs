//! What tensor parallelism leaves of each layer on one rank.
//!
//! Column-parallel layers keep all of K and a share of N, row-parallel ones all of N and a share of K
//! (`layers/linear.py`); the output projection is a share of the padded vocabulary (`vocab_parallel_embedding.py`);
//! routers are whole on every rank.

use tgemm_db::problem::{EXTENT_MAX, ScaleMode};
use tgemm_db::{DType, Site};

use super::family::{Model, RouterType};
use super::{ModelError, ModelSite, ShapeOptions};

/// The vocabulary is padded to a multiple of this before it is shared (`DEFAULT_VOCAB_PADDING_SIZE`).
const VOCAB_PADDING: u64 = 64;

/// All sites of `model` on one rank.
pub(super) fn sites(model: &Model, dtype: DType, options: &ShapeOptions) -> Result<Vec<ModelSite>, ModelError> {
    // An 8-bit type is that of weights and activations; what is not quantised, and outputs, are bf16.
    let quantized = dtype.is_float8().then_some(dtype);
    let dtype = if quantized.is_some() { DType::Bf16 } else { dtype };
    let mut rank = Rank { tp: options.tp, dtype, quantized, sites: Vec::new() };
    let hidden = u64::from(model.hidden);
    let heads = u64::from(rank.share("num_attention_heads", model.heads)?);
    let kv_heads = u64::from(rank.kv_heads(model.kv_heads)?);
    let head_dim = u64::from(model.head_dim);

    let qkv = rank.site("qkv_proj", (heads + 2 * kv_heads) * head_dim, hidden)?;
    rank.push("qkv_proj", qkv, model.qkv_bias, model.layers);
    let o = rank.site("o_proj", hidden, heads * head_dim)?;
    rank.push_row_parallel("o_proj", o, model.o_bias, model.layers);

    if let Some(router) = &model.router {
        let dtype = match router.dtype {
            RouterType::Model => dtype,
            RouterType::F32 => DType::F32,
        };
        let site = rank.plain_site(router.name, router.experts.into(), hidden)?;
        rank.push(router.name, Site { x: dtype, w: dtype, out: dtype, ..site }, router.bias, router.layers);
    }
    for mlp in &model.mlps {
        let [up, down] = mlp.names;
        let width = u64::from(rank.share(mlp.field, mlp.intermediate)?);
        let gate_up = rank.site(up, 2 * width, hidden)?;
        rank.push(up, gate_up, mlp.bias, mlp.layers);
        let site = rank.site(down, hidden, width)?;
        rank.push_row_parallel(down, site, mlp.bias, mlp.layers);
    }
    if options.lm_head {
        let vocab = model.vocab.ok_or_else(|| model.vocab_missing.clone())?;
        let padded = u64::from(vocab).next_multiple_of(VOCAB_PADDING);
        if padded % u64::from(options.tp) != 0 {
            return Err(ModelError::Indivisible { tp: options.tp, what: "the padded vocab_size", size: padded as u32 });
        }
        let site = rank.plain_site("lm_head", padded / u64::from(options.tp), hidden)?;
        rank.push("lm_head", site, false, 1);
    }
    Ok(rank.sites)
}

/// One of `tp` ranks, and the sites found for it so far.
struct Rank {
    tp: u32,
    dtype: DType,
    /// The 8-bit type of the layers that are quantised.
    quantized: Option<DType>,
    sites: Vec<ModelSite>,
}

impl Rank {
    /// This rank's share of `size`.
    fn share(&self, what: &'static str, size: u32) -> Result<u32, ModelError> {
        if size.is_multiple_of(self.tp) {
            return Ok(size / self.tp);
        }
        Err(ModelError::Indivisible { tp: self.tp, what, size })
    }

    /// KV heads are shared while there are enough of them; beyond that each is held by several ranks.
    fn kv_heads(&self, kv_heads: u32) -> Result<u32, ModelError> {
        if kv_heads.is_multiple_of(self.tp) {
            Ok(kv_heads / self.tp)
        } else if self.tp.is_multiple_of(kv_heads) {
            Ok(1)
        } else {
            Err(ModelError::HeadReplicas { tp: self.tp, what: "num_key_value_heads", size: kv_heads })
        }
    }

    fn site(&self, layer: &'static str, n: u64, k: u64) -> Result<Site, ModelError> {
        let extent = |name, value: u64| match u32::try_from(value) {
            Ok(small) if small <= EXTENT_MAX => Ok(small),
            _ => Err(ModelError::Extent { site: layer, name, value }),
        };
        let site = Site::linear(extent("N", n)?, extent("K", k)?, self.dtype);
        Ok(match self.quantized {
            // As vLLM's `fp8` runs it: one scale each for activations and weights, outputs in 16 bits.
            Some(dtype) => Site { x: dtype, w: dtype, scale: ScaleMode::Tensor, ..site },
            None => site,
        })
    }

    /// A site that is left unquantised.
    fn plain_site(&self, layer: &'static str, n: u64, k: u64) -> Result<Site, ModelError> {
        let site = self.site(layer, n, k)?;
        Ok(Site::linear(site.n, site.k, self.dtype))
    }

    fn push(&mut self, name: impl Into<String>, site: Site, bias: bool, count: u32) {
        let site = if bias { site.with_bias(self.dtype) } else { site };
        self.sites.push(ModelSite { name: name.into(), site, count });
    }

    /// Partial sums of all ranks are added up, so only rank 0 adds the bias: with several ranks there are two sites.
    fn push_row_parallel(&mut self, name: &str, site: Site, bias: bool, count: u32) {
        if bias && self.tp > 1 {
            self.push(format!("{name}@rank0"), site, true, count);
            self.push(format!("{name}@others"), site, false, count);
        } else {
            self.push(name, site, bias, count);
        }
    }
}
