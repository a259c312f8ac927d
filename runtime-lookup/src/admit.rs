//! Whether a choice may be served: on this device with these builds (decided once, at load), and under the caller's
//! constraints (decided at each lookup, so without allocating).

use std::sync::Arc;

use tgemm_db::device::{Device, Difference};
use tgemm_db::{Choice, Constraints, Environment, Numerics, Verdict, WeightForm};

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

/// What constraints look at, gathered from a choice so that it lies beside the others of its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    workspace_bytes: u64,
    weight_form: WeightForm,
    numerics: Numerics,
    is_baseline: bool,
    is_faster: bool,
    deterministic: bool,
    graph_safe: bool,
}

/// Where a solution is to run, as seen from where it was tuned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// The problem is so many times as large; never below 1, since nothing says that less will do.
    times: f32,
    /// It is another site: only what holds in general is taken.
    pub(crate) is_other_site: bool,
}

impl Stretch {
    /// The site itself, at the M that was tuned or a smaller one.
    pub(crate) const NONE: Stretch = Stretch { times: 1.0, is_other_site: false };

    /// A site whose weights are `times` as many.
    pub(crate) fn other_site(times: f32) -> Stretch {
        Stretch { times: times.max(1.0), is_other_site: true }
    }

    /// From `tuned_m` to `m` tokens besides.
    #[inline]
    pub(crate) fn tokens(self, tuned_m: u32, m: u32) -> Stretch {
        match m > tuned_m {
            true => Stretch { times: self.times * (m as f32 / tuned_m.max(1) as f32), ..self },
            false => self,
        }
    }

    /// Workspace as it was tuned, at the size of the problem: partial sums and the like grow with M and N.
    pub(crate) fn workspace_bytes(self, tuned: u64) -> u64 {
        if self.times == 1.0 { tuned } else { (tuned as f64 * f64::from(self.times)).ceil() as u64 }
    }
}

impl Traits {
    pub(crate) fn of(choice: &Choice) -> Traits {
        let solution = &choice.solution;
        Traits {
            workspace_bytes: solution.workspace_bytes,
            weight_form: solution.weight_form,
            numerics: solution.numerics,
            is_baseline: choice.is_baseline(),
            is_faster: choice.verdict == Verdict::Faster,
            deterministic: solution.deterministic == Some(true),
            graph_safe: solution.graph_safe == Some(true),
        }
    }

    /// [`Constraints::refuse_choice`] as a yes or no: the same answer without a text, for the hit path.
    #[inline]
    pub(crate) fn allowed<'l>(
        &self,
        constraints: &Constraints,
        stretch: Stretch,
        library: impl FnOnce() -> &'l str,
    ) -> bool {
        constraints.weight_forms.contains(&self.weight_form)
            && (self.numerics <= constraints.numerics || self.is_baseline)
            && constraints.workspace_bytes_max.is_none_or(|cap| stretch.workspace_bytes(self.workspace_bytes) <= cap)
            && (!constraints.deterministic || self.deterministic)
            && (!constraints.graph_safe || self.graph_safe)
            && (!stretch.is_other_site || self.holds_elsewhere())
            && constraints.libraries.as_ref().is_none_or(|libraries| libraries.contains(library()))
    }

    /// May it answer for another site? What was not faster than the baseline gains nothing, and a packed form is of one size.
    fn holds_elsewhere(&self) -> bool {
        self.is_faster && self.weight_form == WeightForm::Plain
    }
}

/// May `choice` run as it was tuned?
pub(crate) fn allows(constraints: &Constraints, choice: &Choice) -> bool {
    Traits::of(choice).allowed(constraints, Stretch::NONE, || choice.solution.library())
}

/// Why `choice` may not run after `stretch`, in words; `None` if it may.
pub(crate) fn refuse(constraints: &Constraints, choice: &Choice, stretch: Stretch) -> Option<String> {
    let mut there = choice.clone();
    there.solution.workspace_bytes = stretch.workspace_bytes(choice.solution.workspace_bytes);
    let elsewhere = || match (choice.verdict, choice.solution.weight_form) {
        (Verdict::Faster, WeightForm::Plain) => None,
        (Verdict::Faster, form) => Some(format!("its weights are {form}, which are of one size")),
        (verdict, _) => Some(format!("its verdict is {verdict}: nothing says that it gains elsewhere")),
    };
    constraints.refuse_choice(&there).or_else(|| if stretch.is_other_site { elsewhere() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use tgemm_db::choice::Ratio;
    use tgemm_db::{Build, DType, Device, Params, Site, Solution, Vendor};

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

    fn stretches() -> impl Strategy<Value = Stretch> {
        (select(vec![1.0f32, 1.5, 2.0, 3.0]), any::<bool>())
            .prop_map(|(times, is_other_site)| Stretch { times, is_other_site })
    }

    proptest! {
        #[test]
        fn the_fast_answer_is_the_worded_one(choice in choices(), constraints in constraints(), stretch in stretches()) {
            prop_assert_eq!(allows(&constraints, &choice), constraints.refuse_choice(&choice).is_none());
            let fast = Traits::of(&choice).allowed(&constraints, stretch, || choice.solution.library());
            prop_assert_eq!(fast, refuse(&constraints, &choice, stretch).is_none());
        }
    }

    #[test]
    fn workspace_grows_with_the_problem_and_never_shrinks() {
        let bytes = |stretch: Stretch| stretch.workspace_bytes(1000);
        assert_eq!(bytes(Stretch::NONE), 1000);
        assert_eq!(bytes(Stretch::NONE.tokens(16, 4)), 1000);
        assert_eq!(bytes(Stretch::NONE.tokens(16, 40)), 2500);
        assert_eq!(bytes(Stretch::other_site(0.5)), 1000);
        assert_eq!(bytes(Stretch::other_site(2.0).tokens(0, 3)), 6000);
        assert_eq!(Stretch::other_site(f32::INFINITY).workspace_bytes(1), u64::MAX);
    }
}
