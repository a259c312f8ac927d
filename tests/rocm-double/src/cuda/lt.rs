//! hipBLASLt's product by cuBLASLt.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::Cuda;
use super::algo::{self, CudaAlgo, CudaResult};
use super::near::near;
use super::table::table;
use crate::abi::Answer;
use crate::hipblaslt::object::{Object, desc, layout};
use crate::hipblaslt::{Algo, Description, NOT_INITIALIZED, NOT_SUPPORTED};

/// `hipblasStatus_t` of a `cublasStatus_t`.
fn hipblas_status(status: i32) -> i32 {
    match status {
        1 => 1,
        3 => 2,
        7 => 3,
        8 => 8,
        11 => 4,
        13 => 5,
        14 => 6,
        15 => 7,
        _ => 11,
    }
}

table! {
    /// libcublasLt (`cublasLt.h`).
    Table, hipblas_status;
    fn create = "cublasLtCreate" (place: usize);
    fn desc_create = "cublasLtMatmulDescCreate" (place: usize, compute: i32, scale_type: i32);
    fn desc_set = "cublasLtMatmulDescSetAttribute" (desc: usize, attribute: i32, from: usize, bytes: usize);
    fn desc_destroy = "cublasLtMatmulDescDestroy" (desc: usize);
    fn layout_create = "cublasLtMatrixLayoutCreate" (place: usize, data_type: i32, rows: u64, cols: u64, ld: i64);
    fn layout_set = "cublasLtMatrixLayoutSetAttribute" (layout: usize, attribute: i32, from: usize, bytes: usize);
    fn layout_destroy = "cublasLtMatrixLayoutDestroy" (layout: usize);
    fn preference_create = "cublasLtMatmulPreferenceCreate" (place: usize);
    fn preference_set = "cublasLtMatmulPreferenceSetAttribute" (preference: usize, attribute: i32, from: usize, bytes: usize);
    fn preference_destroy = "cublasLtMatmulPreferenceDestroy" (preference: usize);
    fn heuristic = "cublasLtMatmulAlgoGetHeuristic" (
        handle: usize, desc: usize, a: usize, b: usize, c: usize, d: usize, preference: usize, requested: i32,
        results: usize, returned: usize,
    );
    fn config_get = "cublasLtMatmulAlgoConfigGetAttribute" (algo: usize, attribute: i32, to: usize, bytes: usize, written: usize);
    fn config_set = "cublasLtMatmulAlgoConfigSetAttribute" (algo: usize, attribute: i32, from: usize, bytes: usize);
    fn cap_get = "cublasLtMatmulAlgoCapGetAttribute" (algo: usize, attribute: i32, to: usize, bytes: usize, written: usize);
    fn check = "cublasLtMatmulAlgoCheck" (
        handle: usize, desc: usize, a: usize, b: usize, c: usize, d: usize, algo: usize, result: usize,
    );
    fn matmul = "cublasLtMatmul" (
        handle: usize, desc: usize, alpha: usize, a: usize, a_layout: usize, b: usize, b_layout: usize, beta: usize,
        c: usize, c_layout: usize, d: usize, d_layout: usize, algo: usize, workspace: usize, workspace_bytes: usize,
        stream: usize,
    );
}

/// cuBLASLt with what it has offered so far.
pub struct Lt {
    pub table: Table,
    handle: OnceLock<Result<usize, i32>>,
    /// By index and problem: the same configuration is other bytes for another problem.
    algos: Mutex<HashMap<(i32, u64), CudaAlgo>>,
    names: Mutex<HashMap<i32, String>>,
}

impl Lt {
    pub fn load() -> Result<Lt, String> {
        let table = Table::load(&["libcublasLt.so.13", "libcublasLt.so.12"])?;
        Ok(Lt { table, handle: OnceLock::new(), algos: Mutex::default(), names: Mutex::default() })
    }

    /// The one handle of the process.
    pub fn handle(&self) -> Result<usize, i32> {
        *self.handle.get_or_init(|| {
            let mut handle = 0usize;
            self.table.create(&raw mut handle as usize).map(|()| handle)
        })
    }

    fn remember(&self, key: u64, results: &[CudaResult]) -> Vec<(Algo, u64, f32)> {
        let mut algos = self.algos.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offered = Vec::new();
        for result in results {
            let Ok(config) = algo::config(&self.table, &result.algo) else { continue };
            let index = algo::index(&config);
            if algos.insert((index, key), result.algo).is_none()
                || !offered.iter().any(|(have, ..): &(Algo, _, _)| have.index == index)
            {
                offered.push((Algo { index, workspace_bytes: result.workspace }, result.workspace, result.waves));
            }
            names.entry(index).or_insert_with(|| algo::name(&config));
        }
        let mut seen = std::collections::HashSet::new();
        offered.retain(|(algo, ..)| seen.insert(algo.index));
        offered
    }

    fn known(&self, index: i32, key: u64) -> Option<CudaAlgo> {
        self.algos.lock().unwrap_or_else(PoisonError::into_inner).get(&(index, key)).copied()
    }
}

/// cuBLASLt's descriptors of a product, freed with this.
struct Product<'a> {
    table: &'a Table,
    desc: usize,
    layouts: [usize; 4],
    /// The same for equal descriptions, whatever their pointers.
    key: u64,
}

impl Drop for Product<'_> {
    fn drop(&mut self) {
        for layout in self.layouts.into_iter().filter(|layout| *layout != 0) {
            let _ = self.table.layout_destroy(layout);
        }
        if self.desc != 0 {
            let _ = self.table.desc_destroy(self.desc);
        }
    }
}

/// Type numbers are shared, but FNUZ (1000, 1001) is AMD's alone.
fn cuda_type(number: i64) -> Result<i32, i32> {
    i32::try_from(number).ok().filter(|number| (0..=33).contains(number)).ok_or(NOT_SUPPORTED)
}

/// `cublasComputeType_t` of a `hipblasComputeType_t`.
pub fn cuda_compute(number: i64) -> Result<i32, i32> {
    Ok(match number {
        0 => 64,
        1 => 65,
        2 => 68,
        3 => 69,
        4 => 74,
        5 => 75,
        6 => 77,
        7 => 70,
        8 => 71,
        9 => 72,
        10 => 73,
        _ => return Err(NOT_SUPPORTED),
    })
}

impl<'a> Product<'a> {
    fn new(table: &'a Table, description: &Description) -> Result<Product<'a>, i32> {
        let Description { desc: from, layouts, .. } = description;
        let mut product = Product { table, desc: 0, layouts: [0; 4], key: 0 };
        let (compute, scale) = (cuda_compute(from.get(desc::COMPUTE))?, cuda_type(from.get(desc::SCALE_TYPE))?);
        table.desc_create(&raw mut product.desc as usize, compute, scale)?;
        product.set_desc(from)?;
        let mut words: Vec<i64> = description_words(from);
        for (at, layout) in layouts.iter().enumerate() {
            words.extend((0..=6).map(|attribute| layout.get(attribute)));
            product.set_layout(at, layout)?;
        }
        product.key = crate::solutions::hash(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>());
        Ok(product)
    }

    /// `cublasLtMatmulDescAttributes_t`: POINTER_MODE 2, TRANSA 3, TRANSB 4, EPILOGUE 7, BIAS_POINTER 8,
    /// A/B/C/D_SCALE_POINTER 17–20, BIAS_DATA_TYPE 26, A/B_SCALE_MODE 31/32.
    fn set_desc(&self, from: &Object) -> Answer {
        let int = |attribute: i32, value: i32| self.table.desc_set(self.desc, attribute, &raw const value as usize, 4);
        // Operations: 111, 112, 113 there, 0, 1, 2 here. Modes, epilogues and pointer modes are numbered alike.
        int(3, from.get(desc::TRANSA) as i32 - 111)?;
        int(4, from.get(desc::TRANSB) as i32 - 111)?;
        int(2, from.get(desc::POINTER_MODE) as i32)?;
        let epilogue = from.get(desc::EPILOGUE);
        if epilogue > 512 {
            return Err(NOT_SUPPORTED);
        }
        int(7, epilogue as i32)?;
        if let Some(bias) = from.find(desc::BIAS_DATA_TYPE) {
            int(26, cuda_type(bias)?)?;
        }
        for (ours, theirs) in [(desc::A_SCALE_MODE, 31), (desc::B_SCALE_MODE, 32)] {
            match from.get(ours) {
                0 => {}
                mode => int(theirs, mode as i32)?,
            }
        }
        let pointers = [(desc::BIAS_POINTER, 8), (desc::A_SCALE_POINTER, 17), (desc::B_SCALE_POINTER, 18)];
        for (ours, theirs) in pointers.into_iter().chain([(desc::D_SCALE_POINTER, 20)]) {
            let address = from.get(ours);
            if address != 0 {
                self.table.desc_set(self.desc, theirs, &raw const address as usize, 8)?;
            }
        }
        Ok(())
    }

    /// `cublasLtMatrixLayoutAttribute_t`: ORDER 1, BATCH_COUNT 5, STRIDED_BATCH_OFFSET 6.
    fn set_layout(&mut self, at: usize, from: &Object) -> Answer {
        let (rows, cols) = (from.get(layout::ROWS) as u64, from.get(layout::COLS) as u64);
        let (data_type, ld) = (cuda_type(from.get(layout::TYPE))?, from.get(layout::LD));
        if from.get(layout::ORDER) != 0 {
            return Err(NOT_SUPPORTED);
        }
        self.table.layout_create(&raw mut self.layouts[at] as usize, data_type, rows, cols, ld)?;
        let (batch, stride) = (from.get(layout::BATCH_COUNT) as i32, from.get(layout::STRIDED_BATCH_OFFSET));
        self.table.layout_set(self.layouts[at], 5, &raw const batch as usize, 4)?;
        self.table.layout_set(self.layouts[at], 6, &raw const stride as usize, 8)
    }

    /// Does cuBLASLt take `algo` for this? As it made it, with the workspace.
    fn checked(&self, handle: usize, algo: &CudaAlgo) -> Result<CudaResult, i32> {
        let mut result = CudaResult::default();
        let [a, b, c, d] = self.layouts;
        let (from, place) = (algo.as_ptr() as usize, &raw mut result as usize);
        self.table.check(handle, self.desc, a, b, c, d, from, place)?;
        if result.algo == CudaAlgo::default() {
            result.algo = *algo;
        }
        Ok(result)
    }

    /// Everything: the ranked ones, those that other preferences give, and what is near to these.
    fn whole(&self, handle: usize, workspace_bytes: u64, ranked: Vec<CudaResult>) -> Result<Vec<CudaResult>, i32> {
        let mut results = ranked;
        for (bytes, reductions) in [(workspace_bytes, 2), (workspace_bytes, 0), (0, 7)] {
            results.extend(self.list(handle, bytes, reductions, LIST_MAX)?);
        }
        let near = near(self.table, &results, workspace_bytes, |algo| self.checked(handle, algo));
        results.extend(near);
        Ok(results)
    }

    /// One list of cuBLASLt's. `cublasLtMatmulPreferenceAttributes_t`: MAX_WORKSPACE_BYTES 1, REDUCTION_SCHEME_MASK 3,
    /// MIN_ALIGNMENT_A..D 5–8.
    fn list(&self, handle: usize, workspace_bytes: u64, reductions: u32, count: usize) -> Result<Vec<CudaResult>, i32> {
        let mut preference = 0usize;
        self.table.preference_create(&raw mut preference as usize)?;
        // hipBLASLt is not told of alignment; allocations have at least this.
        let align_bytes = 16u32;
        let mut done = self.table.preference_set(preference, 1, &raw const workspace_bytes as usize, 8);
        done = done.and_then(|()| self.table.preference_set(preference, 3, &raw const reductions as usize, 4));
        for attribute in 5..=8 {
            done = done
                .and_then(|()| self.table.preference_set(preference, attribute, &raw const align_bytes as usize, 4));
        }
        let mut results = vec![CudaResult::default(); count];
        let mut returned = 0i32;
        let [a, b, c, d] = self.layouts;
        let listed = done.and_then(|()| {
            let (results, returned) = (results.as_mut_ptr() as usize, &raw mut returned as usize);
            self.table.heuristic(handle, self.desc, a, b, c, d, preference, count as i32, results, returned)
        });
        let _ = self.table.preference_destroy(preference);
        match listed {
            Err(NOT_SUPPORTED) => return Ok(Vec::new()),
            other => other?,
        }
        results.truncate(usize::try_from(returned).unwrap_or(0));
        results.retain(|result| result.state == 0);
        Ok(results)
    }
}

/// What tells one description from another, pointers aside.
fn description_words(from: &Object) -> Vec<i64> {
    let named = [desc::COMPUTE, desc::SCALE_TYPE, desc::TRANSA, desc::TRANSB, desc::EPILOGUE, desc::POINTER_MODE];
    let more = [desc::BIAS_DATA_TYPE, desc::A_SCALE_MODE, desc::B_SCALE_MODE];
    named.into_iter().chain(more).map(|attribute| from.get(attribute)).collect()
}

/// Most results of one list of cuBLASLt's: it gives a few hundred at most.
const LIST_MAX: usize = 512;

impl Cuda {
    fn lt(&self) -> Result<&Lt, i32> {
        self.enter()?;
        self.lt.as_ref().map_err(|_| NOT_INITIALIZED)
    }

    /// The ranked list; where more than a few are asked for, those that other preferences give come behind it.
    pub fn heuristic(
        &self,
        description: &Description,
        workspace_bytes: u64,
        requested: usize,
    ) -> Result<Vec<(Algo, u64, f32)>, i32> {
        let lt = self.lt()?;
        let (handle, product) = (lt.handle()?, Product::new(&lt.table, description)?);
        let count = requested.clamp(1, LIST_MAX);
        let mut results = product.list(handle, workspace_bytes, 7, count)?;
        if requested > results.len() && requested > 1 {
            results = product.whole(handle, workspace_bytes, results)?;
        }
        let mut offered = lt.remember(product.key, &results);
        offered.truncate(requested);
        Ok(offered)
    }

    /// cuBLASLt's algorithm of an index: one it offered in this process, else found again among what it offers now.
    fn algo(&self, lt: &Lt, product: &Product<'_>, index: i32) -> Result<CudaAlgo, i32> {
        if let Some(known) = lt.known(index, product.key) {
            return Ok(known);
        }
        let handle = lt.handle()?;
        for (bytes, reductions) in [32 << 20, 0, 1 << 20, 256 << 20].into_iter().flat_map(|b| [7, 2, 0].map(|r| (b, r)))
        {
            let ranked = product.list(handle, bytes, reductions, LIST_MAX)?;
            lt.remember(product.key, &product.whole(handle, bytes, ranked)?);
            if let Some(found) = lt.known(index, product.key) {
                return Ok(found);
            }
        }
        Err(NOT_SUPPORTED)
    }

    /// Does the solution take the product? The workspace that it needs.
    pub fn check(&self, description: &Description, index: i32) -> Result<u64, i32> {
        let lt = self.lt()?;
        let product = Product::new(&lt.table, description)?;
        let algo = self.algo(lt, &product, index)?;
        let result = product.checked(lt.handle()?, &algo)?;
        if result.state == 0 { Ok(result.workspace) } else { Err(hipblas_status(result.state)) }
    }

    /// Launches the product; without an algorithm by cuBLASLt's first choice.
    pub fn matmul(
        &self,
        description: &Description,
        algo: Option<Algo>,
        workspace: usize,
        workspace_bytes: usize,
        stream: usize,
    ) -> Answer {
        let lt = self.lt()?;
        let product = Product::new(&lt.table, description)?;
        let algo = algo.map(|algo| self.algo(lt, &product, algo.index)).transpose()?;
        let algo = algo.as_ref().map_or(0, |algo| std::ptr::from_ref(algo) as usize);
        let ([la, lb, lc, ld], [a, b, c, d]) = (product.layouts, description.addresses);
        // cuBLASLt wants an address for C even where beta is 0.
        let c = if c == 0 { d } else { c };
        lt.table.matmul(
            lt.handle()?,
            product.desc,
            description.alpha,
            a,
            la,
            b,
            lb,
            description.beta,
            c,
            lc,
            d,
            ld,
            algo,
            workspace,
            workspace_bytes,
            stream,
        )
    }

    /// The configuration in words, for an index that was offered in this process.
    pub fn name_of(&self, index: i32) -> String {
        let names = self.lt.as_ref().ok().map(|lt| lt.names.lock().unwrap_or_else(PoisonError::into_inner));
        names.and_then(|names| names.get(&index).cloned()).unwrap_or_default()
    }
}
