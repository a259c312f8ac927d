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

/// What came before a call in a captured graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Follows {
    /// The product before it: in the graph, or where it is the graph's first, of the graph that was launched before.
    pub problem: Problem,
    /// Nodes of the graph between the two; `None` where that is not known.
    pub nodes_between: Option<u32>,
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
    /// What came before these calls; `None` if not said.
    pub follows: Option<Follows>,
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
            follows: None,
            workspace_bytes_max: None,
            library_file: String::new(),
            library_build: String::new(),
            origin: None,
        }
    }
}

/// Sums the counts of equal problems (and equal API and caps), whatever they followed; keeps the order of first sight.
pub fn merge(rows: impl IntoIterator<Item = Recorded>) -> Vec<Recorded> {
    merge_followers(rows.into_iter().map(|row| Recorded { follows: None, ..row }))
}

/// As [`merge`], but calls that followed other ones stay apart.
pub fn merge_followers(rows: impl IntoIterator<Item = Recorded>) -> Vec<Recorded> {
    let mut merged: Vec<Recorded> = Vec::new();
    let mut at = std::collections::HashMap::new();
    for row in rows {
        let libraries = (row.library_file.clone(), row.library_build.clone());
        let identity = (row.problem, row.via, row.workspace_bytes_max, libraries, row.follows);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::problem::Site;

    fn problem(n: u32) -> Problem {
        Site::linear(n, 64, DType::Bf16).at(3).into()
    }

    /// `count` calls of problem `n`, after one of problem `follows` over so many nodes.
    fn row(n: u32, count: u64, follows: Option<(u32, Option<u32>)>) -> Recorded {
        let follows = follows.map(|(n, nodes_between)| Follows { problem: problem(n), nodes_between });
        Recorded { count, follows, ..Recorded::bare(problem(n)) }
    }

    #[test]
    fn what_calls_followed_is_summed_over_or_kept_apart() {
        let rows = [
            row(32, 1, Some((48, Some(2)))),
            row(48, 10, None),
            row(32, 2, None),
            row(32, 4, Some((48, Some(2)))),
            row(32, 8, Some((48, None))),
            row(32, 16, Some((48, Some(3)))),
            row(32, 32, Some((32, Some(2)))),
            row(48, 20, Some((32, Some(0)))),
        ];
        assert_eq!(merge(rows.clone()), [row(32, 63, None), row(48, 30, None)]);
        let apart = [
            row(32, 5, Some((48, Some(2)))),
            row(48, 10, None),
            row(32, 2, None),
            row(32, 8, Some((48, None))),
            row(32, 16, Some((48, Some(3)))),
            row(32, 32, Some((32, Some(2)))),
            row(48, 20, Some((32, Some(0)))),
        ];
        assert_eq!(merge_followers(rows), apart);
        assert_eq!(merge_followers(apart.clone()), apart, "nothing is left to sum");
    }

    #[test]
    fn counts_end_at_the_largest_and_one_capture_is_enough() {
        let followed = row(32, u64::MAX - 1, Some((48, None)));
        let captured = Recorded { captured: true, ..row(32, 7, Some((48, None))) };
        let last = row(32, 1, Some((48, None)));
        let want = Recorded { captured: true, count: u64::MAX, ..followed.clone() };
        assert_eq!(merge_followers([followed.clone(), captured.clone(), last.clone()]), std::slice::from_ref(&want));
        assert_eq!(merge([followed.clone(), captured, last.clone()]), [Recorded { follows: None, ..want }]);
        assert!(!merge([followed, last])[0].captured, "none of them was");
    }

    #[test]
    fn how_calls_were_asked_for_keeps_them_apart_whatever_they_followed() {
        let one = row(32, 1, Some((48, Some(1))));
        let rows = [
            Recorded { via: Via::GemmEx, ..one.clone() },
            Recorded { workspace_bytes_max: Some(0), ..one.clone() },
            Recorded { library_file: "a".into(), ..one.clone() },
            Recorded { library_build: "a".into(), ..one.clone() },
            one,
        ];
        assert_eq!(merge_followers(rows.clone()), rows);
        assert_eq!(merge(rows.clone()), rows.map(|row| Recorded { follows: None, ..row }));
    }
}
