//! The canonical text form of problems and sites: `gemm,m=4,n=1024,k=3072,x=bf16,w=bf16,out=bf16,compute=f32`.
//!
//! Sizes and types are always written, everything else only where it differs from a plain linear layer, always in one
//! order: two problems are equal if and only if their texts are. The parser takes fields in any order, refuses unknown
//! and repeated ones, and validates sizes. Fields, in canonical order:
//!
//! | field | value | when absent |
//! |---|---|---|
//! | `m` | tokens | (a site has none) |
//! | `n`, `k` | features | required |
//! | `x`, `w`, `out` | element type | required |
//! | `compute` | f32, tf32, f16, f64, i32 | required |
//! | `bias` | element type | no bias |
//! | `scale`, `scale_dtype` | scale mode, element type | none, f32 |
//! | `act` | activation | none |
//! | `alpha`, `beta` | 0, 1, other | 1, 0 |
//! | `in_place` | 0 or 1 | 1 |
//! | `fast` | 1: reduced accumulation allowed | 0 |
//! | `preshuffled` | 1: `w` is shuffled already | 0 |
//! | `trans` | x, w, xw | linear |
//! | `ldx`, `ldw`, `ldo` | elements | packed |
//! | `batch` | count:stride_x:stride_w:stride_out | 1:0:0:0 |
//! | `align` | 16, 8, 4, 1 bytes | 16 |

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::dtype::{Compute, DType, UnknownName};
use crate::problem::{Batch, Gemm, Invalid, Problem, Site};

/// The longest key that is read; a canonical key is far shorter.
pub const KEY_BYTES_MAX: usize = 1024;

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Over [`KEY_BYTES_MAX`].
    #[error("key of {0} bytes; at most {KEY_BYTES_MAX} are read")]
    TooLong(usize),
    /// The first word names no operation.
    #[error("key starts with '{0}'; known operations: gemm, moe")]
    Operation(String),
    /// A part is not `name=value`.
    #[error("'{0}' in a key is not name=value")]
    NotAField(String),
    /// A field nobody knows.
    #[error("unknown field '{0}' in a key")]
    UnknownField(String),
    /// A field stands twice.
    #[error("field '{0}' stands twice in a key")]
    Repeated(String),
    /// A required field is absent.
    #[error("key lacks field '{0}'")]
    Missing(&'static str),
    /// A field's value cannot be read.
    #[error("field '{field}' in a key: '{value}' is not {expected}")]
    Value {
        /// The field.
        field: String,
        /// What stood there.
        value: String,
        /// What would have been taken.
        expected: String,
    },
    /// The sizes cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, None, self)
    }
}

impl fmt::Display for Gemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, Some(self.m), &self.site)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Gemm(gemm) => gemm.fmt(f),
            Problem::Moe(moe) => moe.fmt(f),
        }
    }
}

fn write_key(f: &mut fmt::Formatter<'_>, m: Option<u32>, s: &Site) -> fmt::Result {
    let plain = Site::linear(s.n, s.k, s.x);
    f.write_str("gemm")?;
    if let Some(m) = m {
        write!(f, ",m={m}")?;
    }
    write!(f, ",n={},k={},x={},w={},out={},compute={}", s.n, s.k, s.x, s.w, s.out, s.compute)?;
    if let Some(bias) = s.bias {
        write!(f, ",bias={bias}")?;
    }
    let mut differing = |name: &str, differs: bool, value: &dyn fmt::Display| match differs {
        true => write!(f, ",{name}={value}"),
        false => Ok(()),
    };
    differing("scale", s.scale != plain.scale, &s.scale)?;
    differing("scale_dtype", s.scale_dtype != plain.scale_dtype, &s.scale_dtype)?;
    differing("act", s.activation != plain.activation, &s.activation)?;
    differing("alpha", s.alpha != plain.alpha, &s.alpha)?;
    differing("beta", s.beta != plain.beta, &s.beta)?;
    differing("in_place", s.in_place != plain.in_place, &u8::from(s.in_place))?;
    differing("fast", s.fast_accumulation, &1)?;
    differing("preshuffled", s.preshuffled, &1)?;
    differing("trans", s.trans != plain.trans, &s.trans)?;
    differing("ldx", s.ld.x != 0, &s.ld.x)?;
    differing("ldw", s.ld.w != 0, &s.ld.w)?;
    differing("ldo", s.ld.out != 0, &s.ld.out)?;
    let b = s.batch;
    let batch = format!("{}:{}:{}:{}", b.count, b.stride_x, b.stride_w, b.stride_out);
    differing("batch", b != plain.batch, &batch)?;
    differing("align", s.align != plain.align, &s.align)
}

/// How many fields a key can have.
const FIELDS_MAX: usize = 24;

/// The fields as read, before required ones are checked.
#[derive(Default)]
struct Fields<'a> {
    /// Names so far; an array, since keys are read by the million.
    seen: [&'a str; FIELDS_MAX],
    count: usize,
    m: Option<u32>,
    n: Option<u32>,
    k: Option<u32>,
    x: Option<DType>,
    w: Option<DType>,
    out: Option<DType>,
    compute: Option<Compute>,
}

pub(crate) fn value<T: FromStr<Err: fmt::Display>>(field: &str, text: &str, expected: &str) -> Result<T, KeyError> {
    text.parse().map_err(|_| KeyError::Value { field: field.into(), value: text.into(), expected: expected.into() })
}

pub(crate) fn word<T: FromStr<Err = UnknownName>>(field: &str, text: &str) -> Result<T, KeyError> {
    text.parse().map_err(|e: UnknownName| KeyError::Value {
        field: field.into(),
        value: text.into(),
        expected: format!("one of {}", e.known),
    })
}

pub(crate) fn flag(field: &str, text: &str) -> Result<bool, KeyError> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(KeyError::Value { field: field.into(), value: text.into(), expected: "0 or 1".into() }),
    }
}

pub(crate) const NUMBER: &str = "a whole number below 2^32";

fn batch(text: &str) -> Result<Batch, KeyError> {
    let bad = || KeyError::Value {
        field: "batch".into(),
        value: text.into(),
        expected: "count:stride_x:stride_w:stride_out".into(),
    };
    let parts: Vec<u64> = text.split(':').map(|p| p.parse().map_err(|_| bad())).collect::<Result<_, _>>()?;
    match parts[..] {
        [count, stride_x, stride_w, stride_out] => {
            Ok(Batch { count: u32::try_from(count).map_err(|_| bad())?, stride_x, stride_w, stride_out })
        }
        _ => Err(bad()),
    }
}

/// Reads the fields into a site whose sizes and types are still provisional.
fn parse<'a>(text: &'a str) -> Result<(Option<u32>, Site), KeyError> {
    if text.len() > KEY_BYTES_MAX {
        return Err(KeyError::TooLong(text.len()));
    }
    let mut parts = text.split(',');
    match parts.next() {
        Some("gemm") => {}
        other => return Err(KeyError::Operation(other.unwrap_or("").into())),
    }
    let mut fields = Fields::default();
    let mut s = Site::linear(1, 1, DType::F32);
    for part in parts {
        let (name, text): (&'a str, &'a str) = part.split_once('=').ok_or_else(|| KeyError::NotAField(part.into()))?;
        if fields.seen[..fields.count].contains(&name) {
            return Err(KeyError::Repeated(name.into()));
        }
        // More fields than there are names: one of them is unknown, and is named below.
        if fields.count < FIELDS_MAX {
            fields.seen[fields.count] = name;
            fields.count += 1;
        }
        match name {
            "m" => fields.m = Some(value(name, text, NUMBER)?),
            "n" => fields.n = Some(value(name, text, NUMBER)?),
            "k" => fields.k = Some(value(name, text, NUMBER)?),
            "x" => fields.x = Some(word(name, text)?),
            "w" => fields.w = Some(word(name, text)?),
            "out" => fields.out = Some(word(name, text)?),
            "compute" => fields.compute = Some(word(name, text)?),
            "bias" => s.bias = Some(word(name, text)?),
            "scale" => s.scale = word(name, text)?,
            "scale_dtype" => s.scale_dtype = word(name, text)?,
            "act" => s.activation = word(name, text)?,
            "alpha" => s.alpha = word(name, text)?,
            "beta" => s.beta = word(name, text)?,
            "in_place" => s.in_place = flag(name, text)?,
            "fast" => s.fast_accumulation = flag(name, text)?,
            "preshuffled" => s.preshuffled = flag(name, text)?,
            "trans" => s.trans = word(name, text)?,
            "ldx" => s.ld.x = value(name, text, NUMBER)?,
            "ldw" => s.ld.w = value(name, text, NUMBER)?,
            "ldo" => s.ld.out = value(name, text, NUMBER)?,
            "batch" => s.batch = batch(text)?,
            "align" => s.align = word(name, text)?,
            _ => return Err(KeyError::UnknownField(name.into())),
        }
    }
    s.n = fields.n.ok_or(KeyError::Missing("n"))?;
    s.k = fields.k.ok_or(KeyError::Missing("k"))?;
    s.x = fields.x.ok_or(KeyError::Missing("x"))?;
    s.w = fields.w.ok_or(KeyError::Missing("w"))?;
    s.out = fields.out.ok_or(KeyError::Missing("out"))?;
    s.compute = fields.compute.ok_or(KeyError::Missing("compute"))?;
    Ok((fields.m, s))
}

impl FromStr for Site {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Site, KeyError> {
        let (m, site) = parse(text)?;
        if m.is_some() {
            return Err(KeyError::UnknownField("m".into()));
        }
        site.at(1).validate()?;
        Ok(site)
    }
}

impl FromStr for Gemm {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Gemm, KeyError> {
        let (m, site) = parse(text)?;
        let gemm = site.at(m.ok_or(KeyError::Missing("m"))?);
        gemm.validate()?;
        Ok(gemm)
    }
}

impl FromStr for Problem {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Problem, KeyError> {
        match text.starts_with("moe,") {
            true => text.parse().map(Problem::Moe),
            false => text.parse().map(Problem::Gemm),
        }
    }
}

/// A short form for people: `4x1024x3072 bf16`, with what is unusual behind it.
pub fn short(problem: &Problem) -> String {
    let Gemm { m, site } = match problem {
        Problem::Gemm(gemm) => gemm,
        Problem::Moe(moe) => return short_moe(moe),
    };
    let mut text = format!("{m}x{}x{} {}", site.n, site.k, site.x);
    if site.w != site.x {
        let _ = write!(text, "·{}", site.w);
    }
    if site.out != site.x {
        let _ = write!(text, "→{}", site.out);
    }
    if site.bias.is_some() {
        text.push_str(" +bias");
    }
    if !site.is_plain_linear() {
        text.push_str(" *");
    }
    text
}

/// `moe 16x4096x14336 8e2 f8e4m3fn`: tokens x model x inner features, experts and how many a token takes, weights.
fn short_moe(moe: &crate::moe::Moe) -> String {
    let s = &moe.site;
    let weights = s.q_w.or(s.x).map_or("?", DType::name);
    format!("moe {}x{}x{} {}e{} {weights}", moe.m, s.model_dim, s.inter_dim, s.experts, s.topk)
}

#[cfg(feature = "serde")]
mod serde_text {
    use super::*;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    impl Serialize for Problem {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.collect_str(self)
        }
    }
    impl<'de> Deserialize<'de> for Problem {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Problem, D::Error> {
            String::deserialize(d)?.parse().map_err(D::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Activation, Alignment, Leading, Scalar, ScaleMode, Trans};
    use proptest::prelude::*;
    use proptest::sample::select;

    fn any_gemm() -> impl Strategy<Value = Gemm> {
        let dtype = || select(DType::all().collect::<Vec<_>>());
        let sizes = (1u32..70000, 1u32..70000, 1u32..70000);
        let types = (dtype(), dtype(), dtype(), select(Compute::ALL), proptest::option::of(dtype()), dtype());
        let words = (
            select(ScaleMode::ALL),
            select(Activation::ALL),
            select(Scalar::ALL),
            select(Scalar::ALL),
            select(Trans::ALL),
        );
        let rest = (
            any::<[bool; 3]>(),
            select(Alignment::ALL),
            (0u32..9, 0u32..9, 0u32..9),
            (1u32..9, 0u64..99, 0u64..99, 0u64..99),
        );
        (sizes, types, words, rest).prop_map(|((m, n, k), t, w, (flags, align, pad, batch))| {
            let trans: Trans = w.4;
            let padded = |row: u32, pad: u32| if pad == 0 { 0 } else { row + pad - 1 };
            let ld = Leading {
                x: padded(if trans.x() { m } else { k }, pad.0),
                w: padded(if trans.w() { n } else { k }, pad.1),
                out: padded(n, pad.2),
            };
            let batch = Batch { count: batch.0, stride_x: batch.1, stride_w: batch.2, stride_out: batch.3 };
            let site = Site {
                n,
                k,
                x: t.0,
                w: t.1,
                out: t.2,
                compute: t.3,
                bias: t.4,
                scale_dtype: t.5,
                scale: w.0,
                activation: w.1,
                alpha: w.2,
                beta: w.3,
                trans,
                in_place: flags[0],
                fast_accumulation: flags[1],
                preshuffled: flags[2],
                ld,
                batch,
                align,
            };
            site.at(m)
        })
    }

    proptest! {
        #[test]
        fn every_key_round_trips(gemm in any_gemm()) {
            let text = gemm.to_string();
            prop_assert_eq!(text.parse::<Gemm>(), Ok(gemm));
            prop_assert_eq!(gemm.site.to_string().parse::<Site>(), Ok(gemm.site));
            prop_assert!(text.len() < KEY_BYTES_MAX / 2);
        }

        #[test]
        fn field_order_does_not_matter(gemm in any_gemm(), seed in any::<u64>()) {
            let text = gemm.to_string();
            let mut parts: Vec<&str> = text.split(',').skip(1).collect();
            let turn = (seed as usize) % parts.len();
            parts.rotate_left(turn);
            let turned = format!("gemm,{}", parts.join(","));
            prop_assert_eq!(turned.parse::<Gemm>(), Ok(gemm));
        }

        #[test]
        fn any_text_is_an_error_or_a_key(text in "\\PC{0,80}") {
            if let Ok(gemm) = text.parse::<Gemm>() {
                prop_assert_eq!(gemm.to_string().parse::<Gemm>(), Ok(gemm));
            }
        }
    }

    #[test]
    fn errors_name_the_field() {
        let bad = |text: &str| text.parse::<Gemm>().unwrap_err().to_string();
        let good = "gemm,m=1,n=2,k=3,x=f32,w=f32,out=f32,compute=f32";
        assert_eq!(good.parse::<Gemm>().unwrap().to_string(), good);
        assert_eq!(bad("gemm,n=2"), "key lacks field 'k'");
        assert_eq!(bad(&format!("{good},n=4")), "field 'n' stands twice in a key");
        assert_eq!(bad(&good.replace("m=1", "m=x")), "field 'm' in a key: 'x' is not a whole number below 2^32");
        assert_eq!(bad(&good.replace("m=1", "m=0")), "M is 0; it must be between 1 and 2147483647");
        assert_eq!(bad("conv,m=1"), "key starts with 'conv'; known operations: gemm, moe");
    }
}
