//! The device that tables are read for.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tgemm_db::{Build, Device as Words, Environment, Vendor};
use tgemm_kernels::Backend as _;
use tgemm_kernels::cpu::CpuContext;
use tgemm_kernels::gpu::attach::Attached;
use tgemm_vendor::gpu::Dialect;

use crate::errors::DeviceError;
use crate::words::Word;

/// A device and the libraries on it.
#[pyclass(frozen, eq, module = "tgemm")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) environment: Environment,
}

/// What Python says of a build: a version, or a version and a revision.
#[derive(FromPyObject)]
enum Said {
    Version(String),
    Both(String, String),
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (arch, compute_units = 0, *, vendor = None, memory_gib = None, chip_id = None, partition = None,
        builds = None))]
    fn new(
        arch: String,
        compute_units: u32,
        vendor: Option<Word<Vendor>>,
        memory_gib: Option<u32>,
        chip_id: Option<u32>,
        partition: Option<String>,
        builds: Option<BTreeMap<String, Said>>,
    ) -> Device {
        let vendor = vendor.map_or_else(|| Vendor::of_arch(&arch), |word| word.0);
        let device = Words { memory_gib, chip_id, partition, ..Words::named(vendor, arch, compute_units) };
        let build = |(library, said)| match said {
            Said::Version(version) => Build { library, version, revision: String::new() },
            Said::Both(version, revision) => Build { library, version, revision },
        };
        let builds = builds.unwrap_or_default().into_iter().map(build).collect();
        Device { environment: Environment { device, builds, driver: String::new(), vars: BTreeMap::new() } }
    }

    /// A device of this machine with its libraries: "cpu", "cuda:0", "hip:0"; None is the GPU that torch has in use, else the
    /// CPU. Raises `tgemm.DeviceError`.
    #[staticmethod]
    #[pyo3(signature = (name = None))]
    pub(crate) fn here(py: Python<'_>, name: Option<&str>) -> PyResult<Device> {
        match (name, used_by_torch(py)) {
            (Some(name), _) => named(py, name),
            (None, Some(dialect)) => py.detach(|| current(dialect)),
            (None, None) => Ok(py.detach(cpu)),
        }
    }

    #[getter]
    fn arch(&self) -> &str {
        &self.environment.device.arch
    }

    #[getter]
    fn vendor(&self) -> &'static str {
        self.environment.device.vendor.name()
    }

    #[getter]
    fn compute_units(&self) -> u32 {
        self.environment.device.compute_units
    }

    #[getter]
    fn memory_gib(&self) -> Option<u32> {
        self.environment.device.memory_gib
    }

    #[getter]
    fn chip_id(&self) -> Option<u32> {
        self.environment.device.chip_id
    }

    #[getter]
    fn partition(&self) -> Option<&str> {
        self.environment.device.partition.as_deref()
    }

    #[getter]
    fn builds(&self) -> BTreeMap<&str, (&str, &str)> {
        let builds = self.environment.builds.iter();
        builds.map(|build| (build.library.as_str(), (build.version.as_str(), build.revision.as_str()))).collect()
    }

    fn __repr__(&self) -> String {
        format!("<tgemm.Device {}>", self.environment.device)
    }
}

/// The kind of GPU that torch is at work on in this process, if it is. Asks for no import and opens nothing.
fn used_by_torch(py: Python<'_>) -> Option<Dialect> {
    let modules = py.import("sys").ok()?.getattr("modules").ok()?;
    let torch = modules.cast::<PyDict>().ok()?.get_item("torch").ok()??;
    let is_in_use: bool = torch.getattr("cuda").ok()?.call_method0("is_initialized").ok()?.extract().ok()?;
    let is_hip = torch.getattr("version").and_then(|version| version.getattr("hip")).is_ok_and(|hip| !hip.is_none());
    is_in_use.then_some(if is_hip { Dialect::Hip } else { Dialect::Cuda })
}

fn cpu() -> Device {
    Device { environment: CpuContext::open().environment().clone() }
}

/// The device that is current on this thread.
fn current(dialect: Dialect) -> PyResult<Device> {
    let attached = Attached::to_current(dialect).map_err(|error| DeviceError::new_err(error.to_string()))?;
    Ok(Device { environment: attached.environment().clone() })
}

/// `cpu`, `cuda:0`, `hip:0`.
fn named(py: Python<'_>, name: &str) -> PyResult<Device> {
    if name == "cpu" {
        return Ok(py.detach(cpu));
    }
    let (family, ordinal) = name.split_once(':').unwrap_or((name, "0"));
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == family);
    let (Some(dialect), Ok(ordinal)) = (dialect, ordinal.parse::<u32>()) else {
        return Err(DeviceError::new_err(format!("no device is called '{name}' (known: cpu, cuda:N, hip:N)")));
    };
    let opened = py.detach(|| Attached::to_device(dialect, ordinal));
    let environment = opened.map(|attached| attached.environment().clone());
    environment.map(|environment| Device { environment }).map_err(|error| DeviceError::new_err(error.to_string()))
}
