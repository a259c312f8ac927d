//! The names of vLLM's configuration files, which are their keys (vLLM's `get_config_file_name`).

use std::fmt;
use std::str::FromStr;

use crate::dtype::DType;
use crate::format::limits::excerpt;
use crate::moe::{MoeQuant, MoeSite};
use crate::problem::EXTENT_MAX;

/// `E=8,N=14336,device_name=NVIDIA_H200[,dtype=fp8_w8a8][,block_shape=[128,128]][,backend=flydsl].json`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileName {
    /// Experts.
    pub(super) experts: u32,
    /// Inner features on one rank.
    pub(super) inter_dim: u32,
    /// The device's marketing name with `_` for blanks.
    pub(super) device_name: String,
    /// Element types in vLLM's word; none for 16-bit floats.
    pub(super) dtype: Option<String>,
    /// Scale blocks (N, K).
    pub(super) block: Option<(u32, u32)>,
    /// Whose kernel; none for Triton's.
    pub(super) backend: Option<String>,
}

const EXPECTED: &str =
    "its name is its key: E=…,N=…,device_name=…[,dtype=…][,block_shape=[…,…]][,backend=…].json is expected";

impl FromStr for FileName {
    type Err = String;
    fn from_str(name: &str) -> Result<FileName, String> {
        let bad = |why: fmt::Arguments<'_>| format!("{why}: {EXPECTED}");
        let stem = name.strip_suffix(".json").ok_or_else(|| bad(format_args!("'{}' is no .json", excerpt(name))))?;
        let [mut experts, mut inter_dim, mut device_name, mut dtype, mut block, mut backend] = [None; 6];
        for part in parts(stem) {
            let (field, value) =
                part.split_once('=').ok_or_else(|| bad(format_args!("'{}' has no value", excerpt(part))))?;
            let slot = match field {
                "E" => &mut experts,
                "N" => &mut inter_dim,
                "device_name" => &mut device_name,
                "dtype" => &mut dtype,
                "block_shape" => &mut block,
                "backend" => &mut backend,
                _ => return Err(bad(format_args!("'{}' is not part of a name", excerpt(field)))),
            };
            if value.is_empty() || slot.replace(value).is_some() {
                return Err(bad(format_args!("'{field}' is empty or stands twice")));
            }
        }
        let size = |field: &str, text: Option<&str>| {
            let value = text.and_then(|text| text.parse().ok()).filter(|value| (1..=EXTENT_MAX).contains(value));
            value.ok_or_else(|| bad(format_args!("{field} is no number from 1 to {EXTENT_MAX}")))
        };
        let block = block.map(|text| {
            let sides = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).and_then(|t| t.split_once(','));
            let (n, k) = sides.ok_or_else(|| bad(format_args!("block_shape is not [N,K]")))?;
            Ok::<_, String>((size("block_shape", Some(n))?, size("block_shape", Some(k))?))
        });
        Ok(FileName {
            experts: size("E", experts)?,
            inter_dim: size("N", inter_dim)?,
            device_name: device_name.ok_or_else(|| bad(format_args!("device_name is missing")))?.to_owned(),
            dtype: dtype.map(str::to_owned),
            block: block.transpose()?,
            backend: backend.map(str::to_owned),
        })
    }
}

/// The parts between commas, save those in brackets.
fn parts(stem: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    stem.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E={},N={},device_name={}", self.experts, self.inter_dim, self.device_name)?;
        if let Some(dtype) = &self.dtype {
            write!(f, ",dtype={dtype}")?;
        }
        if let Some((n, k)) = self.block {
            write!(f, ",block_shape=[{n},{k}]")?;
        }
        if let Some(backend) = &self.backend {
            write!(f, ",backend={backend}")?;
        }
        f.write_str(".json")
    }
}

/// The 8-bit float that `fp8` means on `arch`: vLLM takes AMD's own encoding on gfx94x and OCP's elsewhere
/// (`is_fp8_fnuz` of its ROCm platform).
fn fp8(arch: &str) -> DType {
    if arch.starts_with("gfx94") { DType::F8E4m3Fnuz } else { DType::F8E4m3Fn }
}

impl FileName {
    /// The layer that this names, on a device of `arch`.
    pub(super) fn site(&self, arch: &str) -> Result<MoeSite, String> {
        let bare = MoeSite::unsaid(self.experts, self.inter_dim);
        let both = |dtype| MoeSite { q_x: Some(dtype), q_w: Some(dtype), quant: MoeQuant::NotSaid, ..bare };
        let weights = |dtype| MoeSite { q_w: Some(dtype), quant: MoeQuant::WeightOnly, ..bare };
        let site = match self.dtype.as_deref() {
            None => bare,
            Some("float32") => MoeSite { x: Some(DType::F32), ..bare },
            Some("bf16") => MoeSite { x: Some(DType::Bf16), ..bare },
            Some("fp8_w8a8") => both(fp8(arch)),
            Some("int8_w8a8") => both(DType::I8),
            Some("int8_w8a16") => weights(DType::I8),
            Some("int4_w4a16") => weights(DType::I4),
            // vLLM's word of 2024, which today's lookup does not ask for; it does not say what activations are.
            Some("float8") => MoeSite { q_w: Some(fp8(arch)), quant: MoeQuant::NotSaid, ..bare },
            Some(other) => return Err(format!("dtype={} is not one that tgemm knows", excerpt(other))),
        };
        Ok(match self.block {
            Some(block) => MoeSite { quant: MoeQuant::Block, block, ..site },
            None => site,
        })
    }

    /// The name of `site` on the device that vLLM calls `device_name`; `None` where vLLM has no word for its types.
    pub(super) fn of(site: &MoeSite, device_name: &str, arch: &str, backend: Option<&str>) -> Option<FileName> {
        const WORDS: [Option<&str>; 8] = [
            None,
            Some("float32"),
            Some("bf16"),
            Some("fp8_w8a8"),
            Some("int8_w8a8"),
            Some("int8_w8a16"),
            Some("int4_w4a16"),
            Some("float8"),
        ];
        let named = site.as_vllm()?;
        let block = (named.quant == MoeQuant::Block).then_some(named.block);
        let candidate = |dtype: Option<&str>| FileName {
            experts: named.experts,
            inter_dim: named.inter_dim,
            device_name: device_name.to_owned(),
            dtype: dtype.map(str::to_owned),
            block,
            backend: backend.map(str::to_owned),
        };
        WORDS.into_iter().map(candidate).find(|name| name.site(arch) == Ok(named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart_and_together() {
        let names = [
            "E=8,N=14336,device_name=AMD_Instinct_MI300X.json",
            "E=16,N=1024,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
            "E=384,N=256,device_name=AMD_Instinct_MI350X,dtype=int4_w4a16,backend=flydsl.json",
            "E=8,N=7168,device_name=NVIDIA_H200,dtype=float8.json",
            "E=8,N=7168,device_name=x,block_shape=[128,64].json",
        ];
        for text in names {
            let name: FileName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            let site = name.site("gfx942").unwrap();
            assert!(site.is_vllm());
            let again = FileName::of(&site, &name.device_name, "gfx942", name.backend.as_deref());
            assert_eq!(again, Some(name), "{text}");
        }
    }

    #[test]
    fn fp8_is_what_the_device_makes_of_it() {
        let name: FileName = "E=8,N=64,device_name=x,dtype=fp8_w8a8.json".parse().unwrap();
        assert_eq!(name.site("gfx942").unwrap().q_w, Some(DType::F8E4m3Fnuz));
        assert_eq!(name.site("gfx950").unwrap().q_w, Some(DType::F8E4m3Fn));
        assert_eq!(name.site("sm_90").unwrap().q_x, Some(DType::F8E4m3Fn));
    }

    #[test]
    fn other_names_say_what_is_wrong() {
        let why = |text: &str| text.parse::<FileName>().unwrap_err();
        assert!(why("E=8,N=64,device_name=x").starts_with("'E=8,N=64,device_name=x' is no .json: its name is its key"));
        assert!(why("E=8,N=0,device_name=x.json").starts_with("N is no number from 1 to"));
        assert!(why("E=8,device_name=x.json").starts_with("N is no number"));
        assert!(why("E=8,N=64.json").starts_with("device_name is missing"));
        assert!(why("E=8,E=8,N=64,device_name=x.json").starts_with("'E' is empty or stands twice"));
        assert!(why("H=1,E=8,N=64,device_name=x.json").starts_with("'H' is not part of a name"));
        assert!(why("E=8,N=64,device_name=x,block_shape=[0,32].json").starts_with("block_shape is no number"));
        assert!(why("config.json").starts_with("'config' has no value"));
        let unknown: FileName = "E=8,N=64,device_name=x,dtype=fp3.json".parse().unwrap();
        assert_eq!(unknown.site("sm_90"), Err("dtype=fp3 is not one that tgemm knows".into()));
    }
}
