//! The C calls.

use super::object::{self, Kind, Object, desc, layout, preference};
use super::{
    Algo, Description, EXECUTION_FAILED, INTERNAL_ERROR, INVALID_VALUE, NOT_SUPPORTED, blas_call, result_bytes,
};
use crate::abi::{Answer, Out, exports, read_at, write_bytes};
use crate::host::{GemmWork, Refused};
use crate::state::Double;

/// Finds what a description refers to.
pub fn described(
    handle: usize,
    desc: usize,
    layouts: [usize; 4],
    addresses: [usize; 4],
    factors: [usize; 2],
) -> Result<Description, i32> {
    object::find(handle, Kind::Handle)?;
    let desc = object::find(desc, Kind::Desc)?;
    let [a, b, c, d] = layouts.map(|layout| object::find(layout, Kind::Layout));
    let [alpha, beta] = factors;
    Ok(Description { desc, layouts: [a?, b?, c?, d?], addresses, alpha, beta })
}

/// The algorithm at an address.
pub fn algo_at(address: usize) -> Option<Algo> {
    let bytes: [u8; 24] = read_at(address)?;
    let index = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let workspace = bytes[9..17].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    Some(Algo { index, workspace_bytes: workspace })
}

/// What the library lists: (algorithm, workspace, waves).
fn heuristic(
    double: &Double,
    description: &Description,
    workspace_bytes: u64,
    requested: usize,
) -> Result<Vec<(Algo, u64, f32)>, i32> {
    if let Err(cuda) = double.host() {
        return cuda.heuristic(description, workspace_bytes, requested);
    }
    let gemm = description.gemm(double)?;
    let device = &double.script.device;
    let listed = double.solutions.listed(&gemm, device, workspace_bytes);
    let offered = listed.into_iter().take(requested).map(|one| {
        let tiles = gemm.m.div_ceil(one.tile[0] as usize) * gemm.n.div_ceil(one.tile[1] as usize) * gemm.batch;
        let waves = tiles as f32 * one.split_k as f32 / device.cus.max(1) as f32;
        (Algo { index: one.index, workspace_bytes }, one.workspace_bytes(&gemm), waves)
    });
    Ok(offered.collect())
}

#[allow(clippy::too_many_arguments, reason = "what a launch needs")]
fn matmul(
    double: &Double,
    handle: usize,
    description: &Description,
    algo: usize,
    workspace: usize,
    workspace_bytes: usize,
    stream: usize,
) -> Answer {
    let [a, b, _, d] = description.addresses;
    if [a, b, d, description.alpha, description.beta].contains(&0) {
        return Err(INVALID_VALUE);
    }
    object::find(handle, Kind::Handle)?;
    if let Err(cuda) = double.host() {
        return cuda.matmul(description, algo_at(algo), workspace, workspace_bytes, stream);
    }
    let gemm = description.gemm(double)?;
    if (gemm.bias.is_some_and(|(address, _)| address == 0)) || (gemm.beta.value() != 0.0 && gemm.c.address == 0) {
        return Err(INVALID_VALUE);
    }
    let allowed = workspace_bytes as u64;
    let solution = match algo_at(algo) {
        Some(algo) => double.solutions.of_index(algo.index).filter(|one| one.takes(&gemm)),
        None => double.solutions.listed(&gemm, &double.script.device, allowed).into_iter().next(),
    };
    let solution = solution.ok_or(NOT_SUPPORTED)?;
    let needed = solution.workspace_bytes(&gemm);
    if needed > allowed || (needed > 0 && workspace == 0) {
        return Err(INVALID_VALUE);
    }
    let index = solution.index;
    let work = GemmWork { library: "hipblaslt", index, solution, gemm, workspace };
    let Ok(mut host) = double.host() else { return Err(INTERNAL_ERROR) };
    host.enqueue_gemm(stream, work).map_err(|refused| match refused {
        Refused::Status(status) => status,
        Refused::Failed => EXECUTION_FAILED,
    })
}

exports! { blas_call;
    fn hipblasLtCreate(place: Out<usize>) |_double| { object::create(&place, Object::new(Kind::Handle, &[])) }

    fn hipblasLtDestroy(handle: usize) |_double| { object::destroy(handle, Kind::Handle) }

    fn hipblasLtGetVersion(handle: usize, place: Out<i32>) |double| {
        object::find(handle, Kind::Handle)?;
        if place.put(double.versions.hipblaslt) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn hipblasLtGetGitRevision(handle: usize, text: usize) |double| {
        object::find(handle, Kind::Handle)?;
        write_bytes(text, format!("{:.126}\0", double.revision).as_bytes());
        if text == 0 { Err(INVALID_VALUE) } else { Ok(()) }
    }

    fn hipblasLtGetArchName(place: Out<usize>) |double| {
        let arch = double.script.device.arch.split(':').next().unwrap_or_default();
        let text = super::ext::malloc_text(arch).ok_or(super::ALLOC_FAILED)?;
        if place.put(text) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn hipblasLtMatrixLayoutCreate(place: Out<usize>, data_type: i32, rows: u64, cols: u64, ld: i64) |_double| {
        let (rows, cols) = (i64::try_from(rows).map_err(|_| INVALID_VALUE)?, i64::try_from(cols).map_err(|_| INVALID_VALUE)?);
        let fixed = [(layout::TYPE, data_type.into()), (layout::ROWS, rows), (layout::COLS, cols), (layout::LD, ld)];
        let set = [(layout::BATCH_COUNT, 1), (layout::STRIDED_BATCH_OFFSET, 0), (layout::ORDER, 0)];
        object::create(&place, Object::new(Kind::Layout, &[fixed.as_slice(), &set].concat()))
    }

    fn hipblasLtMatrixLayoutDestroy(layout: usize) |_double| { object::destroy(layout, Kind::Layout) }

    fn hipblasLtMatrixLayoutSetAttribute(layout: usize, attribute: i32, from: usize, bytes: usize) |double| {
        object::set(layout, Kind::Layout, attribute, from, bytes, double.versions.generation)
    }

    fn hipblasLtMatrixLayoutGetAttribute(
        layout: usize, attribute: i32, to: usize, bytes: usize, written: Out<usize>,
    ) |double| {
        object::get(layout, Kind::Layout, attribute, to, bytes, &written, double.versions.generation)
    }

    fn hipblasLtMatmulDescCreate(place: Out<usize>, compute: i32, scale_type: i32) |_double| {
        let fixed = [(desc::COMPUTE, compute.into()), (desc::SCALE_TYPE, scale_type.into())];
        let set = [(desc::TRANSA, 111), (desc::TRANSB, 111), (desc::EPILOGUE, 1), (desc::POINTER_MODE, 0)];
        object::create(&place, Object::new(Kind::Desc, &[fixed.as_slice(), &set].concat()))
    }

    fn hipblasLtMatmulDescDestroy(desc: usize) |_double| { object::destroy(desc, Kind::Desc) }

    fn hipblasLtMatmulDescSetAttribute(desc: usize, attribute: i32, from: usize, bytes: usize) |double| {
        object::set(desc, Kind::Desc, attribute, from, bytes, double.versions.generation)
    }

    fn hipblasLtMatmulDescGetAttribute(
        desc: usize, attribute: i32, to: usize, bytes: usize, written: Out<usize>,
    ) |double| {
        object::get(desc, Kind::Desc, attribute, to, bytes, &written, double.versions.generation)
    }

    fn hipblasLtMatmulPreferenceCreate(place: Out<usize>) |_double| {
        // No workspace unless it is set: most split-K solutions are not listed then.
        object::create(&place, Object::new(Kind::Preference, &[(preference::MAX_WORKSPACE_BYTES, 0)]))
    }

    fn hipblasLtMatmulPreferenceDestroy(preference: usize) |_double| {
        object::destroy(preference, Kind::Preference)
    }

    fn hipblasLtMatmulPreferenceSetAttribute(preference: usize, attribute: i32, from: usize, bytes: usize) |double| {
        object::set(preference, Kind::Preference, attribute, from, bytes, double.versions.generation)
    }

    fn hipblasLtMatmulPreferenceGetAttribute(
        preference: usize, attribute: i32, to: usize, bytes: usize, written: Out<usize>,
    ) |double| {
        object::get(preference, Kind::Preference, attribute, to, bytes, &written, double.versions.generation)
    }

    fn hipblasLtMatmulAlgoGetHeuristic(
        handle: usize, desc: usize, a: usize, b: usize, c: usize, d: usize, preference: usize, requested: i32,
        results: usize, returned: Out<i32>,
    ) |double| {
        if results == 0 || requested < 1 || !returned.put(0) {
            return Err(INVALID_VALUE);
        }
        let description = described(handle, desc, [a, b, c, d], [0; 4], [0; 2])?;
        let preference = object::find(preference, Kind::Preference)?;
        let workspace_bytes = preference.get(preference::MAX_WORKSPACE_BYTES) as u64;
        let offers = heuristic(double, &description, workspace_bytes, requested as usize)?;
        for (at, (algo, needed, waves)) in offers.iter().enumerate() {
            write_bytes(results + at * 56, &result_bytes(*algo, *needed, *waves));
        }
        returned.put(offers.len() as i32);
        if offers.is_empty() { Err(NOT_SUPPORTED) } else { Ok(()) }
    }

    fn hipblasLtMatmul(
        handle: usize, desc: usize, alpha: usize, a: usize, a_layout: usize, b: usize, b_layout: usize, beta: usize,
        c: usize, c_layout: usize, d: usize, d_layout: usize, algo: usize, workspace: usize, workspace_bytes: usize,
        stream: usize,
    ) |double| {
        let layouts = [a_layout, b_layout, c_layout, d_layout];
        let description = described(handle, desc, layouts, [a, b, c, d], [alpha, beta])?;
        matmul(double, handle, &description, algo, workspace, workspace_bytes, stream)
    }
}
