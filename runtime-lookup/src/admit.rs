//! Whether a choice may be served: on this device with these builds (decided once, at load), and under the caller's
//! constraints (decided at each lookup, so without allocating).

use std::sync::Arc;

use tgemm_db::device::{Device, Difference};
use tgemm_db::{Choice, Constraints, Environment};

/// Why a choice cannot be served in this environment, whatever the constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It was tuned on another kind of device.
    Device(Arc<Difference>),
    /// Its library is another build here, or none.
    Build(Difference),
}

/// Devices whose answer is remembered: rows of few devices take turns in a file.
const RECENT: usize = 4;

/// A device, and how it differs from this one.
type Compared = (Arc<Device>, Option<Arc<Difference>>);

/// How devices differ from this one. Rows of a file share their devices, so that few have to be compared; most rows of
/// AITER's tables are of other devices than this.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    recent: [Option<Compared>; RECENT],
    /// The place that is taken next.
    next: usize,
}

impl Devices {
    fn difference(&mut self, device: &Arc<Device>, here: &Device) -> Option<Arc<Difference>> {
        if let Some((_, known)) = self.recent.iter().flatten().find(|(known, _)| Arc::ptr_eq(known, device)) {
            return known.clone();
        }
        let difference = device.difference(here).map(Arc::new);
        self.recent[self.next] = Some((Arc::clone(device), difference.clone()));
        self.next = (self.next + 1) % RECENT;
        difference
    }
}

/// May `choice` be served `here`? A winner whose build is not known is served: imported files do not say.
pub(crate) fn admit(choice: &Choice, here: &Environment, devices: &mut Devices) -> Result<(), Refusal> {
    if let Some(difference) = devices.difference(&choice.device, &here.device) {
        return Err(Refusal::Device(difference));
    }
    let build = &choice.solution.build;
    if !build.is_known() {
        return Ok(());
    }
    let difference = match here.build(&build.library) {
        Some(now) => build.difference(now),
        None => Some(Difference { field: build.library.clone(), tuned: build.to_string(), here: "absent".into() }),
    };
    difference.map_or(Ok(()), |difference| Err(Refusal::Build(difference)))
}

/// [`Constraints::refuse_choice`] as a yes or no: the same answer without a text, for the hit path.
pub(crate) fn allows(constraints: &Constraints, choice: &Choice) -> bool {
    let solution = &choice.solution;
    constraints.weight_forms.contains(&solution.weight_form)
        && (solution.numerics <= constraints.numerics || choice.is_baseline())
        && constraints.workspace_bytes_max.is_none_or(|cap| solution.workspace_bytes <= cap)
        && (!constraints.deterministic || solution.deterministic == Some(true))
        && (!constraints.graph_safe || solution.graph_safe == Some(true))
        && constraints.libraries.as_ref().is_none_or(|libraries| libraries.contains(solution.library()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use tgemm_db::choice::Ratio;
    use tgemm_db::{Build, DType, Device, Numerics, Params, Site, Solution, Vendor, Verdict, WeightForm};

    fn solutions() -> impl Strategy<Value = Solution> {
        let known = || select(vec![None, Some(false), Some(true)]);
        (select(vec!["a", "b"]), select(WeightForm::ALL), 0u64..4, select(Numerics::ALL), known(), known()).prop_map(
            |(library, weight_form, workspace_bytes, numerics, deterministic, graph_safe)| Solution {
                build: Build::unknown(library).into(),
                index: 0,
                name: "".into(),
                params: Params::new(),
                weight_form,
                workspace_bytes,
                numerics,
                deterministic,
                graph_safe,
            },
        )
    }

    fn choices() -> impl Strategy<Value = Choice> {
        let device = Device {
            vendor: Vendor::Amd,
            arch: String::new(),
            compute_units: 1,
            memory_gib: None,
            chip_id: None,
            partition: None,
            last_level_cache_bytes: 0,
        };
        (solutions(), select(Verdict::ALL)).prop_map(move |(solution, verdict)| Choice {
            problem: Site::linear(1, 1, DType::F32).at(1).into(),
            device: device.clone().into(),
            solution,
            time_us: 1.0,
            ratio: Ratio::ONE,
            verdict,
            baselines: Vec::new(),
            error_over_bound: 0.0,
            err_ratio: 0.0,
            pack_us: None,
            count: 0,
            tuned_at: String::new(),
            origin: None,
        })
    }

    fn constraints() -> impl Strategy<Value = Constraints> {
        let libraries = proptest::option::of(subsequence(vec!["a".to_owned(), "b".to_owned()], 0..=2));
        let forms = subsequence(WeightForm::ALL.to_vec(), 0..=WeightForm::ALL.len());
        let caps = proptest::option::of(0u64..4);
        (libraries, forms, caps, select(Numerics::ALL), any::<[bool; 2]>()).prop_map(
            |(libraries, forms, workspace_bytes_max, numerics, [deterministic, graph_safe])| Constraints {
                libraries: libraries.map(|names| names.into_iter().collect()),
                weight_forms: forms.into_iter().collect(),
                workspace_bytes_max,
                numerics,
                deterministic,
                graph_safe,
            },
        )
    }

    proptest! {
        #[test]
        fn the_fast_answer_is_the_worded_one(choice in choices(), constraints in constraints()) {
            prop_assert_eq!(allows(&constraints, &choice), constraints.refuse_choice(&choice).is_none());
        }
    }
}
