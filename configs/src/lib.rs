//! What ships inside the binary: model sizes for demonstrations, in Hugging Face's field names.
//!
//! Only the fields that decide shapes are kept. The sizes of public models are facts of their published
//! `config.json`; `tiny` is our own.

/// One shipped model: its name and the text of its `config.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The name that [`model`] takes.
    pub name: &'static str,
    /// JSON in Hugging Face's field names.
    pub config: &'static str,
    /// What it is for, in a few words.
    pub about: &'static str,
}

const MODELS: &[Model] = &[
    Model {
        name: "tiny",
        config: include_str!("../models/tiny.json"),
        about: "44 million weights in GEMMs: runs in seconds on two cores",
    },
    Model {
        name: "qwen3-0.6b",
        config: include_str!("../models/qwen3-0.6b.json"),
        about: "the sizes of Qwen3-0.6B: 596 million weights in GEMMs",
    },
    Model {
        name: "qwen3-30b-a3b",
        config: include_str!("../models/qwen3-30b-a3b.json"),
        about: "the sizes of Qwen3-30B-A3B; its experts are no GEMM sites",
    },
    Model {
        name: "llama-3.3-70b",
        config: include_str!("../models/llama-3.3-70b.json"),
        about: "the sizes of Llama-3.3-70B: 69.5 billion weights in GEMMs",
    },
];

/// Every shipped model, smallest first.
pub fn models() -> &'static [Model] {
    MODELS
}

/// The `config.json` of a shipped model.
pub fn model(name: &str) -> Option<&'static str> {
    MODELS.iter().find(|model| model.name == name).map(|model| model.config)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number behind `"field":`.
    fn number(config: &str, field: &str) -> u64 {
        let rest = config.split(&format!("\"{field}\":")).nth(1).unwrap().trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    }

    /// Weights in linear layers, with fused qkv and gate_up.
    fn gemm_weights(config: &str) -> u64 {
        let of = |field| number(config, field);
        let (hidden, inner, dim) = (of("hidden_size"), of("intermediate_size"), of("head_dim"));
        let (heads, kv_heads) = (of("num_attention_heads"), of("num_key_value_heads"));
        let attention = hidden * (heads + 2 * kv_heads) * dim + heads * dim * hidden;
        of("num_hidden_layers") * (attention + 3 * hidden * inner) + hidden * of("vocab_size")
    }

    #[test]
    fn sizes_are_as_described() {
        let millions = |name| (gemm_weights(model(name).unwrap()) + 500_000) / 1_000_000;
        assert_eq!(millions("tiny"), 44);
        assert_eq!(millions("qwen3-0.6b"), 596);
        assert_eq!(millions("llama-3.3-70b"), 69_502);
        assert_eq!(model("qwen3"), None);
        assert!(models().iter().all(|shipped| model(shipped.name) == Some(shipped.config)));
    }
}
