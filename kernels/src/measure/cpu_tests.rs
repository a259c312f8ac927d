//! Every solution of every library on this machine must pass the gate: they are honest.

use super::*;
use crate::cpu::CpuContext;
use crate::{Ask, Backend, Effort, Mode};
use tgemm_db::outcome::OutcomeKind;
use tgemm_db::{DType, Problem, Site};

fn problems() -> Vec<Problem> {
    let mut problems = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        for (m, n, k) in [(1, 160, 1100), (8, 96, 2048)] {
            let plain = Site::linear(n, k, dtype);
            problems.push(plain.with_bias(dtype).at(m).into());
            problems.push(plain.with_out(DType::F32).at(m).into());
        }
    }
    problems
}

#[test]
fn every_library_of_this_machine_passes() {
    let mut context = CpuContext::open();
    let (mut solutions, mut largest) = (0, 0.0f64);
    for problem in problems() {
        let mut bench =
            Bench::new(&context, &problem, &BenchOptions { rotation_bytes: 1, ..Default::default() }).unwrap();
        let mut loaded = Vec::new();
        let mut ready = Vec::new();
        for library in context.libraries() {
            let offered = library.candidates(&problem, Effort::Minimal, &Ask::default()).unwrap();
            ready.extend(offered.iter().map(|solution| library.prepare(&problem, solution).unwrap()));
        }
        for prepared in ready {
            let Loaded { id, ran, .. } = bench.load(&context, prepared).unwrap();
            let verified = bench.verify(&mut context, id, f64::INFINITY).unwrap();
            assert_eq!(verified.outcome.kind, OutcomeKind::Ok, "{ran} on {problem}: {}", verified.outcome.detail);
            let error = verified.error.unwrap();
            // AITER's limit; its absolute tolerance counts small outputs of 16-bit partial sums.
            assert!(error.share_beyond <= 0.05, "{ran} on {problem}: {error:?}");
            largest = largest.max(error.max_over_bound);
            loaded.push(BlockEntry { id, calls: 1 });
            solutions += 1;
        }
        assert_eq!(bench.measure(&mut context, &loaded, Mode::Rotated).unwrap().len(), loaded.len());
    }
    println!("{solutions} solutions, largest error {largest:.2} of its bound");
    assert!(solutions > 0);
}
