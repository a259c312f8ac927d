//! Devices, builds and environments: what a measurement is true of.

use std::collections::BTreeMap;
use std::fmt;

use crate::dtype::word_enum;

word_enum! {
    /// Who makes the device.
    pub enum Vendor("vendor") {
        /// AMD GPU, through HIP.
        Amd = "amd",
        /// NVIDIA GPU, through CUDA.
        Nvidia = "nvidia",
        /// The host's processors, whoever made them.
        Cpu = "cpu",
    }
}

/// A device as a measurement knows it; never a marketing name.
///
/// `None` and 0 mean that the source did not say (AITER's files know arch and compute units only); an unknown field
/// matches any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Device {
    /// Who makes it.
    pub vendor: Vendor,
    /// Instruction set: `gfx942`, `sm_90`, `x86_64-v4`.
    pub arch: String,
    /// Compute units, multiprocessors, or CPU cores.
    pub compute_units: u32,
    /// Memory in GiB, rounded: MI300X and MI325X differ in nothing else.
    pub memory_gib: Option<u32>,
    /// PCI device id of a GPU, CPUID leaf 1 signature of an x86 CPU.
    pub chip_id: Option<u32>,
    /// Partition mode (`SPX/NPS1`), where a device has them.
    pub partition: Option<String>,
    /// Size of the last cache before memory in bytes, 0 if unknown. Not identity: it sizes the rotation.
    pub last_level_cache_bytes: u64,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.arch, self.compute_units)?;
        if let Some(gib) = self.memory_gib {
            write!(f, "/{gib}GiB")?;
        }
        if let Some(chip) = self.chip_id {
            write!(f, "/{chip:x}")?;
        }
        if let Some(partition) = &self.partition {
            write!(f, "/{partition}")?;
        }
        Ok(())
    }
}

/// The first field in which two things differ, for messages such as "tuned on gfx942/80, this is gfx942/304".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field's name.
    pub field: String,
    /// Its value where the row was tuned.
    pub tuned: String,
    /// Its value here.
    pub here: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {} when tuned, is {} here", self.field, self.tuned, self.here)
    }
}

fn differ(field: &str, tuned: &dyn fmt::Display, here: &dyn fmt::Display) -> Option<Difference> {
    Some(Difference { field: field.into(), tuned: tuned.to_string(), here: here.to_string() })
}

impl Vendor {
    /// Whose architecture this is: `gfx942` is AMD's, `sm_90` NVIDIA's, everything else a CPU's.
    pub fn of_arch(arch: &str) -> Vendor {
        match arch {
            arch if arch.starts_with("gfx") => Vendor::Amd,
            arch if arch.starts_with("sm_") => Vendor::Nvidia,
            _ => Vendor::Cpu,
        }
    }
}

impl Device {
    /// A device of which only this is known: what files of other tools say.
    pub fn named(vendor: Vendor, arch: impl Into<String>, compute_units: u32) -> Device {
        Device {
            vendor,
            arch: arch.into(),
            compute_units,
            memory_gib: None,
            chip_id: None,
            partition: None,
            last_level_cache_bytes: 0,
        }
    }

    /// Is `here` the kind of device that this row was tuned on? The first identity field that differs, if not.
    pub fn difference(&self, here: &Device) -> Option<Difference> {
        fn known<T: PartialEq + fmt::Display>(field: &str, tuned: &Option<T>, here: &Option<T>) -> Option<Difference> {
            match (tuned, here) {
                (Some(a), Some(b)) if a != b => differ(field, a, b),
                _ => None,
            }
        }
        if self.vendor != here.vendor {
            return differ("vendor", &self.vendor, &here.vendor);
        }
        if self.arch != here.arch {
            return differ("arch", &self.arch, &here.arch);
        }
        let are_known = self.compute_units != 0 && here.compute_units != 0;
        if are_known && self.compute_units != here.compute_units {
            return differ("compute units", &self.compute_units, &here.compute_units);
        }
        known("chip id", &self.chip_id, &here.chip_id)
            .or_else(|| known("memory GiB", &self.memory_gib, &here.memory_gib))
            .or_else(|| known("partition", &self.partition, &here.partition))
    }
}

/// The exact version of a library: an index or name means nothing without it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Build {
    /// Who computes: `hipblaslt`, `cublaslt`, `onednn`, `gemm`, `skinny`, … (AITER's `libtype`).
    pub library: String,
    /// Version as the library reports it; empty if unknown.
    pub version: String,
    /// Source revision or content hash; empty if unknown.
    pub revision: String,
}

impl Build {
    /// A build of `library` of which nothing more is known: rows imported from files without provenance.
    pub fn unknown(library: impl Into<String>) -> Build {
        Build { library: library.into(), version: String::new(), revision: String::new() }
    }

    /// Does this say which build it is?
    pub fn is_known(&self) -> bool {
        !(self.version.is_empty() && self.revision.is_empty())
    }

    /// How `here` differs from this build; an unknown build differs from none.
    pub fn difference(&self, here: &Build) -> Option<Difference> {
        if self.library != here.library {
            return differ("library", &self.library, &here.library);
        }
        let field = |part: &str, tuned: &String, now: &String| match tuned.is_empty() || tuned == now {
            true => None,
            false => differ(&format!("{} {part}", self.library), tuned, now),
        };
        field("version", &self.version, &here.version).or_else(|| field("revision", &self.revision, &here.revision))
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.library)?;
        if !self.version.is_empty() {
            write!(f, " {}", self.version)?;
        }
        if !self.revision.is_empty() {
            write!(f, " ({})", self.revision)?;
        }
        Ok(())
    }
}

/// Where measurements were made: stored once, rows refer to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Environment {
    /// The device.
    pub device: Device,
    /// Every library that could be opened, sorted by name.
    pub builds: Vec<Build>,
    /// Kernel driver or operating-system version.
    pub driver: String,
    /// Environment variables that change which kernel runs, as set.
    pub vars: BTreeMap<String, String>,
}

impl Environment {
    /// The build of `library` here, if it could be opened.
    pub fn build(&self, library: &str) -> Option<&Build> {
        self.builds.iter().find(|build| build.library == library)
    }

    /// The first field in which `here` differs from this environment.
    pub fn difference(&self, here: &Environment) -> Option<Difference> {
        if let Some(difference) = self.device.difference(&here.device) {
            return Some(difference);
        }
        for build in &self.builds {
            match here.build(&build.library) {
                None => return differ(&build.library, build, &"absent"),
                Some(now) => {
                    if let Some(difference) = build.difference(now) {
                        return Some(difference);
                    }
                }
            }
        }
        if let Some(new) = here.builds.iter().find(|build| self.build(&build.library).is_none()) {
            return differ(&new.library, &"absent", new);
        }
        if self.driver != here.driver {
            return differ("driver", &self.driver, &here.driver);
        }
        let names = self.vars.keys().chain(here.vars.keys());
        for name in names {
            let (tuned, now) = (self.vars.get(name), here.vars.get(name));
            if tuned != now {
                let text = |value: Option<&String>| value.map_or("unset".to_owned(), |v| format!("'{v}'"));
                return differ(name, &text(tuned), &text(now));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mi300x() -> Device {
        Device {
            vendor: Vendor::Amd,
            arch: "gfx942".into(),
            compute_units: 304,
            memory_gib: Some(192),
            chip_id: Some(0x74a1),
            partition: None,
            last_level_cache_bytes: 256 << 20,
        }
    }

    #[test]
    fn two_cards_of_one_arch_differ_by_memory_and_unknown_matches_any() {
        let mi325x = Device { memory_gib: Some(256), ..mi300x() };
        let difference = mi300x().difference(&mi325x).unwrap();
        assert_eq!(difference.to_string(), "memory GiB was 192 when tuned, is 256 here");
        let aiter = Device { memory_gib: None, chip_id: None, last_level_cache_bytes: 0, ..mi300x() };
        assert_eq!(aiter.difference(&mi325x), None);
        let half = Device { compute_units: 80, ..mi300x() };
        assert_eq!(half.difference(&mi300x()).unwrap().to_string(), "compute units was 80 when tuned, is 304 here");
        let tunableop = Device { compute_units: 0, ..aiter };
        assert_eq!((tunableop.difference(&half), half.difference(&tunableop)), (None, None));
    }

    #[test]
    fn environments_name_the_field_that_differs() {
        let build = Build { library: "hipblaslt".into(), version: "1.0".into(), revision: "abc".into() };
        let env =
            Environment { device: mi300x(), builds: vec![build.clone()], driver: "6.8".into(), vars: BTreeMap::new() };
        assert_eq!(env.difference(&env.clone()), None);
        let other = Environment { builds: vec![Build { revision: "def".into(), ..build }], ..env.clone() };
        assert_eq!(env.difference(&other).unwrap().field, "hipblaslt revision");
        let none = Environment { builds: vec![], ..env.clone() };
        assert_eq!(env.difference(&none).unwrap().here, "absent");
        let mut vars = env.clone();
        vars.vars.insert("ROCBLAS_LAYER".into(), "1".into());
        assert_eq!(env.difference(&vars).unwrap().to_string(), "ROCBLAS_LAYER was unset when tuned, is '1' here");
    }
}
