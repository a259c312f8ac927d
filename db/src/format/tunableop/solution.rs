//! TunableOp's names of solutions.

use super::validators::Validators;
use crate::choice::Choice;
use crate::device::Build;
use crate::format::limits::excerpt;
use crate::format::sheet::Reason;
use crate::solution::{Params, Solution, WeightForm};

/// What PyTorch does without TunableOp; it stands beside tuned rows where nothing beat it.
pub(super) const DEFAULT: &str = "Default";

const ROCBLAS: &str = "Gemm_Rocblas_";
const HIPBLASLT: &str = "Gemm_Hipblaslt_";
const CUBLASLT: &str = "Gemm_Cublaslt_";

/// cuBLASLt's attributes as TunableOp and as we call them, in TunableOp's order; the first is the index.
const ATTRIBUTES: [(&str, &str); 9] = [
    ("id", ""),
    ("tile", "tile"),
    ("stages", "stages"),
    ("splitk", "split_k"),
    ("red", "reduction"),
    ("swizzle", "swizzle"),
    ("custom", "custom"),
    ("inner", "inner"),
    ("cluster", "cluster"),
];

/// The solution called `name` in a file with these validators.
///
/// Nothing is said of workspace and arithmetic: 0 bytes and exact sums are taken, since PyTorch ran it in place of its
/// own.
///
/// # Errors
/// A name of no known form.
pub(super) fn read(name: &str, validators: &Validators) -> Result<Solution, Reason> {
    let of = |library: &str, index: i64, params: Params| Solution {
        params,
        ..Solution::bare(validators.build(library), index, "")
    };
    let unknown = || format!("'{}' is no solution of TunableOp's", excerpt(name));
    if name == DEFAULT {
        return Ok(Solution { name: DEFAULT.into(), ..of("torch", 0, Params::new()) });
    }
    if let Some(index) = name.strip_prefix(ROCBLAS) {
        return Ok(of("rocblas", index.parse().map_err(|_| unknown())?, Params::new()));
    }
    if let Some(rest) = name.strip_prefix(HIPBLASLT) {
        // PyTorch 2.4 to 2.6 repeat the transpositions in front of the index.
        let index = ["NN_", "NT_", "TN_", "TT_"].iter().find_map(|ab| rest.strip_prefix(ab)).unwrap_or(rest);
        let number: i64 = index.parse().map_err(|_| unknown())?;
        if index.len() == rest.len() && is_position(validators) {
            return Ok(of("hipblaslt", 0, Params::new().with("position", number)));
        }
        return Ok(of("hipblaslt", number, Params::new()));
    }
    let words = name.strip_prefix(CUBLASLT).ok_or_else(unknown)?;
    let (index, params) = attributes(words).ok_or_else(unknown)?;
    Ok(of("cublaslt", index, params))
}

/// PyTorch before 2.4 numbered hipBLASLt's algorithms by their position in the list that its build got: no index.
fn is_position(validators: &Validators) -> bool {
    let version = validators.get("PT_VERSION").and_then(|text| {
        let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
        Some((parts.next()??, parts.next()??))
    });
    version.is_some_and(|version| version < (2, 4))
}

/// `id_66_tile_20_…`: index and parameters. The last two came later.
fn attributes(words: &str) -> Option<(i64, Params)> {
    let mut parts = words.split('_');
    let (mut index, mut params) = (None, Params::new());
    for (theirs, ours) in ATTRIBUTES {
        match parts.next() {
            None if index.is_some() && theirs == "inner" => break,
            word if word == Some(theirs) => {}
            _ => return None,
        }
        let value: i64 = parts.next()?.parse().ok()?;
        if ours.is_empty() {
            index = Some(value);
        } else {
            params = params.with(ours, value);
        }
    }
    parts.next().is_none().then_some((index?, params))
}

/// TunableOp's name of a choice's solution, for a PyTorch with these validators.
///
/// # Errors
/// A library that TunableOp does not ask, or a build that is not that PyTorch's.
pub(super) fn name_of(choice: &Choice, validators: &Validators) -> Result<String, Reason> {
    let solution = &choice.solution;
    if choice.is_baseline() || (solution.library(), &*solution.name) == ("torch", DEFAULT) {
        return Ok(DEFAULT.into());
    }
    let prefix = match solution.library() {
        "rocblas" => ROCBLAS,
        "hipblaslt" => HIPBLASLT,
        other => return Err(format!("TunableOp cannot run library {other}")),
    };
    if !solution.params.is_empty() {
        return Err(format!("TunableOp cannot say the parameters {}", solution.params));
    }
    if solution.weight_form != WeightForm::Plain {
        return Err(format!("TunableOp holds weights plain, the solution takes them {}", solution.weight_form));
    }
    let theirs = validators.build(solution.library());
    refuse_build(&solution.build, &theirs).map_or(Ok(()), Err)?;
    Ok(format!("{prefix}{}", solution.index))
}

/// Why an index of `ours` means nothing to `theirs`.
fn refuse_build(ours: &Build, theirs: &Build) -> Option<Reason> {
    if !theirs.is_known() {
        return Some(format!("the PyTorch of the validators was built or run without {}", theirs.library));
    }
    if !ours.is_known() {
        return Some(format!("its index is of an unknown build of {}", ours.library));
    }
    ours.difference(theirs).map(|difference| difference.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validators(text: &str) -> Validators {
        Validators::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_form_of_every_age() {
        let new = validators("Validator,PT_VERSION,2.9.1\nValidator,HIPBLASLT_VERSION,100201-ab\n");
        let told = |name: &str| read(name, &new).map(|s| (s.build.to_string(), s.index, s.params.to_string()));
        let want = |build: &str, index, params: &str| Ok((build.to_owned(), index, params.to_owned()));
        assert_eq!(told("Default"), want("torch 2.9.1", 0, ""));
        assert_eq!(told("Gemm_Rocblas_-621295520"), want("rocblas", -621_295_520, ""));
        assert_eq!(told("Gemm_Hipblaslt_477479"), want("hipblaslt 1.2.1 (ab)", 477_479, ""));
        assert_eq!(told("Gemm_Hipblaslt_TN_12683"), want("hipblaslt 1.2.1 (ab)", 12_683, ""));
        let short = "Gemm_Cublaslt_id_66_tile_20_stages_8_splitk_-1_red_0_swizzle_1_custom_3";
        let params = "custom=3;reduction=0;split_k=-1;stages=8;swizzle=1;tile=20";
        assert_eq!(told(short), want("cublaslt", 66, params));
        let long = told(&format!("{short}_inner_2_cluster_5")).unwrap();
        assert_eq!(long.2, "cluster=5;custom=3;inner=2;reduction=0;split_k=-1;stages=8;swizzle=1;tile=20");
        for name in
            ["default", "Gemm_Hipblaslt_", "Gemm_Hipblaslt_XX_1", "Gemm_Rocblas_1.5", "Gemm_CK_7", "", &short[..40]]
        {
            assert!(told(name).is_err(), "{name}");
        }
    }

    #[test]
    fn before_2_4_a_bare_number_is_a_position() {
        let old = validators("Validator,PT_VERSION,2.3.0\n");
        let solution = read("Gemm_Hipblaslt_12", &old).unwrap();
        assert_eq!((solution.index, solution.params.to_string()), (0, "position=12".to_owned()));
    }
}
