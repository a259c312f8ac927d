use super::*;
use crate::cpu::widen::Widened;
use crate::cpu::{gemm, rten};
use crate::library;
use crate::measure::{Bench, BenchOptions, BlockEntry};
use crate::{Backend, Mode, cpu::CpuContext};
use std::collections::BTreeSet;
use tgemm_db::problem::Leading;
use tgemm_db::{DType, Outcome, WeightForm};

fn batch(count: u32) -> Batch {
    // Matrices of 3 x 17, 40 x 17 and 3 x 40, with gaps between.
    Batch { count, stride_x: 64, stride_w: 700, stride_out: 121 }
}

fn sites() -> Vec<Site> {
    let mut sites = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let site = Site { batch: batch(5), ..Site::linear(40, 17, dtype).with_bias(dtype) };
        sites.extend([site, site.with_out(DType::F32)]);
        sites.push(Site { batch: Batch { stride_x: 0, ..batch(4) }, ..site });
        sites.push(Site { batch: Batch { stride_w: 0, ..batch(4) }, ..site });
    }
    sites
}

#[test]
fn every_library_of_this_machine_computes_batches_plain_and_packed() {
    let mut context = CpuContext::open();
    let mut seen = BTreeSet::new();
    for (m, site) in sites().into_iter().flat_map(|site| [(1, site), (3, site)]) {
        let problem = Problem::from(site.at(m));
        let options = BenchOptions { rotation_bytes: 1 << 20, ..BenchOptions::default() };
        let mut bench = Bench::new(&context, &problem, &options).unwrap();
        let mut ready = Vec::new();
        for library in context.libraries() {
            for solution in library.candidates(&problem, Effort::Balanced, &Ask::default()).unwrap() {
                assert_eq!(solution.params.get(BATCH), Some(EACH));
                seen.insert((solution.library().to_owned(), site.x, solution.weight_form));
                ready.push(library.prepare(&problem, &solution).unwrap());
            }
        }
        let mut block = Vec::new();
        for prepared in ready {
            let loaded = bench.load(&context, prepared).unwrap();
            let verified = bench.verify(&mut context, loaded.id, f64::INFINITY).unwrap();
            assert_eq!(verified.outcome, Outcome::ok(), "{} on {problem}", loaded.ran);
            block.push(BlockEntry { id: loaded.id, calls: 2 });
        }
        // In rotation packed weights are duplicates.
        assert_eq!(bench.measure(&mut context, &block, Mode::Rotated).unwrap().len(), block.len());
    }
    for library in ["gemm", "rten", "matrixmultiply", "tgemm"] {
        assert!(seen.iter().any(|(name, dtype, _)| name == library && *dtype == DType::F32), "{library}");
    }
    let packs = |dtype| seen.contains(&("rten".to_owned(), dtype, WeightForm::Prepacked));
    assert!(packs(DType::F32) && packs(DType::Bf16));
}

#[test]
fn an_engines_loop_is_the_baseline_and_other_libraries_have_none() {
    let context = CpuContext::open();
    let problem = Problem::from(sites()[0].at(3));
    let baselines = library(&context, "gemm").unwrap().baselines(&problem, &Ask::default());
    assert_eq!((baselines.len(), &*baselines[0].via), (1, "gemm"));
    assert_eq!(baselines[0].solution.params.get(BATCH), Some(EACH));
    let others = context.libraries().iter().filter(|library| library.build().library != "gemm");
    assert!(others.into_iter().all(|library| library.baselines(&problem, &Ask::default()).is_empty()));
}

#[test]
fn a_solution_of_one_product_is_none_of_a_batch_and_the_other_way_round() {
    let library = Batched::new(Box::new(Widened::new(gemm::open())));
    let (single, many) = (Site::linear(40, 17, DType::F32).at(3), sites()[0].at(3));
    let one = library.candidates(&single.into(), Effort::Minimal, &Ask::default()).unwrap().remove(0);
    let each = library.candidates(&many.into(), Effort::Minimal, &Ask::default()).unwrap().remove(0);
    assert_ne!(one.key(), each.key());
    let refused =
        |gemm: Gemm, solution: &Solution| matches!(library.prepare(&gemm.into(), solution), Err(Error::Unsupported(_)));
    assert!(refused(many, &one) && refused(single, &each));
    assert!(!refused(single, &one) && !refused(many, &each));
}

#[test]
fn what_no_item_of_is_taken_is_no_candidate() {
    let library = Batched::new(gemm::open());
    let plain = Site { batch: batch(5), ..Site::linear(40, 17, DType::F32) };
    let ld = Leading { out: 5 * 40, ..Leading::default() };
    for site in [
        Site { ld, batch: Batch { stride_out: 40, ..batch(5) }, ..plain },
        Site { batch: Batch { stride_out: 119, ..batch(5) }, ..plain },
        Site { batch: Batch { stride_out: 0, ..batch(5) }, ..plain },
        Site { batch: Batch { stride_x: u64::MAX / 2, ..batch(5) }, ..plain },
    ] {
        let problem = Problem::from(site.at(3));
        assert_eq!(library.candidates(&problem, Effort::Full, &Ask::default()), Ok(Vec::new()));
        let solution = library.candidates(&plain.at(3).into(), Effort::Minimal, &Ask::default()).unwrap().remove(0);
        assert!(matches!(library.prepare(&problem, &solution), Err(Error::Unsupported(_))));
    }
}

#[test]
fn packs_of_other_strides_are_other_packs() {
    let library = Batched::new(rten::open());
    let key = |batch: Batch| {
        let problem = Problem::from(Site { batch, ..Site::linear(40, 17, DType::F32) }.at(3));
        let all = library.candidates(&problem, Effort::Minimal, &Ask::default()).unwrap();
        let packed = all.iter().find(|solution| solution.weight_form == WeightForm::Prepacked).unwrap();
        library.prepare(&problem, packed).unwrap().pack_key().unwrap().to_owned()
    };
    let keys = [batch(5), batch(4), Batch { stride_w: 680, ..batch(5) }, Batch { stride_w: 0, ..batch(5) }].map(key);
    assert_eq!(BTreeSet::from(keys).len(), 4);
    // What only x and out differ in, or shared weights for another count, is the same.
    assert_eq!(key(Batch { stride_x: 51, ..batch(5) }), key(batch(5)));
    assert_eq!(key(Batch { stride_w: 0, ..batch(9) }), key(Batch { stride_w: 0, ..batch(5) }));
}

/// Refuses to start, from its `from`-th launch on.
struct Refusing {
    solution: Solution,
    launches: std::sync::atomic::AtomicUsize,
    from: usize,
}

impl Prepared for Refusing {
    fn ran(&self) -> &Solution {
        &self.solution
    }
    fn workspace_bytes(&self) -> usize {
        0
    }
    fn pack_key(&self) -> Option<&str> {
        None
    }
    unsafe fn pack(&self, _: *const c_void) -> Result<Option<Packed>, Error> {
        Ok(None)
    }
    unsafe fn launch(&self, _: &Operands, _: Stream) -> Result<(), Launch> {
        let before = self.launches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if before < self.from { Ok(()) } else { Err(Launch::NotEnqueued(Error::unsupported("no more"))) }
    }
}

#[test]
fn a_batch_that_stops_half_way_may_have_run() {
    let context = CpuContext::open();
    let problem = Problem::from(Site::linear(8, 8, DType::F32).at(1));
    let solution = library(&context, "gemm").unwrap().candidates(&problem, Effort::Minimal, &Ask::default()).unwrap();
    let launch = |from: usize, x: usize| {
        let inner = Refusing { solution: solution[0].clone(), launches: Default::default(), from };
        let strides = Strides { x: 4, w: 4, out: 4 };
        let ran = solution[0].clone();
        let ready = Ready { inner: Box::new(inner), ran, count: 3, matrices: 3, strides, pack_key: None };
        let somewhere = std::ptr::without_provenance_mut::<c_void>(64);
        let io = Operands { x: std::ptr::without_provenance(x), w: somewhere, out: somewhere, ..Operands::default() };
        // SAFETY: these launches use no pointer.
        unsafe { ready.launch(&io, Stream::DEFAULT) }
    };
    assert!(matches!(launch(0, 64), Err(Launch::NotEnqueued(_))));
    assert!(matches!(launch(2, 64), Err(Launch::MayHaveRun(_))));
    assert!(matches!(launch(3, 0), Err(Launch::NotEnqueued(_))));
    assert_eq!(launch(3, 64), Ok(()));
}
