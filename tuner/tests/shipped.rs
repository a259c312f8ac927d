//! The untuned files that ship are what `tune shapes` writes today.

mod common;

use common::{code, run, stderr, stdout};

const TOKENS: &str = "1,2,4,8,16,24,32,64,128,256,512,1024,2048,4096,8192";

#[test]
fn the_shipped_untuned_files_are_what_tune_shapes_writes() {
    for (file, args) in [
        ("llama-3.3-70b-tp2-bf16", &["--model", "llama-3.3-70b", "--tp", "2"][..]),
        ("llama-3.3-70b-tp2-fp8", &["--model", "llama-3.3-70b", "--tp", "2", "--dtype", "f8e4m3fn"]),
        ("qwen3-30b-a3b-bf16", &["--model", "qwen3-30b-a3b"]),
        ("qwen3-0.6b-bf16", &["--model", "qwen3-0.6b"]),
    ] {
        let output = run([&["shapes", "--tokens", TOKENS][..], args].concat());
        assert_eq!(code(&output), 0, "{file}: {}", stderr(&output));
        let path = format!("{}/../configs/untuned/{file}.csv", env!("CARGO_MANIFEST_DIR"));
        let shipped = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert!(shipped == stdout(&output), "{path} is not what `tune shapes {}` writes", args.join(" "));
    }
}
