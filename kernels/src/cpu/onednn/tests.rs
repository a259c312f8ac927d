//! Tests on a real oneDNN; each says so and passes where there is none.

use half::{bf16, f16};
use tgemm_db::problem::{Activation, Site};

use super::*;
use crate::cpu::memory;
use crate::{Buffer, Launch, Operands, Packed, Stream};

/// oneDNN, or why the test is skipped.
fn onednn() -> Option<Box<dyn Library>> {
    open().map_err(|absent| println!("skipped: {absent}")).ok()
}

fn value(dtype: DType, raw: f64) -> ([u8; 4], f64) {
    let mut bytes = [0; 4];
    let rounded = match dtype {
        DType::F16 => {
            bytes[..2].copy_from_slice(&f16::from_f64(raw).to_ne_bytes());
            f16::from_f64(raw).to_f64()
        }
        DType::Bf16 => {
            bytes[..2].copy_from_slice(&bf16::from_f64(raw).to_ne_bytes());
            bf16::from_f64(raw).to_f64()
        }
        _ => {
            bytes = (raw as f32).to_ne_bytes();
            f64::from(raw as f32)
        }
    };
    (bytes, rounded)
}

fn read(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::F16 => f16::from_ne_bytes([bytes[0], bytes[1]]).to_f64(),
        DType::Bf16 => bf16::from_ne_bytes([bytes[0], bytes[1]]).to_f64(),
        _ => f64::from(f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
    }
}

/// A matrix as bytes, and the numbers that they hold after rounding.
fn matrix(dtype: DType, seed: u64, elements: usize) -> (Vec<u8>, Vec<f64>) {
    let size = dtype.bytes(1) as usize;
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    };
    let (bytes, numbers): (Vec<_>, Vec<_>) = (0..elements).map(|_| value(dtype, next())).unzip();
    (bytes.iter().flat_map(|b| b[..size].to_vec()).collect(), numbers)
}

/// Operands of a problem and the product they should give.
struct Case {
    problem: Problem,
    linear: Linear,
    x: Vec<u8>,
    w: Vec<u8>,
    bias: Vec<u8>,
    want: Vec<f64>,
    /// Largest error allowed, per element.
    bound: Vec<f64>,
}

impl Case {
    fn new(m: u32, site: Site) -> Case {
        let problem = Problem::from(site.at(m));
        let linear = Linear::of(&problem).unwrap();
        let Linear { m, n, k, .. } = linear;
        let (x, xs) = matrix(linear.x, 1, m * k);
        let (w, ws) = matrix(linear.x, 2, n * k);
        let (bias, bs) = linear.bias.map_or((Vec::new(), vec![0.0; n]), |dtype| matrix(dtype, 3, n));
        let (mut want, mut bound) = (Vec::new(), Vec::new());
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let products = (0..k).map(|l| xs[row * k + l] * ws[column * k + l]);
            let sum = products.clone().sum::<f64>() + bs[column];
            let magnitude = products.map(f64::abs).sum::<f64>() + bs[column].abs();
            want.push(sum);
            // Sums in f32, a growing error at worst; one rounding to the output's type. A sum in f16 or bf16 would be off
            // by far more.
            bound.push(magnitude * 2f64.powi(-20) + sum.abs() * linear.out.unit_roundoff() * 1.01);
        }
        Case { problem, linear, x, w, bias, want, bound }
    }

    fn run(&self, prepared: &dyn Prepared, packed: Option<&Packed>) -> Vec<f64> {
        let size = self.linear.out.bytes(1) as usize;
        // All ones are NaN in every type here.
        let mut out = vec![0xffu8; self.want.len() * size];
        let mut workspace = workspace(prepared);
        let io = Operands {
            x: self.x.as_ptr().cast(),
            w: packed.map_or(self.w.as_ptr().cast(), |packed| packed.as_ptr()),
            bias: if self.bias.is_empty() { std::ptr::null() } else { self.bias.as_ptr().cast() },
            out: out.as_mut_ptr().cast(),
            workspace: workspace.as_mut_ptr(),
            workspace_bytes: workspace.bytes(),
            ..Operands::default()
        };
        // SAFETY: the vectors hold what the problem says, the workspace what the product asks for.
        unsafe { prepared.launch(&io, Stream::DEFAULT) }.unwrap();
        out.chunks_exact(size).map(|bytes| read(self.linear.out, bytes)).collect()
    }

    fn pack(&self, prepared: &dyn Prepared) -> Option<Packed> {
        // SAFETY: `w` holds N x K elements.
        unsafe { prepared.pack(self.w.as_ptr().cast()) }.unwrap()
    }

    fn check(&self, got: &[f64], what: &str) {
        for (at, got) in got.iter().enumerate() {
            let (want, bound) = (self.want[at], self.bound[at]);
            assert!((got - want).abs() <= bound, "{} {what}: element {at} is {got}, not {want}", self.problem);
        }
    }
}

fn workspace(prepared: &dyn Prepared) -> Buffer {
    memory::alloc(prepared.workspace_bytes()).unwrap()
}

/// The types that oneDNN takes here, each with an output and a bias type.
fn sites(n: u32, k: u32) -> Vec<Site> {
    let linear = |dtype| Site::linear(n, k, dtype);
    vec![
        linear(DType::F32),
        linear(DType::F32).with_bias(DType::F32),
        linear(DType::Bf16),
        linear(DType::Bf16).with_bias(DType::Bf16),
        linear(DType::Bf16).with_bias(DType::F32).with_out(DType::F32),
        linear(DType::F16).with_bias(DType::F16),
        linear(DType::F16).with_bias(DType::F32).with_out(DType::F32),
    ]
}

#[test]
fn every_solution_gives_the_product() {
    let Some(library) = onednn() else { return };
    let mut counts = std::collections::BTreeMap::new();
    for (m, n, k) in [(1, 33, 65), (3, 129, 77), (17, 64, 256), (1, 1, 1)] {
        for site in sites(n, k) {
            let case = Case::new(m, site);
            let solutions = library.candidates(&case.problem, Effort::Full, &Ask::default()).unwrap();
            *counts.entry(site.x.name()).or_insert(0) += solutions.len();
            for solution in solutions {
                let prepared = library.prepare(&case.problem, &solution).unwrap();
                assert_eq!(prepared.ran(), &solution);
                let packed = case.pack(&*prepared);
                assert_eq!(packed.is_some(), solution.weight_form == WeightForm::Prepacked, "{solution}");
                assert_eq!(packed.is_some(), prepared.pack_key().is_some(), "{solution}");
                case.check(&case.run(&*prepared, packed.as_ref()), &solution.to_string());
            }
        }
    }
    println!("solutions checked: {counts:?}");
    assert!(counts["f32"] > 0);
}

#[test]
fn long_sums_keep_single_precision() {
    let Some(library) = onednn() else { return };
    for dtype in [DType::Bf16, DType::F16] {
        let case = Case::new(2, Site::linear(48, 4096, dtype).with_out(DType::F32));
        for solution in library.candidates(&case.problem, Effort::Extensive, &Ask::default()).unwrap() {
            let prepared = library.prepare(&case.problem, &solution).unwrap();
            let packed = case.pack(&*prepared);
            case.check(&case.run(&*prepared, packed.as_ref()), &solution.to_string());
        }
    }
}

#[test]
fn a_pack_serves_another_m_exactly_where_the_keys_agree() {
    let Some(library) = onednn() else { return };
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        let cases = [1, 8, 64].map(|m| Case::new(m, Site::linear(192, 160, dtype)));
        let prepared: Vec<_> = cases
            .iter()
            .flat_map(|case| {
                let all = library.candidates(&case.problem, Effort::Balanced, &Ask::default()).unwrap();
                let packing = all.into_iter().filter(|solution| solution.weight_form == WeightForm::Prepacked);
                packing.map(move |solution| (case, solution))
            })
            .map(|(case, solution)| (case, library.prepare(&case.problem, &solution).unwrap()))
            .collect();
        for (of, packer) in &prepared {
            let packed = of.pack(&**packer).unwrap();
            let copy = packed.duplicate().unwrap();
            assert!(copy.as_ptr() != packed.as_ptr() && copy.bytes() == packed.bytes());
            for (case, user) in &prepared {
                let same_key = packer.pack_key() == user.pack_key();
                // SAFETY: both packs hold that many bytes.
                let same_bytes = unsafe { bytes(&copy) == bytes(&case.pack(&**user).unwrap()) };
                assert_eq!(same_key, same_bytes, "{:?} {:?}", packer.pack_key(), user.pack_key());
                if same_key {
                    case.check(&case.run(&**user, Some(&copy)), "with the pack of another M");
                }
            }
        }
    }
}

/// # Safety
/// The pack is alive and holds as many bytes as it says.
unsafe fn bytes(packed: &Packed) -> &[u8] {
    // SAFETY: the contract.
    unsafe { std::slice::from_raw_parts(packed.as_ptr().cast(), packed.bytes()) }
}

#[test]
fn effort_widens_the_choice_and_the_baseline_is_in_it() {
    let Some(library) = onednn() else { return };
    for site in sites(256, 128) {
        let problem = Problem::from(site.at(4));
        let of = |effort| library.candidates(&problem, effort, &Ask::default()).unwrap();
        let efforts = [Effort::Minimal, Effort::Balanced, Effort::Extensive, Effort::Full].map(of);
        for pair in efforts.windows(2) {
            assert!(pair[0].iter().all(|solution| pair[1].contains(solution)));
        }
        assert!(efforts[2].iter().all(|solution| !is_reference(&solution.name)));
        let keys: std::collections::BTreeSet<_> = efforts[3].iter().map(Solution::key).collect();
        assert_eq!(keys.len(), efforts[3].len(), "every key is one solution's");
        let baselines = library.baselines(&problem, &Ask::default());
        assert_eq!(baselines.is_empty(), efforts[1].is_empty(), "{problem}");
        for BaselineSolution { via, solution } in baselines {
            assert_eq!(via, "onednn prepacked");
            assert!(efforts[0].contains(&solution), "{solution}");
        }
    }
}

#[test]
fn what_it_does_not_take_has_no_solutions() {
    let Some(library) = onednn() else { return };
    let site = Site::linear(64, 64, DType::F32);
    let refused = [
        Site { activation: Activation::Silu, ..site },
        Site { w: DType::Bf16, ..site },
        Site::linear(64, 64, DType::I8),
        Site::linear(64, 64, DType::F64),
    ];
    for site in refused {
        let problem = Problem::from(site.at(4));
        assert_eq!(library.candidates(&problem, Effort::Full, &Ask::default()), Ok(Vec::new()));
        assert_eq!(library.baselines(&problem, &Ask::default()), []);
    }
}

#[test]
fn solutions_of_another_build_or_name_are_refused() {
    let Some(library) = onednn() else { return };
    let problem = Problem::from(Site::linear(64, 64, DType::F32).at(4));
    let good = library.candidates(&problem, Effort::Minimal, &Ask::default()).unwrap().remove(0);
    let build = Build { version: "0.0.1".into(), ..(*good.build).clone() };
    let refused = [
        (Solution { build: build.into(), ..good.clone() }, "it is of onednn 0.0.1"),
        (Solution { name: "brg:avx1024".into(), ..good.clone() }, "brg:avx1024"),
        (Solution { index: 99, ..good.clone() }, "has no plain implementation 99"),
        (Solution { index: -1, ..good.clone() }, "has no plain implementation -1"),
        (Solution { params: Params::new(), ..good.clone() }, "threads must be 1 to"),
        (Solution { params: Params::new().with("threads", 0), ..good.clone() }, "threads must be 1 to"),
        (Solution { params: good.params.clone().with("split_k", 2), ..good.clone() }, "split_k=2"),
        (Solution { weight_form: WeightForm::Preshuffled, ..good.clone() }, "takes no preshuffled weights"),
    ];
    for (solution, why) in refused {
        let Err(Error::Unsupported(text)) = library.prepare(&problem, &solution).map(|_| ()) else {
            panic!("{solution} is not refused");
        };
        assert!(text.contains(why), "{text}");
    }
    assert!(library.prepare(&problem, &good).is_ok());
}

#[test]
fn launches_without_what_they_need_start_nothing() {
    let Some(library) = onednn() else { return };
    let case = Case::new(4, Site::linear(64, 64, DType::Bf16));
    for solution in library.candidates(&case.problem, Effort::Balanced, &Ask::default()).unwrap() {
        let prepared = library.prepare(&case.problem, &solution).unwrap();
        let mut workspace = workspace(&*prepared);
        let short = Operands {
            x: case.x.as_ptr().cast(),
            w: case.w.as_ptr().cast(),
            out: std::ptr::null_mut(),
            workspace: workspace.as_mut_ptr(),
            workspace_bytes: workspace.bytes(),
            ..Operands::default()
        };
        // SAFETY: refused before anything is read or written.
        let refused = unsafe { prepared.launch(&short, Stream::DEFAULT) };
        assert!(matches!(refused, Err(Launch::NotEnqueued(_))), "{solution}: {refused:?}");
    }
}

#[test]
fn threads_launch_one_product_at_once() {
    let Some(library) = onednn() else { return };
    let case = Case::new(3, Site::linear(129, 77, DType::F32).with_bias(DType::F32));
    for solution in library.candidates(&case.problem, Effort::Balanced, &Ask::default()).unwrap() {
        let prepared = library.prepare(&case.problem, &solution).unwrap();
        let packed = case.pack(&*prepared);
        let want = case.run(&*prepared, packed.as_ref());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..8 {
                        assert_eq!(case.run(&*prepared, packed.as_ref()), want, "{solution}");
                    }
                });
            }
        });
    }
}
