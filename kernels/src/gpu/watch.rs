//! What else goes on with a device: its clock, heat and power, and who else computes on it.

use std::fs;
use std::path::PathBuf;

use tgemm_vendor::gpu::nvml::{Nvml, State};
use tgemm_vendor::gpu::{Dialect, Runtime};

/// A clock that changed by more than this share while a block ran was not steady: no two of its figures compare.
///
/// Under matrix work the power limit moves clocks all the time, for every arm alike; so only a clock that is lower after
/// the block than before it, without the power limit as the reason, counts.
const CLOCK_DROP_MAX: f64 = 0.1;

/// Looks at a device; where nothing can be seen, nothing is said.
pub(super) struct Watch {
    nvml: Option<Nvml>,
    /// AMD's driver: a folder of one-line files.
    sysfs: Option<PathBuf>,
}

impl Watch {
    pub(super) fn new(runtime: &Runtime, ordinal: u32) -> Watch {
        let bus_id = runtime.bus_id(ordinal).unwrap_or_default();
        match runtime.dialect() {
            Dialect::Cuda => Watch { nvml: Nvml::open(&bus_id).ok(), sysfs: None },
            Dialect::Hip => {
                let folder = PathBuf::from("/sys/bus/pci/devices").join(&bus_id);
                Watch { nvml: None, sysfs: folder.join("pp_dpm_sclk").exists().then_some(folder) }
            }
        }
    }

    /// The kernel driver's version, if it is known here.
    pub(super) fn driver_version(&self) -> Option<&str> {
        self.nvml.as_ref().map(Nvml::driver_version).filter(|version| !version.is_empty())
    }

    pub(super) fn state(&self) -> State {
        if let Some(nvml) = &self.nvml {
            return nvml.state();
        }
        let clocks = self.sysfs.as_ref().and_then(|folder| fs::read_to_string(folder.join("pp_dpm_sclk")).ok());
        State { clock_mhz: clocks.as_deref().and_then(current_clock_mhz).unwrap_or(0), ..State::default() }
    }
}

/// The clock of the line that ends with an asterisk: `1: 2100Mhz *`.
fn current_clock_mhz(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.trim_end().ends_with('*'))?;
    let value = line.split(':').nth(1)?.trim().trim_end_matches('*').trim();
    value.to_ascii_lowercase().strip_suffix("mhz")?.trim().parse().ok()
}

/// Why a block between these two states is not to be used; `None` if nothing speaks against it.
pub(super) fn disturbance(before: &State, after: &State) -> Option<String> {
    if after.is_in_trouble {
        return Some("the device is too hot or short of power, and lowers its clock".into());
    }
    if let (Some(had), Some(has)) = (before.processes, after.processes)
        && has > had
    {
        return Some(format!("{} other processes came to compute on the device", has - had));
    }
    let is_known = before.clock_mhz > 0 && after.clock_mhz > 0;
    let dropped = f64::from(after.clock_mhz) < f64::from(before.clock_mhz) * (1.0 - CLOCK_DROP_MAX);
    let is_capped = before.is_power_capped || after.is_power_capped;
    (is_known && dropped && !is_capped)
        .then(|| format!("the clock fell from {} to {} MHz", before.clock_mhz, after.clock_mhz))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marked_clock_is_the_current_one() {
        assert_eq!(current_clock_mhz("0: 132Mhz\n1: 2100Mhz *\n2: 2500Mhz\n"), Some(2100));
        assert_eq!(current_clock_mhz("S: 19Mhz *"), Some(19));
        assert_eq!(current_clock_mhz("0: 132Mhz\n"), None);
        assert_eq!(current_clock_mhz(""), None);
    }

    #[test]
    fn only_what_spoils_figures_is_a_disturbance() {
        let calm = State { clock_mhz: 1980, processes: Some(1), ..State::default() };
        assert_eq!(disturbance(&calm, &calm), None);
        let slower = State { clock_mhz: 1500, ..calm };
        assert!(disturbance(&calm, &slower).unwrap().contains("1980 to 1500"));
        assert_eq!(disturbance(&calm, &State { is_power_capped: true, ..slower }), None, "the limit is there for all");
        assert_eq!(disturbance(&slower, &calm), None, "a clock that rises was low before the work began");
        assert!(disturbance(&calm, &State { is_in_trouble: true, ..calm }).is_some());
        assert!(disturbance(&calm, &State { processes: Some(2), ..calm }).unwrap().contains("1 other"));
        assert_eq!(disturbance(&State::default(), &State::default()), None);
    }
}
