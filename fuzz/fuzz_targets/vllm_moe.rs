//! vLLM's fused MoE configurations: the key stands in the file's name, so the first line of the input is the name.

#![no_main]

use libfuzzer_sys::fuzz_target;

const NAMES: &[&str] = &[
    "E=8,N=14336,device_name=AMD_Instinct_MI300X.json",
    "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
    "E=384,N=256,device_name=AMD_Instinct_MI350X,dtype=int4_w4a16,backend=flydsl.json",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    match NAMES.get(usize::from(first) % (NAMES.len() + 1)) {
        Some(name) => tgemm_fuzz::check(name, bytes.strip_prefix(b"{").map_or(rest, |_| bytes)),
        None => {
            let at = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            let (name, text) = rest.split_at(at);
            if let Ok(name) = std::str::from_utf8(name) {
                tgemm_fuzz::check(name, text);
            }
        }
    }
});
