//! Fused mixture-of-experts layers: `out[M,D] = Σ over the token's experts of gate · (act(x · w1ᵀ) · w2ᵀ)` in one call.
//!
//! Stored, merged, looked up and exported; nothing here computes or tunes them yet. Sizes follow AITER's `fmoe` tables: M
//! tokens, D = `model_dim`, I = `inter_dim` (of one rank).
//!
//! vLLM's tables are named after fewer things than AITER's: [`MoeSite::as_vllm`] is a layer reduced to what they say. What
//! is not said is 0, `None`, [`MoeQuant::NotSaid`], [`Activation::None`] or false, and is written as such in the key.

use std::fmt;
use std::str::FromStr;

use crate::dtype::{DType, word_enum};
use crate::key::{KEY_BYTES_MAX, KeyError, NUMBER, flag, value, word};
use crate::problem::{Activation, EXTENT_MAX, Invalid, Problem};

word_enum! {
    /// How activations and weights are quantised.
    pub enum MoeQuant("quantisation") {
        /// Not at all.
        None = "none",
        /// One scale a tensor.
        PerTensor = "per_tensor",
        /// One scale a token, one a channel.
        PerToken = "per_token",
        /// One power of two for 32 elements along K (OCP microscaling).
        Per1x32 = "per_1x32",
        /// One scale for 128 elements along K of activations, for 128x128 of weights.
        Per1x128 = "per_1x128",
        /// One scale for 128x128 elements of both.
        Per128x128 = "per_128x128",
        /// Blocks of the shape in [`MoeSite::block`].
        Block = "block",
        /// Weights alone, their scales in groups along K.
        WeightOnly = "weight_only",
        /// Somehow: the source names the types but not the scales (vLLM's `fp8_w8a8` without a block shape).
        NotSaid = "not_said",
    }
}

/// A fused MoE layer at one number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moe {
    /// Tokens.
    pub m: u32,
    /// Everything else.
    pub site: MoeSite,
}

/// A fused MoE layer less its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoeSite {
    /// Experts of this rank.
    pub experts: u32,
    /// Experts a token goes to; 0: not said.
    pub topk: u32,
    /// In and out features of the layer; 0: not said.
    pub model_dim: u32,
    /// Features between the two products, on this rank.
    pub inter_dim: u32,
    /// Type of the layer's input and output; `None`: not said.
    pub x: Option<DType>,
    /// Type in which activations are multiplied; `None`: not said, or as `x`.
    pub q_x: Option<DType>,
    /// Type in which weights are kept; `None`: not said, or as `x`.
    pub q_w: Option<DType>,
    /// How they are quantised.
    pub quant: MoeQuant,
    /// Scale blocks (N, K) of [`MoeQuant::Block`]; else 0, 0.
    pub block: (u32, u32),
    /// The function between the products; [`Activation::None`]: not said.
    pub activation: Activation,
    /// Does the first product give gate and up (AITER's `use_g1u1`)? False where the source does not say.
    pub gated: bool,
    /// Are the routing weights applied in the first stage (AITER's `doweight_stage1`)? False where not said.
    pub weight_in_stage1: bool,
}

impl MoeSite {
    /// This layer at `m` tokens.
    pub fn at(self, m: u32) -> Moe {
        Moe { m, site: self }
    }

    /// This layer with its activation left open: what AITER's lookup asks for when no row has the activation itself.
    pub fn any_activation(self) -> MoeSite {
        MoeSite { activation: Activation::None, ..self }
    }

    /// Is this no more than vLLM's file names say? Those never tell the model's width, so no other source is mistaken.
    pub fn is_vllm(&self) -> bool {
        self.topk == 0 && self.model_dim == 0
    }

    /// This layer as vLLM's tables name it: experts, inner features, element types and block shape; `None` where vLLM has
    /// no name for the types.
    ///
    /// The types follow vLLM's `get_config_dtype_str` and the block shape its `get_config_file_name`: a shape of which
    /// one side is 0 (groups along K, as weight-only quantisation has) is not in the name.
    pub fn as_vllm(&self) -> Option<MoeSite> {
        if self.is_vllm() {
            return Some(*self);
        }
        let is_fp8 = |dtype| matches!(dtype, DType::F8E4m3Fn | DType::F8E4m3Fnuz);
        let is_wide = self.q_x.or(self.x).is_none_or(|dtype| dtype.bits() == 16);
        let bare = MoeSite::unsaid(self.experts, self.inter_dim);
        let site = match (self.quant, self.q_x, self.q_w) {
            (MoeQuant::None, _, _) => MoeSite { x: self.x.filter(|x| *x == DType::F32), ..bare },
            (_, Some(x), Some(w)) if x == w && (is_fp8(w) || w == DType::I8) => {
                let (quant, block) = match self.quant {
                    MoeQuant::Block => (MoeQuant::Block, self.block),
                    MoeQuant::Per1x128 | MoeQuant::Per128x128 => (MoeQuant::Block, (128, 128)),
                    MoeQuant::PerTensor | MoeQuant::PerToken | MoeQuant::NotSaid => (MoeQuant::NotSaid, (0, 0)),
                    _ => return None,
                };
                MoeSite { q_x: Some(x), q_w: Some(w), quant, block, ..bare }
            }
            (MoeQuant::WeightOnly | MoeQuant::Per1x32, _, Some(w @ (DType::I4 | DType::I8))) if is_wide => {
                MoeSite { q_w: Some(w), quant: MoeQuant::WeightOnly, ..bare }
            }
            _ => return None,
        };
        Some(site)
    }

    /// A layer of which only these sizes are said.
    pub fn unsaid(experts: u32, inter_dim: u32) -> MoeSite {
        MoeSite {
            experts,
            topk: 0,
            model_dim: 0,
            inter_dim,
            x: None,
            q_x: None,
            q_w: None,
            quant: MoeQuant::None,
            block: (0, 0),
            activation: Activation::None,
            gated: false,
            weight_in_stage1: false,
        }
    }
}

impl Moe {
    /// Are all sizes possible?
    pub fn validate(&self) -> Result<(), Invalid> {
        let MoeSite { experts, topk, model_dim, inter_dim, .. } = self.site;
        for (name, value) in [("tokens", self.m), ("experts", experts), ("inter_dim", inter_dim)] {
            if value == 0 || value > EXTENT_MAX {
                return Err(Invalid::Extent { name, value: value.into() });
            }
        }
        for (name, value) in [("topk", topk), ("model_dim", model_dim)] {
            if value > EXTENT_MAX {
                return Err(Invalid::Extent { name, value: value.into() });
            }
        }
        Ok(())
    }
}

impl From<Moe> for Problem {
    fn from(moe: Moe) -> Problem {
        Problem::Moe(moe)
    }
}

impl fmt::Display for Moe {
    /// All fields in one order: `moe,m=1,experts=8,topk=2,model_dim=4096,inter_dim=14336,x=bf16,q_x=-,…`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.site;
        let dtype = |dtype: Option<DType>| dtype.map_or("-", DType::name);
        write!(
            f,
            "moe,m={},experts={},topk={},model_dim={},inter_dim={},x={},q_x={},q_w={},quant={},block={}x{},act={},gated={},stage1={}",
            self.m,
            s.experts,
            s.topk,
            s.model_dim,
            s.inter_dim,
            dtype(s.x),
            dtype(s.q_x),
            dtype(s.q_w),
            s.quant,
            s.block.0,
            s.block.1,
            s.activation,
            u8::from(s.gated),
            u8::from(s.weight_in_stage1)
        )
    }
}

impl FromStr for Moe {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Moe, KeyError> {
        if text.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong(text.len()));
        }
        let fields = text.strip_prefix("moe,").ok_or_else(|| KeyError::Operation(text.into()))?;
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for part in fields.split(',') {
            let (name, text) = part.split_once('=').ok_or_else(|| KeyError::NotAField(part.into()))?;
            if seen.iter().any(|(have, _)| *have == name) {
                return Err(KeyError::Repeated(name.into()));
            }
            if !FIELDS.contains(&name) {
                return Err(KeyError::UnknownField(name.into()));
            }
            seen.push((name, text));
        }
        let get = |name: &'static str| {
            seen.iter().find(|(have, _)| *have == name).map(|(_, text)| *text).ok_or(KeyError::Missing(name))
        };
        let number = |name: &'static str| value(name, get(name)?, NUMBER);
        let dtype = |name: &'static str| match get(name)? {
            "-" => Ok(None),
            text => word(name, text).map(Some),
        };
        let block = get("block")?;
        let (rows, cols) = block.split_once('x').unwrap_or((block, ""));
        let site = MoeSite {
            experts: number("experts")?,
            topk: number("topk")?,
            model_dim: number("model_dim")?,
            inter_dim: number("inter_dim")?,
            x: dtype("x")?,
            q_x: dtype("q_x")?,
            q_w: dtype("q_w")?,
            quant: word("quant", get("quant")?)?,
            block: (value("block", rows, NUMBER)?, value("block", cols, NUMBER)?),
            activation: word("act", get("act")?)?,
            gated: flag("gated", get("gated")?)?,
            weight_in_stage1: flag("stage1", get("stage1")?)?,
        };
        let moe = site.at(number("m")?);
        moe.validate()?;
        Ok(moe)
    }
}

/// The fields of a key, in order.
const FIELDS: &[&str] =
    &["m", "experts", "topk", "model_dim", "inter_dim", "x", "q_x", "q_w", "quant", "block", "act", "gated", "stage1"];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn any_moe() -> impl Strategy<Value = Moe> {
        let dtype = || proptest::option::of(select(DType::all().collect::<Vec<_>>()));
        let sizes = (1u32..9999, 1u32..999, 0u32..99, 0u32..9999, 1u32..9999, (0u32..999, 0u32..999));
        let words = (select(MoeQuant::ALL), select(Activation::ALL), any::<[bool; 2]>());
        (sizes, (dtype(), dtype(), dtype()), words).prop_map(|(n, t, w)| {
            let site = MoeSite {
                experts: n.1,
                topk: n.2,
                model_dim: n.3,
                inter_dim: n.4,
                x: t.0,
                q_x: t.1,
                q_w: t.2,
                quant: w.0,
                block: n.5,
                activation: w.1,
                gated: w.2[0],
                weight_in_stage1: w.2[1],
            };
            site.at(n.0)
        })
    }

    proptest! {
        #[test]
        fn every_key_round_trips(moe in any_moe()) {
            let text = moe.to_string();
            prop_assert_eq!(text.parse::<Moe>(), Ok(moe));
            prop_assert_eq!(text.parse::<Problem>(), Ok(Problem::Moe(moe)));
            for field in FIELDS {
                prop_assert!(text.contains(&format!(",{field}=")), "{} is written", field);
            }
        }

        #[test]
        fn any_text_is_an_error_or_a_key(text in "moe,\\PC{0,80}") {
            if let Ok(moe) = text.parse::<Moe>() {
                prop_assert_eq!(moe.to_string().parse::<Moe>(), Ok(moe));
            }
        }
    }

    proptest! {
        #[test]
        fn a_layer_as_vllm_names_it_is_named_so_again(moe in any_moe()) {
            if let Some(named) = moe.site.as_vllm() {
                prop_assert!(named.is_vllm());
                prop_assert_eq!(named.as_vllm(), Some(named));
                prop_assert_eq!((named.experts, named.inter_dim), (moe.site.experts, moe.site.inter_dim));
            }
        }
    }

    #[test]
    fn vllm_names_types_and_blocks_only() {
        let full = any_moe_text().parse::<Moe>().unwrap().site;
        let bare = MoeSite::unsaid(8, 14336);
        let of = |q_x, q_w, quant, block| MoeSite { q_x, q_w, quant, block, ..full }.as_vllm();
        let (fp8, i8, i4) = (Some(DType::F8E4m3Fn), Some(DType::I8), Some(DType::I4));
        assert_eq!(full.as_vllm(), Some(bare), "bf16 and f16 share a file without a dtype");
        assert_eq!(MoeSite { x: Some(DType::F32), ..full }.as_vllm(), Some(MoeSite { x: Some(DType::F32), ..bare }));
        let blocks = MoeSite { q_x: fp8, q_w: fp8, quant: MoeQuant::Block, block: (128, 128), ..bare };
        assert_eq!(of(fp8, fp8, MoeQuant::Per1x128, (0, 0)), Some(blocks));
        assert_eq!(of(fp8, fp8, MoeQuant::Block, (128, 128)), Some(blocks));
        let scales_unsaid = MoeSite { q_x: i8, q_w: i8, quant: MoeQuant::NotSaid, ..bare };
        assert_eq!(of(i8, i8, MoeQuant::PerToken, (0, 0)), Some(scales_unsaid));
        let weights = MoeSite { q_w: i4, quant: MoeQuant::WeightOnly, ..bare };
        assert_eq!(of(None, i4, MoeQuant::WeightOnly, (0, 32)), Some(weights));
        assert_eq!(of(Some(DType::Bf16), i4, MoeQuant::Per1x32, (0, 0)), Some(weights));
        assert_eq!(of(fp8, Some(DType::F4E2m1x2), MoeQuant::Per1x32, (0, 0)), None);
    }

    #[test]
    fn errors_name_the_field() {
        let good = any_moe_text();
        let bad = |from: &str, to: &str| good.replace(from, to).parse::<Moe>().unwrap_err().to_string();
        assert_eq!(bad("experts=8", "experts=0"), "experts is 0; it must be between 1 and 2147483647");
        assert_eq!(bad(",topk=2", ""), "key lacks field 'topk'");
        assert_eq!(bad("topk=2", "topk=2,topk=3"), "field 'topk' stands twice in a key");
        assert_eq!(bad("gated=1", "gated=yes"), "field 'gated' in a key: 'yes' is not 0 or 1");
        assert!(bad("block=0x0", "block=128").contains("'block'"));
    }

    fn any_moe_text() -> String {
        "moe,m=1,experts=8,topk=2,model_dim=4096,inter_dim=14336,x=bf16,q_x=-,q_w=-,quant=none,block=0x0,act=silu,gated=1,stage1=0".into()
    }
}
