//! What a caller allows, made ready once so that a lookup allocates nothing.

use std::ffi::c_char;
use std::sync::LazyLock;

use tgemm_db::{Constraints, Numerics, WeightForm};

use crate::handle;
use crate::status::{Failure, TgemmStatus, guarded};
use crate::text::{array, text};
use crate::versioned::{self, versioned};
use crate::words::{self, TgemmWeightForm, flag};

/// What an engine allows. Every field but size may stay 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmLimits {
    /// sizeof(TgemmLimits).
    pub size: usize,
    /// The only libraries that may be answered with; NULL with a count of 0 allows all.
    pub libraries: *const *const c_char,
    /// How many there are.
    pub library_count: usize,
    /// Bits of TgemmWeightForm: the forms in which the engine holds the weights or lets them be made; 0 is Plain.
    pub weight_forms: u32,
    /// A TgemmNumerics: the least faithful arithmetic that will do. What would have run without tgemm may always run.
    pub numerics: u32,
    /// 1: only what is known to give the same bits every time.
    pub deterministic: u32,
    /// 1: only what is known to be safe to capture into a graph.
    pub graph_safe: u32,
    /// 1: workspace_bytes_max holds; 0: there is no cap.
    pub has_workspace_max: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The most scratch memory that a launch may use.
    pub workspace_bytes_max: u64,
}

versioned!(TgemmLimits, least size, [
    libraries, library_count, weight_forms, numerics, deterministic, graph_safe, has_workspace_max, reserved,
    workspace_bytes_max,
]);

/// What an engine allows, made ready; made once and used by any number of lookups, databases and threads.
pub struct TgemmConstraints {
    pub(crate) constraints: Constraints,
}

/// The weight forms of a mask.
fn forms(mask: u32) -> Result<impl Iterator<Item = WeightForm>, Failure> {
    let mask = if mask == 0 { TgemmWeightForm::Plain as u32 } else { mask };
    let all = words::WEIGHT_FORMS.iter().fold(0, |all, (bit, _)| all | *bit as u32);
    if mask & !all != 0 {
        return Err(Failure::value(format!("TgemmLimits.weight_forms is {mask:#x}; known bits are {all:#x}")));
    }
    Ok(words::WEIGHT_FORMS.into_iter().filter(move |(bit, _)| mask & *bit as u32 != 0).map(|(_, form)| form))
}

/// # Safety
///
/// The pointers in `limits` are as the header asks for.
unsafe fn read(limits: &TgemmLimits) -> Result<Constraints, Failure> {
    if limits.reserved != 0 {
        return Err(Failure::value("TgemmLimits.reserved is not 0"));
    }
    let mut libraries = None;
    // SAFETY: as promised by the caller.
    for name in unsafe { array(limits.libraries, limits.library_count, "TgemmLimits.libraries") }? {
        // SAFETY: as promised by the caller.
        let name = unsafe { text(*name, "a name in TgemmLimits.libraries") }?;
        libraries.get_or_insert_with(std::collections::BTreeSet::new).insert(name.to_owned());
    }
    let is_capped = flag("TgemmLimits.has_workspace_max", limits.has_workspace_max)?;
    Ok(Constraints {
        libraries,
        weight_forms: forms(limits.weight_forms)?.collect(),
        workspace_bytes_max: is_capped.then_some(limits.workspace_bytes_max),
        numerics: words::NUMERICS.word(limits.numerics)?.unwrap_or(Numerics::Exact),
        deterministic: flag("TgemmLimits.deterministic", limits.deterministic)?,
        graph_safe: flag("TgemmLimits.graph_safe", limits.graph_safe)?,
    })
}

/// What holds where a caller says nothing.
static DEFAULT: LazyLock<Constraints> =
    LazyLock::new(|| Constraints { weight_forms: [WeightForm::Plain].into(), ..Constraints::default() });

/// Makes the defaults, so that no lookup has to.
pub(crate) fn prepare() {
    LazyLock::force(&DEFAULT);
}

/// A caller's constraints, or the defaults for NULL.
///
/// # Safety
///
/// As for [`handle::get`].
#[inline]
pub(crate) unsafe fn given<'a>(constraints: *const TgemmConstraints) -> &'a Constraints {
    // SAFETY: as promised by the caller.
    unsafe { constraints.as_ref() }.map_or(&DEFAULT, |given| &given.constraints)
}

/// Makes constraints of limits (NULL: of their defaults). The limits and their texts are not needed afterwards.
///
/// Wherever a function takes constraints, NULL is those of the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_constraints_open(
    limits: *const TgemmLimits,
    constraints: *mut *mut TgemmConstraints,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        unsafe {
            let out = handle::out(constraints, "constraints")?;
            let limits = versioned::read_or_default(limits)?;
            out.put(TgemmConstraints { constraints: read(&limits)? });
        }
        Ok(())
    })
}

/// Frees constraints; NULL is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_constraints_close(constraints: *mut TgemmConstraints) {
    // SAFETY: the header's rules of handles.
    unsafe { handle::close(constraints) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versioned::zero;

    #[test]
    fn zero_allows_plain_weights_and_exact_sums_of_any_library() {
        // SAFETY: no pointers.
        let constraints = unsafe { read(&zero()) }.unwrap();
        assert_eq!(constraints, *DEFAULT);
        // SAFETY: NULL is none.
        assert_eq!(constraints, *unsafe { given(std::ptr::null()) });
        assert_eq!(constraints, Constraints { weight_forms: [WeightForm::Plain].into(), ..Constraints::default() });
    }

    #[test]
    fn every_limit_is_read() {
        let names = [c"b".as_ptr(), c"a".as_ptr()];
        let limits = TgemmLimits {
            size: size_of::<TgemmLimits>(),
            libraries: names.as_ptr(),
            library_count: 2,
            weight_forms: 5,
            numerics: 2,
            deterministic: 1,
            graph_safe: 1,
            has_workspace_max: 1,
            reserved: 0,
            workspace_bytes_max: 0,
        };
        let want = Constraints {
            libraries: Some(["a".to_owned(), "b".to_owned()].into()),
            weight_forms: [WeightForm::Plain, WeightForm::Prepacked].into(),
            workspace_bytes_max: Some(0),
            numerics: Numerics::Partial16,
            deterministic: true,
            graph_safe: true,
        };
        // SAFETY: the names are there.
        assert_eq!(unsafe { read(&limits) }, Ok(want));
        for bad in [
            TgemmLimits { weight_forms: 8, ..limits },
            TgemmLimits { numerics: 3, ..limits },
            TgemmLimits { graph_safe: 2, ..limits },
            TgemmLimits { reserved: 1, ..limits },
        ] {
            // SAFETY: as above.
            assert_eq!(unsafe { read(&bad) }.unwrap_err().status, TgemmStatus::Value);
        }
    }
}
