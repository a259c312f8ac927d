//! Shapes of real models, against figures worked out by hand from their files and against a tuning list that others
//! published. The files are not in the repository: a test without them says so and passes.

use std::path::PathBuf;

use super::*;

fn shared(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")).join(path)
}

/// A configuration from outside the repository; `None`, with a line that says so, where it is not there.
fn real(name: &str) -> Option<String> {
    let path = shared("models").join(name).join("config.json");
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("skipped: {} is not here", path.display());
    }
    text
}

/// Model, ranks and element type (`-`: the file's), then its sites.
const EXPECTED: &str = "
Llama-3.1-8B 1 -: qkv_proj 6144 4096 x32, o_proj 4096 4096 x32, gate_up_proj 28672 4096 x32, down_proj 4096 14336 x32,
  lm_head 128256 4096 x1
Llama-3.1-8B 8 -: qkv_proj 768 4096 x32, o_proj 4096 512 x32, gate_up_proj 3584 4096 x32, down_proj 4096 1792 x32,
  lm_head 16032 4096 x1
Llama-3.3-70B 8 bf16: qkv_proj 1280 8192 x80, o_proj 8192 1024 x80, gate_up_proj 7168 8192 x80,
  down_proj 8192 3584 x80, lm_head 16032 8192 x1
Mistral-7B-v0.3 1 -: qkv_proj 6144 4096 x32, o_proj 4096 4096 x32, gate_up_proj 28672 4096 x32,
  down_proj 4096 14336 x32, lm_head 32768 4096 x1
Qwen3-0.6B 1 -: qkv_proj 4096 1024 x28, o_proj 1024 2048 x28, gate_up_proj 6144 1024 x28, down_proj 1024 3072 x28,
  lm_head 151936 1024 x1
Qwen2.5-7B 1 -: qkv_proj 4608 3584 x28 +bias, o_proj 3584 3584 x28, gate_up_proj 37888 3584 x28,
  down_proj 3584 18944 x28, lm_head 152064 3584 x1
Phi-4 2 -: qkv_proj 3840 5120 x40, o_proj 5120 2560 x40, gate_up_proj 17920 5120 x40, down_proj 5120 8960 x40,
  lm_head 50176 5120 x1
Mixtral-8x7B 1 -: qkv_proj 6144 4096 x32, o_proj 4096 4096 x32, gate 8 4096 x32, lm_head 32000 4096 x1
Qwen3-30B-A3B 8 -: qkv_proj 768 2048 x48, o_proj 2048 512 x48, gate 128 2048 x48, lm_head 18992 2048 x1
gpt-oss-20b 1 bf16: qkv_proj 5120 2880 x24 +bias, o_proj 2880 4096 x24 +bias, router 32 2880 x24 +bias,
  lm_head 201088 2880 x1
Llama-4-Scout-17B-16E 1 -: qkv_proj 7168 5120 x48, o_proj 5120 5120 x48, router 16 5120 x48,
  shared_experts.gate_up_proj 16384 5120 x48, shared_experts.down_proj 5120 8192 x48, lm_head 202048 5120 x1
Llama-4-Maverick-17B-128E 8 bf16: qkv_proj 896 5120 x48, o_proj 5120 640 x48, router 128 5120 x24,
  gate_up_proj 4096 5120 x24, down_proj 5120 2048 x24, shared_experts.gate_up_proj 2048 5120 x24,
  shared_experts.down_proj 5120 1024 x24, lm_head 25256 5120 x1
GLM-4.5-Air 1 -: qkv_proj 14336 4096 x46 +bias, o_proj 4096 12288 x46, gate 128 4096 x45 f32,
  gate_up_proj 21888 4096 x1, down_proj 4096 10944 x1, shared_experts.gate_up_proj 2816 4096 x45,
  shared_experts.down_proj 4096 1408 x45, lm_head 151552 4096 x1
";

#[test]
fn real_models_have_the_shapes_worked_out_by_hand() {
    let joined = EXPECTED.replace("\n  ", " ");
    for entry in joined.lines().filter(|line| !line.is_empty()) {
        let (head, expected) = entry.split_once(": ").unwrap();
        let [name, tp, dtype] = head.split(' ').collect::<Vec<_>>()[..] else { panic!("{head}") };
        let Some(config) = real(name) else { continue };
        let options = at(tp.parse().unwrap(), dtype.parse().ok());
        let shapes = sites(&config, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(lines(&shapes), expected.split(", ").collect::<Vec<_>>(), "{head}");
    }
}

#[test]
fn every_real_file_gives_valid_sites_or_says_what_it_lacks() {
    let Ok(folder) = std::fs::read_dir(shared("models")) else {
        println!("skipped: no model configurations here");
        return;
    };
    let mut read = 0;
    for entry in folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        let config = std::fs::read_to_string(entry.join("config.json")).unwrap();
        let dtype = Some(DType::Bf16);
        match (name.as_str(), sites(&config, &at(1, dtype))) {
            ("DeepSeek-V3", result) => {
                assert!(
                    matches!(result, Err(ModelError::UnsupportedModel { model_type, .. }) if model_type == "deepseek_v3")
                );
            }
            ("Gemma-3-27B", result) => {
                let error = result.unwrap_err().to_string();
                assert!(error.starts_with("field 'text_config.vocab_size' is missing"), "{error}");
                let bare = ShapeOptions { lm_head: false, ..at(1, None) };
                let shapes = sites(&config, &bare).unwrap();
                assert_eq!(lines(&shapes)[..2], ["qkv_proj 8192 5376 x62", "o_proj 5376 4096 x62"]);
                assert_eq!(shapes.skipped, ["vision tower: only the text model is derived"]);
            }
            (name, result) => {
                let shapes = result.unwrap_or_else(|error| panic!("{name}: {error}"));
                for layer in &shapes.sites {
                    assert_eq!(layer.site.at(1).validate(), Ok(()), "{name}: {}", layer.name);
                    assert!(layer.site.is_plain_linear() && layer.count >= 1 && layer.count <= shapes.layers);
                }
                let attention: u32 = shapes.sites.iter().filter(|l| l.name == "qkv_proj").map(|l| l.count).sum();
                assert_eq!(attention, shapes.layers, "{name}");
            }
        }
        read += 1;
    }
    assert!(read >= 18, "only {read} configurations");
}

#[test]
fn the_published_70b_tuning_list_holds_our_sites() {
    let path = shared("aiter/aiter/configs/model_configs/llama70B_untuned_gemm_bf16.csv");
    let (Some(config), Ok(list)) = (real("Llama-3.3-70B"), std::fs::read_to_string(&path)) else {
        println!("skipped: {} is not here", path.display());
        return;
    };
    let pairs: HashSet<(u32, u32)> = list
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut cells = line.split(',').map(str::trim);
            let (_m, n, k) = (cells.next()?, cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
            Some((n, k))
        })
        .collect();
    for tp in [1, 4, 8] {
        let options = ShapeOptions { lm_head: false, ..at(tp, Some(DType::Bf16)) };
        for layer in sites(&config, &options).unwrap().sites {
            let pair = (layer.site.n, layer.site.k);
            assert!(pairs.contains(&pair), "{} at tp {tp} is {pair:?}, which the list lacks", layer.name);
        }
    }
}
