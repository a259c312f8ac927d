//! Every library on every type it takes, in every form, against a plain f64 product.

use std::ffi::c_void;

use half::{bf16, f16};
use proptest::prelude::*;
use tgemm_db::problem::Activation;
use tgemm_db::{Build, DType, Numerics, Problem, Site, Solution, WeightForm};

use super::CpuContext;
use crate::{Ask, Effort, Launch, Library, Operands, Packed, Prepared, Stream, library};

const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0xa5;

/// Memory for one operand between two guards.
struct Guarded {
    bytes: Vec<u128>,
    len: usize,
}

impl Guarded {
    fn new(len: usize, fill: u8) -> Guarded {
        let mut guarded = Guarded { bytes: vec![0; (len + 3 * GUARD_BYTES) / 16 + 1], len };
        guarded.all().fill(GUARD);
        guarded.content().fill(fill);
        guarded
    }

    fn all(&mut self) -> &mut [u8] {
        let bytes = self.bytes.len() * 16;
        // SAFETY: any bytes of the vector, as bytes.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), bytes) }
    }

    fn start(&mut self) -> usize {
        let all = self.all();
        GUARD_BYTES + all.as_ptr().align_offset(64)
    }

    fn content(&mut self) -> &mut [u8] {
        let (start, len) = (self.start(), self.len);
        &mut self.all()[start..start + len]
    }

    fn ptr(&mut self) -> *mut c_void {
        self.content().as_mut_ptr().cast()
    }

    fn guards_hold(&mut self) -> bool {
        let (start, len) = (self.start(), self.len);
        let all = self.all();
        all[..start].iter().chain(&all[start + len..]).all(|byte| *byte == GUARD)
    }
}

fn encode(dtype: DType, values: &[f64]) -> Guarded {
    let size = dtype.bytes(1) as usize;
    let mut memory = Guarded::new(values.len() * size, 0);
    for (bytes, value) in memory.content().chunks_exact_mut(size).zip(values) {
        match dtype {
            DType::F16 => bytes.copy_from_slice(&f16::from_f64(*value).to_ne_bytes()),
            DType::Bf16 => bytes.copy_from_slice(&bf16::from_f64(*value).to_ne_bytes()),
            _ => bytes.copy_from_slice(&(*value as f32).to_ne_bytes()),
        }
    }
    memory
}

fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let size = dtype.bytes(1) as usize;
    let value = |bytes: &[u8]| match dtype {
        DType::F16 => f16::from_ne_bytes([bytes[0], bytes[1]]).to_f64(),
        DType::Bf16 => bf16::from_ne_bytes([bytes[0], bytes[1]]).to_f64(),
        _ => f64::from(f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
    };
    bytes.chunks_exact(size).map(value).collect()
}

/// Numbers in (-1, 1) without symmetry, from a small generator.
fn numbers(seed: u64, len: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Operands of a problem with the product they should give, and what each element may be off by.
struct Case {
    problem: Problem,
    x: Guarded,
    w: Guarded,
    bias: Option<Guarded>,
    want: Vec<f64>,
    /// Sum of the magnitudes of the products: what rounding errors are relative to.
    scale: Vec<f64>,
}

impl Case {
    fn new(m: u32, site: Site) -> Case {
        let (rows, n, k) = (m as usize, site.n as usize, site.k as usize);
        let mut x = encode(site.x, &numbers(1, rows * k));
        let mut w = encode(site.w, &numbers(2, n * k));
        let mut bias = site.bias.map(|dtype| encode(dtype, &numbers(3, n)));
        let (xs, ws) = (decode(site.x, x.content()), decode(site.w, w.content()));
        let added = bias.as_mut().map(|bias| decode(site.bias.unwrap(), bias.content()));
        let (mut want, mut scale) = (Vec::new(), Vec::new());
        for row in xs.chunks_exact(k) {
            for (column, weights) in ws.chunks_exact(k).enumerate() {
                let bias = added.as_ref().map_or(0.0, |bias| bias[column]);
                let products = row.iter().zip(weights).map(|(x, w)| x * w);
                want.push(products.clone().sum::<f64>() + bias);
                scale.push(products.map(f64::abs).sum::<f64>() + bias.abs());
            }
        }
        Case { problem: site.at(m).into(), x, w, bias, want, scale }
    }

    /// Launches `prepared` once; the output as f64. Panics where a guard was broken.
    fn run(&mut self, prepared: &dyn Prepared, packed: Option<&Packed>) -> Vec<f64> {
        let site = self.problem.gemm().unwrap().site;
        // All ones is a NaN in each of the three types.
        let mut out = Guarded::new(self.want.len() * site.out.bytes(1) as usize, 0xff);
        let mut workspace = Guarded::new(prepared.workspace_bytes(), 0xff);
        let io = Operands {
            x: self.x.ptr(),
            w: packed.map_or(self.w.ptr().cast_const(), |packed| packed.as_ptr()),
            bias: self.bias.as_mut().map_or(std::ptr::null(), |bias| bias.ptr().cast_const()),
            out: out.ptr(),
            workspace: workspace.ptr(),
            workspace_bytes: prepared.workspace_bytes(),
            ..Operands::default()
        };
        // SAFETY: all operands hold what the problem says.
        unsafe { prepared.launch(&io, Stream::DEFAULT) }.unwrap();
        let operands = [&mut self.x, &mut self.w, &mut out, &mut workspace];
        for (i, memory) in operands.into_iter().chain(self.bias.as_mut()).enumerate() {
            assert!(memory.guards_hold(), "operand {i} of {}", prepared.ran().key());
        }
        decode(site.out, out.content())
    }

    fn pack(&mut self, prepared: &dyn Prepared) -> Option<Packed> {
        // SAFETY: the weights are those of the problem.
        let packed = unsafe { prepared.pack(self.w.ptr()) }.unwrap();
        assert_eq!(packed.is_some(), prepared.pack_key().is_some());
        assert_eq!(packed.is_some(), prepared.ran().weight_form == WeightForm::Prepacked);
        packed
    }

    /// Worst error in units of what the types allow; at most 1 is right.
    fn error(&self, got: &[f64], solution: &Solution) -> f64 {
        let site = self.problem.gemm().unwrap().site;
        let unit = site.out.unit_roundoff();
        // f32 sums: K roundings of at most the sum of magnitudes. Partial sums in the output's type: a few more of those.
        let partial = if solution.numerics == Numerics::Partial16 { 8.0 * unit } else { 0.0 };
        let sums = f64::from(site.k + 2) * DType::F32.unit_roundoff() + partial;
        // An f16 bias is added to an f16 product by a library that has no other: two roundings.
        let errors = got.iter().zip(self.want.iter().zip(&self.scale)).map(|(got, (want, scale))| {
            (got - want).abs()
                / (2.0 * unit * want.abs() + (sums + unit * unit) * scale + 2.0 * unit * 1.0f64.min(*scale))
        });
        errors.fold(0.0, |worst, error| if error.is_nan() { f64::INFINITY } else { error.max(worst) })
    }
}

fn sites() -> Vec<Site> {
    let mut sites = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let site = Site::linear(33, 65, dtype);
        sites.extend([site, site.with_bias(dtype), site.with_bias(DType::F32), site.with_out(DType::F32)]);
        sites.push(site.with_out(DType::F32).with_bias(dtype));
        // One column, one deep, longer than a block of K, more columns than a panel.
        sites.extend([(1, 65), (33, 1), (17, 2), (31, 1100), (300, 7)].map(|(n, k)| Site::linear(n, k, dtype)));
    }
    sites.extend([
        Site::linear(33, 65, DType::F32).with_out(DType::Bf16),
        Site::linear(9, 9, DType::F32).with_bias(DType::F16),
    ]);
    sites
}

fn ours(context: &CpuContext) -> impl Iterator<Item = &dyn Library> {
    ["gemm", "rten", "matrixmultiply", "tgemm"].into_iter().map(|name| library(context, name).unwrap())
}

#[test]
fn every_solution_of_every_library_is_right() {
    let context = CpuContext::open();
    let mut ran = std::collections::BTreeMap::<String, usize>::new();
    for site in sites() {
        for m in [1, 2, 3, 8, 17] {
            let mut case = Case::new(m, site);
            for library in ours(&context) {
                for solution in library.candidates(&case.problem, Effort::Full, &Ask::default()).unwrap() {
                    let prepared = library.prepare(&case.problem, &solution).unwrap();
                    assert_eq!(prepared.ran(), &solution);
                    assert_eq!(prepared.workspace_bytes() as u64, solution.workspace_bytes);
                    let packed = case.pack(&*prepared);
                    let got = case.run(&*prepared, packed.as_ref());
                    let error = case.error(&got, &solution);
                    assert!(error <= 1.0, "{error} for {solution} on M={m} {site:?}");
                    assert_eq!(case.run(&*prepared, packed.as_ref()), got, "{solution} is not deterministic");
                    let what = format!("{} {} {}", solution.library(), site.x, solution.weight_form);
                    *ran.entry(what).or_default() += 1;
                }
            }
        }
    }
    let kinds: Vec<&str> = ran.keys().map(String::as_str).collect();
    let expected = [
        "gemm bf16 prepacked",
        "gemm f16 plain",
        "gemm f16 prepacked",
        "gemm f32 plain",
        "matrixmultiply bf16 prepacked",
        "matrixmultiply f16 prepacked",
        "matrixmultiply f32 plain",
        "rten bf16 prepacked",
        "rten f16 prepacked",
        "rten f32 plain",
        "rten f32 prepacked",
        "tgemm bf16 plain",
        "tgemm f16 plain",
        "tgemm f32 plain",
    ];
    assert_eq!(kinds, expected);
}

/// The judge can say no: a product with one element off by more than rounding is found.
#[test]
fn a_wrong_element_is_seen() {
    let case = Case::new(3, Site::linear(33, 65, DType::Bf16));
    let context = CpuContext::open();
    let solution = library(&context, "gemm")
        .unwrap()
        .candidates(&case.problem, Effort::Minimal, &Ask::default())
        .unwrap()
        .remove(0);
    assert!(case.error(&case.want, &solution) <= 0.0);
    for (at, by) in [(0, 0.5), (98, -0.5), (50, f64::NAN)] {
        let mut got = case.want.clone();
        got[at] += by;
        assert!(case.error(&got, &solution) > 1.0, "{at} {by}");
    }
}

#[test]
fn packs_are_shared_across_m_and_threads_and_outlive_copies() {
    let context = CpuContext::open();
    for dtype in [DType::F32, DType::Bf16] {
        let site = Site::linear(33, 65, dtype).with_bias(dtype);
        let (mut one, mut many) = (Case::new(1, site), Case::new(8, site));
        for library in ours(&context) {
            for solution in library.candidates(&one.problem, Effort::Full, &Ask::default()).unwrap() {
                let first = library.prepare(&one.problem, &solution).unwrap();
                let Some(packed) = one.pack(&*first) else { continue };
                let copy = packed.duplicate().unwrap();
                assert!(copy.bytes() == packed.bytes() && copy.as_ptr() != packed.as_ptr());
                drop(packed);
                for other in library.candidates(&many.problem, Effort::Full, &Ask::default()).unwrap() {
                    let second = library.prepare(&many.problem, &other).unwrap();
                    assert_eq!(
                        first.pack_key() == second.pack_key(),
                        solution.index == other.index,
                        "{solution} {other}"
                    );
                    if first.pack_key() == second.pack_key() {
                        let got = many.run(&*second, Some(&copy));
                        assert!(many.error(&got, &other) <= 1.0, "{other} on a pack of {solution}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_taken_is_refused() {
    let context = CpuContext::open();
    let site = Site::linear(8, 8, DType::F32);
    let no = [
        Site::linear(8, 8, DType::I8),
        site.with_out(DType::F64),
        Site { activation: Activation::Relu, ..site },
        Site { w: DType::Bf16, ..site },
    ];
    for library in ours(&context) {
        let solution = library
            .candidates(&Site::linear(8, 8, DType::F32).at(1).into(), Effort::Full, &Ask::default())
            .unwrap()
            .remove(0);
        for site in no {
            let problem = site.at(2).into();
            assert_eq!(library.candidates(&problem, Effort::Full, &Ask::default()), Ok(Vec::new()));
            assert!(library.baselines(&problem, &Ask::default()).is_empty());
            assert!(library.prepare(&problem, &solution).is_err());
        }
        let problem = site.at(2).into();
        let mut others = vec![solution.clone(); 6];
        std::sync::Arc::make_mut(&mut others[0].build).version.push('x');
        others[1].index = 99;
        others[2].name = format!("{}x", others[2].name).into();
        others[3].params = others[3].params.clone().with("threads", 4096);
        others[4].params = others[4].params.clone().with("weights", "f32");
        others[5].params = tgemm_db::Params::new();
        for other in others {
            assert!(library.prepare(&problem, &other).is_err(), "{}", other.key());
        }
        assert!(library.prepare(&problem, &solution).is_ok());
    }
}

#[test]
fn a_launch_that_cannot_be_right_starts_nothing() {
    let context = CpuContext::open();
    for dtype in [DType::F32, DType::Bf16] {
        let problem = Site::linear(8, 8, dtype).at(2).into();
        for library in ours(&context) {
            for solution in library.candidates(&problem, Effort::Minimal, &Ask::default()).unwrap() {
                let prepared = library.prepare(&problem, &solution).unwrap();
                // SAFETY: null operands are what is to be refused.
                let launched = unsafe { prepared.launch(&Operands::default(), Stream::DEFAULT) };
                assert!(matches!(launched, Err(Launch::NotEnqueued(_))), "{solution}: {launched:?}");
            }
        }
    }
}

#[test]
fn baselines_are_what_rust_engines_call() {
    let context = CpuContext::open();
    let via = |dtype| -> Vec<String> {
        let problem = Site::linear(64, 64, dtype).at(4).into();
        let baselines = ours(&context).flat_map(|library| library.baselines(&problem, &Ask::default()));
        baselines
            .inspect(|b| assert_eq!(b.solution.params.parse("threads"), Some(super::device::cores())))
            .map(|b| b.via)
            .collect()
    };
    assert_eq!(via(DType::F32), ["gemm"]);
    assert_eq!(via(DType::F16), ["gemm"]);
    assert_eq!(via(DType::Bf16), ["gemm f32 weights"]);
}

#[test]
fn versions_are_those_of_the_lock_file() {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")).unwrap();
    let versions = [
        ("gemm", super::gemm::VERSION),
        ("rten-gemm", super::rten::VERSION),
        ("matrixmultiply", super::matrixmultiply::VERSION),
    ];
    for (name, version) in versions {
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{name} is not {version}");
    }
    let context = CpuContext::open();
    assert_eq!(
        library(&context, "rten").unwrap().build(),
        &Build { library: "rten".into(), version: super::rten::VERSION.into(), revision: String::new() }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any sizes, any types.
    #[test]
    fn any_small_layer_is_right(m in 1u32..20, n in 1u32..70, k in 1u32..600, x in 0usize..3, out in 0usize..3, bias in 0usize..4) {
        let types = [DType::F32, DType::F16, DType::Bf16];
        let site = Site { bias: types.get(bias).copied(), ..Site::linear(n, k, types[x]).with_out(types[out]) };
        let mut case = Case::new(m, site);
        let context = CpuContext::open();
        for library in ours(&context) {
            for solution in library.candidates(&case.problem, Effort::Minimal, &Ask::default()).unwrap() {
                let prepared = library.prepare(&case.problem, &solution).unwrap();
                let packed = case.pack(&*prepared);
                let got = case.run(&*prepared, packed.as_ref());
                let error = case.error(&got, &solution);
                prop_assert!(error <= 1.0, "{} for {}", error, solution);
            }
        }
    }
}
