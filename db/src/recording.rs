//! Recorded problems: what an engine really ran, and how often.

use std::sync::Arc;

use crate::dtype::word_enum;
use crate::origin::Origin;
use crate::problem::Problem;

word_enum! {
    /// The API by which the engine asked for a problem: it decides what the baseline is.
    pub enum Via("API") {
        /// Not said.
        Unknown = "",
        /// Our dispatch.
        Dispatch = "dispatch",
        /// hipBLASLt or cuBLASLt matmul.
        LtMatmul = "lt_matmul",
        /// hipblasGemmEx, cublasGemmEx.
        GemmEx = "gemm_ex",
        /// rocblas_gemm_ex.
        RocblasGemmEx = "rocblas_gemm_ex",
        /// CBLAS or Fortran BLAS.
        Blas = "blas",
        /// An engine's own linear layer (AITER's tgemm, torch's F.linear).
        Linear = "linear",
    }
}

/// One recorded problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// What was asked for.
    pub problem: Problem,
    /// How often; 0 if the source did not count.
    pub count: u64,
    /// By which API.
    pub via: Via,
    /// Was it ever seen while a graph was captured?
    pub captured: bool,
    /// The most workspace the caller allowed; `None` if not said.
    pub workspace_bytes_max: Option<u64>,
    /// The library file the engine used; empty if not said.
    pub library_file: String,
    /// That library's version; empty if not said.
    pub library_build: String,
    /// Which row of which file says so; `None` for what an engine recorded here, and where nobody asked.
    pub origin: Option<Arc<Origin>>,
}

impl Recorded {
    /// A problem of which nothing more is known.
    pub fn bare(problem: Problem) -> Recorded {
        Recorded {
            problem,
            count: 0,
            via: Via::Unknown,
            captured: false,
            workspace_bytes_max: None,
            library_file: String::new(),
            library_build: String::new(),
            origin: None,
        }
    }
}

/// Sums the counts of equal problems (and equal API and caps); keeps the order of first sight.
pub fn merge(rows: impl IntoIterator<Item = Recorded>) -> Vec<Recorded> {
    let mut merged: Vec<Recorded> = Vec::new();
    let mut at = std::collections::HashMap::new();
    for row in rows {
        let identity =
            (row.problem, row.via, row.workspace_bytes_max, row.library_file.clone(), row.library_build.clone());
        match at.entry(identity) {
            std::collections::hash_map::Entry::Occupied(entry) => {
                let have: &mut Recorded = &mut merged[*entry.get()];
                have.count = have.count.saturating_add(row.count);
                have.captured |= row.captured;
            }
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(merged.len());
                merged.push(row);
            }
        }
    }
    merged
}
