//! Rules on a small model, files that nobody should have written, and, in `real`, files of real models.

mod real;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(tp: u32, dtype: Option<DType>) -> ShapeOptions {
    ShapeOptions { tp, dtype, lm_head: true }
}

/// `name N K count`, with `+bias` and the type where it is not bf16.
fn lines(shapes: &ModelShapes) -> Vec<String> {
    let line = |layer: &ModelSite| {
        let bias = if layer.site.bias.is_some() { " +bias" } else { "" };
        let dtype = if layer.site.x == DType::Bf16 { String::new() } else { format!(" {}", layer.site.x) };
        format!("{} {} {} x{}{bias}{dtype}", layer.name, layer.site.n, layer.site.k, layer.count)
    };
    shapes.sites.iter().map(line).collect()
}

fn tiny() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 8,
        "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 100, "torch_dtype": "bfloat16"
    })
}

fn with(fields: &[(&str, Value)]) -> String {
    let mut config = tiny();
    for (name, value) in fields {
        config[*name] = value.clone();
    }
    config.to_string()
}

fn without(field: &str) -> String {
    let mut config = tiny();
    config.as_object_mut().unwrap().remove(field);
    config.to_string()
}

#[test]
fn a_small_llama_is_fused_sharded_and_padded() {
    let shapes = sites(&tiny().to_string(), &ShapeOptions::default()).unwrap();
    let whole =
        ["qkv_proj 96 64 x3", "o_proj 64 64 x3", "gate_up_proj 384 64 x3", "down_proj 64 192 x3", "lm_head 128 64 x1"];
    assert_eq!(lines(&shapes), whole);
    assert_eq!((shapes.model_type.as_str(), shapes.layers, shapes.skipped.len()), ("llama", 3, 0));

    // Eight ranks, two KV heads: each is held by four ranks.
    let eighth = sites(&tiny().to_string(), &at(8, None)).unwrap();
    let shares =
        ["qkv_proj 24 64 x3", "o_proj 64 8 x3", "gate_up_proj 48 64 x3", "down_proj 64 24 x3", "lm_head 16 64 x1"];
    assert_eq!(lines(&eighth), shares);

    let bare = ShapeOptions { lm_head: false, ..ShapeOptions::default() };
    assert_eq!(lines(&sites(&without("vocab_size"), &bare).unwrap()), whole[..4]);
}

#[test]
fn only_rank_0_adds_the_bias_of_a_row_parallel_layer() {
    let config = with(&[("attention_bias", json!(true)), ("mlp_bias", json!(true))]);
    let names = |tp| lines(&sites(&config, &ShapeOptions { lm_head: false, ..at(tp, None) }).unwrap());
    let one = [
        "qkv_proj 96 64 x3 +bias",
        "o_proj 64 64 x3 +bias",
        "gate_up_proj 384 64 x3 +bias",
        "down_proj 64 192 x3 +bias",
    ];
    assert_eq!(names(1), one);
    let two = [
        "qkv_proj 48 64 x3 +bias",
        "o_proj@rank0 64 32 x3 +bias",
        "o_proj@others 64 32 x3",
        "gate_up_proj 192 64 x3 +bias",
        "down_proj@rank0 64 96 x3 +bias",
        "down_proj@others 64 96 x3",
    ];
    assert_eq!(names(2), two);
}

#[test]
fn sparse_steps_and_dense_only_layers_are_counted() {
    let fields = [
        ("model_type", json!("qwen3_moe")),
        ("head_dim", json!(16)),
        ("num_experts", json!(4)),
        ("num_hidden_layers", json!(8)),
        ("decoder_sparse_step", json!(2)),
        ("mlp_only_layers", json!([1, 4, 99])),
    ];
    let shapes = sites(&with(&fields), &ShapeOptions::default()).unwrap();
    // Layers 1, 3, 5, 7 are due for experts, 1 is excepted.
    let expected = [
        "qkv_proj 192 64 x8",
        "o_proj 64 128 x8",
        "gate 4 64 x3",
        "gate_up_proj 384 64 x5",
        "down_proj 64 192 x5",
        "lm_head 128 64 x1",
    ];
    assert_eq!(lines(&shapes), expected);
    assert!(shapes.skipped[0].starts_with("experts of 3 layers"), "{:?}", shapes.skipped);
}

#[test]
fn hostile_files_give_one_line_that_names_the_field() {
    let error = |config: &str| {
        let text = sites(config, &ShapeOptions::default()).unwrap_err().to_string();
        assert!(!text.contains('\n') && text.len() < 300, "{text}");
        text
    };
    for field in [
        "model_type",
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_hidden_layers",
        "vocab_size",
        "torch_dtype",
    ] {
        assert!(error(&without(field)).starts_with(&format!("field '{field}' is missing")), "{field}");
        let nothing = error(&with(&[(field, Value::Null)]));
        assert!(nothing.starts_with(&format!("field '{field}' is missing")), "{nothing}");
    }
    let hostile = [
        json!(0),
        json!(-1),
        json!(1u64 << 63),
        json!(1u64 << 31),
        json!("4096"),
        json!(1.5),
        json!([1]),
        json!({"a": 1}),
        json!(true),
    ];
    for field in [
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
        "num_hidden_layers",
        "vocab_size",
        "head_dim",
    ] {
        for value in &hostile {
            let text = error(&with(&[(field, value.clone())]));
            assert!(text.starts_with(&format!("field '{field}' is ")), "{field} = {value}: {text}");
        }
    }
    assert_eq!(error(&with(&[("attention_bias", json!(1))])), "field 'attention_bias' is 1; it must be true or false");
    assert_eq!(
        error(&with(&[("torch_dtype", json!("int3"))])),
        "field 'torch_dtype' is \"int3\"; it must be bfloat16, float16 or float32"
    );
    assert_eq!(
        error(&with(&[("num_hidden_layers", json!(10_001))])),
        "field 'num_hidden_layers' is 10001; it must be at most 10000"
    );
    assert_eq!(
        error(&with(&[("num_key_value_heads", json!(3))])),
        "field 'num_key_value_heads' is 3; it must be a divisor of num_attention_heads = 8"
    );
    assert!(
        error(&with(&[("hidden_size", json!(63))])).starts_with("field 'hidden_size' is 63; it must be a multiple of")
    );
    assert!(error(&with(&[("head_dim", json!(2_000_000_000))])).starts_with("qkv_proj would have N = "));
    assert!(error(&with(&[("text_config", json!(7))])).starts_with("field 'text_config' is 7"));
    assert!(error(&with(&[("text_config", json!({}))])).starts_with("field 'text_config.hidden_size' is missing"));
    assert!(
        error(&with(&[("model_type", json!("gpt2"))])).starts_with("model type 'gpt2' is not supported: known: gemma3")
    );
    assert!(error(&with(&[("quantization_config", json!({"quant_method": "awq"}))])).contains("quantised (awq)"));
    assert!(error("").starts_with("line 1, column 0: not JSON"));
    assert!(error("{\n  \"a\": ,\n}").starts_with("line 2, column 8: not JSON"));
    assert_eq!(error("[]"), "the model configuration is not a JSON object");
    assert!(error(&"[".repeat(100_000)).contains("recursion limit"));
    assert!(error(&" ".repeat(CONFIG_BYTES_MAX + 1)).starts_with("the model configuration has 4194305 bytes"));
    assert!(sites(&format!("\u{feff}{}", tiny()), &ShapeOptions::default()).is_ok());
}

#[test]
fn ranks_that_cannot_share_are_refused() {
    let error = |tp| sites(&tiny().to_string(), &at(tp, None)).unwrap_err();
    assert_eq!(error(0).to_string(), "tensor parallelism is 0; it must be between 1 and 2147483647");
    assert!(matches!(error(3), ModelError::Indivisible { what: "num_attention_heads", size: 8, tp: 3 }));
    assert!(matches!(error(16), ModelError::Indivisible { what: "num_attention_heads", .. }));
    let heads =
        with(&[("num_attention_heads", json!(12)), ("num_key_value_heads", json!(6)), ("hidden_size", json!(48))]);
    let replicas = sites(&heads, &at(4, None)).unwrap_err();
    assert!(matches!(replicas, ModelError::HeadReplicas { tp: 4, size: 6, .. }), "{replicas}");
    let narrow = with(&[("intermediate_size", json!(100))]);
    assert!(matches!(sites(&narrow, &at(8, None)), Err(ModelError::Indivisible { what: "intermediate_size", .. })));
}

#[test]
fn recorded_problems_carry_counts_and_merge_equal_layers() {
    let config =
        with(&[("intermediate_size", json!(32)), ("num_key_value_heads", json!(8)), ("hidden_size", json!(64))]);
    let shapes = sites(&config, &ShapeOptions { lm_head: false, ..ShapeOptions::default() }).unwrap();
    // o_proj and gate_up_proj are both 64 x 64 here.
    assert_eq!(
        lines(&shapes),
        ["qkv_proj 192 64 x3", "o_proj 64 64 x3", "gate_up_proj 64 64 x3", "down_proj 64 32 x3"]
    );
    let rows = recorded(&shapes, &[1, 4, 1]).unwrap();
    let counts: Vec<_> =
        rows.iter().map(|row| (row.problem.gemm().unwrap().m, row.problem.gemm().unwrap().site.n, row.count)).collect();
    assert_eq!(counts, [(1, 192, 3), (1, 64, 6), (1, 64, 3), (4, 192, 3), (4, 64, 6), (4, 64, 3)]);
    assert!(matches!(recorded(&shapes, &[1, 0]), Err(ModelError::Argument { value: 0, .. })));
}

#[test]
fn capture_sizes_are_those_of_vllm() {
    assert!(capture_sizes(0).is_empty());
    assert_eq!(capture_sizes(3), [1, 2]);
    assert_eq!(capture_sizes(24), [1, 2, 4, 8, 16, 24]);
    let all = capture_sizes(8192);
    assert_eq!((all.len(), all.last()), (51, Some(&512)));
    assert_eq!(all[33..36], [248, 256, 272]);
}

proptest! {
    /// Whatever the fields hold, there is an answer, and sites are valid.
    #[test]
    fn any_fields_give_shapes_or_an_error(
        kind in prop::sample::select(&["llama", "mistral", "qwen2", "qwen3", "phi3", "gemma3", "mixtral", "qwen3_moe", "llama4", "glm4_moe", "gpt_oss", "x"][..]),
        sizes in prop::collection::vec(prop_oneof![Just(0u64), 1u64..300, any::<u64>()], 16),
        tp in prop_oneof![0u32..9, any::<u32>()],
    ) {
        let names = ["hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
            "num_hidden_layers", "vocab_size", "num_experts", "num_local_experts", "n_routed_experts", "n_shared_experts",
            "moe_intermediate_size", "first_k_dense_replace", "interleave_moe_layer_step", "intermediate_size_mlp",
            "decoder_sparse_step"];
        let mut config = json!({"model_type": kind, "dtype": "float16"});
        for (name, size) in names.iter().zip(sizes) {
            config[*name] = size.into();
        }
        if let Ok(shapes) = sites(&config.to_string(), &at(tp, None)) {
            for layer in shapes.sites {
                prop_assert_eq!(layer.site.at(1).validate(), Ok(()));
            }
        }
    }

    #[test]
    fn any_text_is_an_error_or_shapes(text in "\\PC{0,60}") {
        let _ = sites(&text, &ShapeOptions::default());
    }
}
