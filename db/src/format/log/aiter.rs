//! AITER's lookups in a server's log, through vLLM or SGLang: the shape of each call that it looked up, hit or miss.
//!
//! ```text
//! [aiter] shape is M:7, N:96, K:640, not found tuned config in /…/a8w8_blockscale_tuned_gemm.csv, …
//! [aiter] shape is M:64, N:160, K:512, q_dtype_w:torch.int8, not found tuned config in /…/a8w8_tuned_gemm.csv, …
//! [aiter] shape is M:15, N:96, K:96 dtype='torch.bfloat16' otype='torch.float32' bias=True, scaleAB=False, …
//! [aiter] shape is M:9, N:5, K:7, found padded_M: 16, N:5, K:7 is tuned on cu_num = 304 in CKGEMM , kernel …
//! ```
//! AITER says a shape once a process, so counts are processes rather than calls. What the family's table means by its
//! columns is as in [`crate::format::aiter`]: outputs are bf16, fp8 is the arch's own.

use super::{Level, Seen, Source};
use crate::dtype::DType;
use crate::format::ReadOptions;
use crate::format::aiter::Family;
use crate::format::column::flag;
use crate::format::hipblaslt::words::{Float8, is_elided};
use crate::format::limits::excerpt;
use crate::format::sheet::Reason;
use crate::problem::{Gemm, Problem, ScaleMode, Site};
use crate::recording::Via;

/// Parts of table and kernel names and the family they tell, the longer before what they contain.
const MARKS: &[(&str, Family)] = &[
    ("a8w8_blockscale_bpreshuffle", Family::A8w8BlockscaleBpreshuffle),
    ("a8w8_blockscale", Family::A8w8Blockscale),
    ("a8w8_bpreshuffle", Family::A8w8Bpreshuffle),
    ("a4w4_blockscale", Family::A4w4Blockscale),
    ("batched", Family::BatchedA8w8),
    ("a8w8", Family::A8w8),
    ("bf16", Family::Bf16),
];

/// The call of `line`; `None` if it is not AITER's.
pub(super) fn call(line: &str, options: &ReadOptions) -> Option<Result<Seen, Reason>> {
    let line = without_escapes(line);
    let shape = |what: &str| ["shape is ", "shape "].iter().find_map(|word| line.split_once(&format!("{word}{what}:")));
    if shape("B").is_some() {
        return Some(Err("a batch: how its matrices lie is not said".into()));
    }
    let (_, said) = shape("M")?;
    Some(read(said, options).map_err(|why| if is_elided(said) { format!("elided: {why}") } else { why }))
}

/// The text without the escape codes of a terminal's colours.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, code)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = code.trim_start_matches('[').trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        rest = rest.strip_prefix(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest);
    }
    plain + rest
}

/// The first word after `name`, without quotes and commas.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(name)?;
    let word = rest.trim_start().split(|c: char| c == ',' || c.is_whitespace()).next()?;
    Some(word.trim_matches('\''))
}

fn number(text: &str, name: &str) -> Result<u32, Reason> {
    let word = value(text, name).ok_or_else(|| format!("{name} is not said"))?;
    word.parse().map_err(|_| format!("{name} '{}' is not a whole number", excerpt(word)))
}

fn torch_dtype(text: &str, name: &str) -> Result<DType, Reason> {
    let word = value(text, name).ok_or_else(|| format!("{name} is not said"))?;
    DType::from_torch(word).ok_or_else(|| format!("{name} '{}' is no torch element type", excerpt(word)))
}

/// The part of the line that says what was looked up, and the part that says what came of it.
fn halves(said: &str) -> (&str, &str) {
    let at = [" not found", " found"].iter().filter_map(|word| said.find(word)).min().unwrap_or(said.len());
    said.split_at(at)
}

/// `said` is what follows `M:`.
fn read(said: &str, options: &ReadOptions) -> Result<Seen, Reason> {
    let (shape, outcome) = halves(said);
    let m = number(&format!("M:{shape}"), "M:")?;
    let (n, k) = (number(shape, "N:")?, number(shape, "K:")?);
    let (family, site, is_float8_assumed) = match value(shape, " dtype=") {
        Some(_) => (Family::Bf16, bf16_site(shape, n, k)?, false),
        None => quantised_site(shape, outcome, [n, k], options)?,
    };
    let gemm: Gemm = site.at(m);
    gemm.validate().map_err(|invalid| invalid.to_string())?;
    let seen = Seen::once(Problem::Gemm(gemm), Via::Linear, Source::Aiter(family), Level::Trace);
    Ok(Seen { is_float8_assumed, ..seen })
}

/// The bf16 family says everything in its line.
fn bf16_site(shape: &str, n: u32, k: u32) -> Result<Site, Reason> {
    let (dtype, out) = (torch_dtype(shape, " dtype=")?, torch_dtype(shape, "otype=")?);
    let switch = |name: &str| {
        let word = value(shape, name).ok_or_else(|| format!("{name} is not said"))?;
        flag(word).ok_or_else(|| format!("{name} '{}' is neither True nor False", excerpt(word)))
    };
    let bias_dtype = if dtype.bits() <= 8 { out } else { dtype };
    Ok(Site {
        bias: switch("bias=")?.then_some(bias_dtype),
        scale: if switch("scaleAB=")? { ScaleMode::Tensor } else { ScaleMode::None },
        preshuffled: switch("bpreshuffle=")?,
        ..Site::linear(n, k, dtype).with_out(out)
    })
}

/// Other families are told by their table's name, or by the kernel's.
fn quantised_site(
    shape: &str,
    outcome: &str,
    [n, k]: [u32; 2],
    options: &ReadOptions,
) -> Result<(Family, Site, bool), Reason> {
    let table = value(outcome, "tuned config in ").or_else(|| value(outcome, " in "));
    let name = table.map(|path| path.rsplit('/').next().unwrap_or(path));
    let kernel = value(outcome, "kernel name is ");
    let family = [name, kernel]
        .into_iter()
        .flatten()
        .find_map(|text| MARKS.iter().find(|(mark, _)| text.contains(mark)).map(|(_, family)| *family));
    let arch = match (value(outcome, "cu_num = "), &options.device) {
        // As in AITER's own loader.
        (Some("80" | "304"), _) => "gfx942",
        (Some("256"), _) => "gfx950",
        (_, Some(device)) => &device.arch,
        _ => "",
    };
    let fp8 = match Float8::of_arch(arch) {
        Float8::Fnuz => DType::F8E4m3Fnuz,
        Float8::Ocp => DType::F8E4m3Fn,
    };
    let site = |dtype: DType, scale: ScaleMode, preshuffled: bool| Site {
        scale,
        preshuffled,
        ..Site::linear(n, k, dtype).with_out(DType::Bf16)
    };
    match family {
        Some(family @ (Family::A8w8Blockscale | Family::A8w8BlockscaleBpreshuffle)) => {
            let is_shuffled = family == Family::A8w8BlockscaleBpreshuffle;
            Ok((family, site(fp8, ScaleMode::Block128, is_shuffled), arch.is_empty()))
        }
        Some(family @ (Family::A8w8 | Family::A8w8Bpreshuffle)) => {
            let weight = torch_dtype(shape, "q_dtype_w:")?;
            if weight.bits() != 8 {
                return Err(format!("the type of x beside weights of {weight} is not said"));
            }
            Ok((family, site(weight, ScaleMode::TokenChannel, family == Family::A8w8Bpreshuffle), false))
        }
        Some(Family::A4w4Blockscale) => {
            let mx = site(DType::F4E2m1x2, ScaleMode::Mx, true);
            Ok((Family::A4w4Blockscale, Site { scale_dtype: DType::Ue8m0, ..mx }, false))
        }
        Some(Family::Bf16) => Err("element types and bias are not said".into()),
        Some(_) => Err("the batch is not said".into()),
        None => Err("the table is not named: the family, and with it the element types, are not known".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::AssumedDevice;

    fn seen(line: &str) -> Result<Seen, Reason> {
        call(line, &ReadOptions::default()).unwrap()
    }

    fn site(line: &str) -> (u32, Site) {
        let gemm = *seen(line).unwrap().problem.gemm().unwrap();
        (gemm.m, gemm.site)
    }

    const TAIL: &str = "_tuned_gemm.csv, will use default config!";

    #[test]
    fn families_by_their_tables() {
        let line = format!(
            "(Worker_TP1 pid=9) [aiter] shape is M:72, N:512, K:640, not found tuned config in /c/a8w8_blockscale{TAIL}"
        );
        let block =
            Site { scale: ScaleMode::Block128, ..Site::linear(512, 640, DType::F8E4m3Fn).with_out(DType::Bf16) };
        assert_eq!(site(&line), (72, block));
        assert!(seen(&line).unwrap().is_float8_assumed);
        let device = Some(AssumedDevice { arch: "gfx942".into(), compute_units: 304 });
        let fnuz = call(&line, &ReadOptions { device, ..ReadOptions::default() }).unwrap().unwrap();
        assert_eq!(fnuz.problem.gemm().unwrap().site.x, DType::F8E4m3Fnuz);
        let int8 =
            format!("[aiter] shape is M:1, N:64, K:32, q_dtype_w:torch.int8, not found tuned config in .../a8w8{TAIL}");
        assert_eq!(site(&int8).1.scale, ScaleMode::TokenChannel);
        let hit = "[aiter] shape is M:9, N:5, K:7, found padded_M: 16, N:5, K:7 is tuned on cu_num = 304 in CKGEMM , kernel name is a8w8_blockscale_1x128x128_x!";
        assert_eq!(site(hit).1.w, DType::F8E4m3Fnuz);
        assert_eq!(site(hit).0, 9, "the shape that was asked for, not the padded one");
    }

    #[test]
    fn bf16_says_everything_itself_with_or_without_quotes_and_colours() {
        let quoted = "\u{1b}[32m[aiter] shape is M:15, N:96, K:48 dtype='torch.bfloat16' otype='torch.float32' bias=True, scaleAB=False, bpreshuffle=True, found padded_M: 16\u{1b}[0m";
        let want =
            Site { preshuffled: true, ..Site::linear(96, 48, DType::Bf16).with_bias(DType::Bf16).with_out(DType::F32) };
        assert_eq!(site(quoted), (15, want));
        assert_eq!(site(&quoted.replace('\'', "")), (15, want));
    }

    #[test]
    fn what_is_not_said_is_the_reason() {
        let cases = [
            (
                format!("[aiter] shape is M:1, N:6, K:4, not found tuned config in /c/bf16{TAIL}"),
                "element types and bias are not said",
            ),
            (
                format!("[aiter] shape is M:1, N:6, K:4, not found tuned config in /c/a8w8{TAIL}"),
                "q_dtype_w: is not said",
            ),
            (
                "shape M:48, N:6, K:4, found padded_M: 64, N:6, K:4 is tuned ...".into(),
                "elided: the table is not named: the family, and with it the element types, are not known",
            ),
            (
                "[aiter] shape is M:64, N:4, K:8 dtype='torch.bfloat16' ... not found tuned".into(),
                "elided: otype= is not said",
            ),
            ("shape is M:x, N:4, K:8".into(), "M: 'x' is not a whole number"),
            (
                format!("[aiter] shape is M:0, N:6, K:4, not found tuned config in /c/a4w4_blockscale{TAIL}"),
                "M is 0; it must be between 1 and 2147483647",
            ),
        ];
        for (line, why) in cases {
            assert_eq!(seen(&line).unwrap_err(), why, "{line}");
        }
        let batch =
            call("[aiter] shape is B:4, M:2, N:6, K:4, not found tuned config in CKGEMM", &ReadOptions::default());
        assert_eq!(batch, Some(Err("a batch: how its matrices lie is not said".into())));
        assert_eq!(call("the shape is good", &ReadOptions::default()), None);
    }
}
