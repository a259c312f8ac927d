//! The sizes of a model, read from a Hugging Face `config.json`.

use serde::Deserialize;

/// The most weights in linear layers that a decoder is built for: 16 GiB in a 16-bit type.
pub const WEIGHTS_MAX: u64 = 8 << 30;
/// The largest single size.
const SIZE_MAX: u32 = 1 << 22;
/// The most layers.
const LAYERS_MAX: u32 = 1024;

/// Why a configuration cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not JSON, or a field is absent or of another type.
    #[error("config.json: {0}")]
    Json(#[from] serde_json::Error),
    /// A size that no decoder can have.
    #[error("config.json: {field} is {value}; {expected}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it should be.
        expected: String,
    },
    /// A kind of model that the decoder does not compute.
    #[error("config.json: model_type '{0}' is not one of llama, mistral, qwen2, qwen3")]
    ModelType(String),
}

/// The fields of `config.json` that are read.
#[derive(Deserialize)]
struct File {
    model_type: String,
    hidden_size: u32,
    intermediate_size: u32,
    num_hidden_layers: u32,
    num_attention_heads: u32,
    num_key_value_heads: Option<u32>,
    head_dim: Option<u32>,
    vocab_size: u32,
    rms_norm_eps: f32,
    rope_theta: Option<f64>,
    attention_bias: Option<bool>,
    tie_word_embeddings: Option<bool>,
}

/// What decides a decoder's shapes and arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width of the gated layer.
    pub intermediate: u32,
    /// Number of layers.
    pub layers: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u32,
    /// Width of a head; even.
    pub head_dim: u32,
    /// Tokens.
    pub vocab: u32,
    /// Added to the mean square before its root.
    pub norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Has the fused qkv layer a bias (Qwen2)?
    pub qkv_bias: bool,
    /// Are q and k normalised per head (Qwen3)?
    pub qk_norm: bool,
    /// Is the head the embedding table?
    pub tied: bool,
}

impl ModelConfig {
    /// Reads the text of a `config.json`. Defaults of absent fields are those of the model's kind.
    pub fn from_json(text: &str) -> Result<ModelConfig, ConfigError> {
        let file: File = serde_json::from_str(text)?;
        let (qkv_bias, qk_norm) = match file.model_type.as_str() {
            // Qwen2 has the bias without a field that says so.
            "qwen2" => (true, false),
            "qwen3" => (file.attention_bias.unwrap_or(false), true),
            "llama" | "mistral" => (file.attention_bias.unwrap_or(false), false),
            _ => return Err(ConfigError::ModelType(file.model_type)),
        };
        let heads = file.num_attention_heads;
        let config = ModelConfig {
            hidden: file.hidden_size,
            intermediate: file.intermediate_size,
            layers: file.num_hidden_layers,
            heads,
            kv_heads: file.num_key_value_heads.unwrap_or(heads),
            head_dim: file.head_dim.unwrap_or_else(|| file.hidden_size.checked_div(heads).unwrap_or(0)),
            vocab: file.vocab_size,
            norm_eps: file.rms_norm_eps,
            rope_theta: file.rope_theta.unwrap_or(10_000.0),
            qkv_bias,
            qk_norm,
            tied: file.tie_word_embeddings.unwrap_or(false),
        };
        config.validate()?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let sizes = [
            ("hidden_size", self.hidden, SIZE_MAX),
            ("intermediate_size", self.intermediate, SIZE_MAX),
            ("num_hidden_layers", self.layers, LAYERS_MAX),
            ("num_attention_heads", self.heads, SIZE_MAX),
            ("num_key_value_heads", self.kv_heads, SIZE_MAX),
            ("head_dim", self.head_dim, SIZE_MAX),
            ("vocab_size", self.vocab, SIZE_MAX),
        ];
        let fail = |field, value: u64, expected: String| Err(ConfigError::Field { field, value, expected });
        for (field, value, max) in sizes {
            if value == 0 || value > max {
                return fail(field, value.into(), format!("it must be between 1 and {max}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return fail("num_key_value_heads", self.kv_heads.into(), format!("it must divide {} heads", self.heads));
        }
        if !self.head_dim.is_multiple_of(2) {
            return fail("head_dim", self.head_dim.into(), "rotary embedding needs an even one".into());
        }
        let weights = self.weights();
        if weights > WEIGHTS_MAX {
            return fail("num_hidden_layers", self.layers.into(), format!("{weights} weights exceed {WEIGHTS_MAX}"));
        }
        Ok(())
    }

    /// Out features of the fused qkv layer.
    pub fn qkv_width(&self) -> u32 {
        (self.heads + 2 * self.kv_heads).saturating_mul(self.head_dim)
    }

    /// In features of the attention's output layer.
    pub fn attention_width(&self) -> u32 {
        self.heads.saturating_mul(self.head_dim)
    }

    /// The linear layers of one decoder layer: name, out features, in features.
    pub fn layer_shapes(&self) -> [(&'static str, u32, u32); 4] {
        [
            ("qkv", self.qkv_width(), self.hidden),
            ("o", self.hidden, self.attention_width()),
            ("gate_up", 2 * self.intermediate, self.hidden),
            ("down", self.hidden, self.intermediate),
        ]
    }

    /// Weights in linear layers, head included.
    pub fn weights(&self) -> u64 {
        let size = |n: u32, k: u32| u64::from(n).saturating_mul(k.into());
        let layer = self.layer_shapes().iter().fold(0u64, |sum, &(_, n, k)| sum.saturating_add(size(n, k)));
        layer.saturating_mul(self.layers.into()).saturating_add(size(self.vocab, self.hidden))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_models_are_read() {
        let tiny = ModelConfig::from_json(tgemm_configs::model("tiny").unwrap()).unwrap();
        assert!(tiny.qk_norm && !tiny.qkv_bias && !tiny.tied);
        assert_eq!(tiny.weights(), 44_040_192);
        let qwen = ModelConfig::from_json(tgemm_configs::model("qwen3-0.6b").unwrap()).unwrap();
        let shapes = [("qkv", 4096, 1024), ("o", 1024, 2048), ("gate_up", 6144, 1024), ("down", 1024, 3072)];
        assert_eq!(qwen.layer_shapes(), shapes);
        assert!(qwen.tied);
    }

    fn with(change: impl Fn(&mut serde_json::Value)) -> Result<ModelConfig, ConfigError> {
        let mut json: serde_json::Value = serde_json::from_str(tgemm_configs::model("tiny").unwrap()).unwrap();
        change(&mut json);
        ModelConfig::from_json(&json.to_string())
    }

    #[test]
    fn kinds_differ_in_bias_and_norms() {
        let qwen2 = with(|json| json["model_type"] = "qwen2".into()).unwrap();
        assert!(qwen2.qkv_bias && !qwen2.qk_norm);
        let llama = with(|json| {
            json["model_type"] = "llama".into();
            json.as_object_mut().unwrap().remove("head_dim");
            json.as_object_mut().unwrap().remove("num_key_value_heads");
        });
        assert_eq!(llama.map(|c| (c.qkv_bias, c.qk_norm, c.head_dim, c.kv_heads)).unwrap(), (false, false, 64, 12));
        assert!(matches!(with(|json| json["model_type"] = "gpt_oss".into()), Err(ConfigError::ModelType(_))));
    }

    #[test]
    fn impossible_sizes_are_named() {
        for (field, value) in [
            ("hidden_size", 0),
            ("num_key_value_heads", 5),
            ("head_dim", 63),
            ("vocab_size", u32::MAX),
            ("num_hidden_layers", 1025),
            ("num_attention_heads", 0),
        ] {
            let error = with(|json| json[field] = value.into()).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
        let wide = with(|json| {
            json["intermediate_size"] = (1 << 22).into();
            json["num_hidden_layers"] = 1000.into();
        });
        assert!(wide.unwrap_err().to_string().contains("exceed"));
        assert!(matches!(ModelConfig::from_json("{"), Err(ConfigError::Json(_))));
    }
}
