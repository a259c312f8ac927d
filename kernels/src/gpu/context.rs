//! A GPU opened in this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tgemm_db::{Build, Device, Environment};
use tgemm_vendor::gpu::find::Part;
use tgemm_vendor::gpu::rtc::Rtc;
use tgemm_vendor::gpu::{Current, Dialect, Handle, Installation, Runtime, blaslt::BlasLt};

use super::between::Spacer;
use super::graphs::{self, Graphs, On};
use super::survey::Surveyor;
use super::watch::{self, Watch};
use super::{OpenError, cublas, device, failed, lt, memory, rocblas};
use crate::{Arm, Backend, Buffer, Context, Error, Library, Queue, Stream, Survey, Surveyed};

/// Environment variables that change which kernel runs.
const HIP_VARS: &[&str] = &[
    "HIPBLASLT_OVERRIDE_COMPUTE_TYPE_XF32",
    "HIPBLASLT_TENSILE_LIBPATH",
    "HIPBLASLT_TUNING_OVERRIDE_FILE",
    "HIPBLASLT_USE_ROCROLLER",
    "ROCBLAS_DEFAULT_ATOMICS_MODE",
    "ROCBLAS_STREAM_ORDER_ALLOC",
    "ROCBLAS_TENSILE_GEMM_OVERRIDE_PATH",
    "ROCBLAS_TENSILE_LIBPATH",
    "ROCBLAS_USE_HIPBLASLT",
    "TENSILE_SOLUTION_SELECTION_METHOD",
    "TENSILE_STREAMK_DYNAMIC_GRID",
    "TENSILE_STREAMK_FIXED_GRID",
    "TENSILE_STREAMK_MAX_CUS",
];
/// See [`HIP_VARS`].
const CUDA_VARS: &[&str] = &[
    "CUBLASLT_DISABLE_CPU_INSTRUCTIONS_MASK",
    "CUBLASLT_HEURISTICS_CACHE_CAPACITY",
    "CUBLAS_AUTOTUNING_CACHE_CAPACITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
];

/// Memory that is left to the libraries and to whoever else is on the device.
const MEMORY_RESERVE_BYTES: u64 = 512 << 20;

/// A GPU, opened.
pub struct GpuContext {
    environment: Environment,
    libraries: Vec<Box<dyn Library>>,
    absent: Vec<(String, String)>,
    runtime: Arc<Runtime>,
    current: Current,
    stream: Handle,
    events: Vec<Handle>,
    graphs: Graphs,
    surveyor: Option<Mutex<Surveyor>>,
    spacer: Option<Spacer>,
    watch: Watch,
}

// SAFETY: stream and events are handles that any thread may use; every method makes the device current first.
unsafe impl Send for GpuContext {}
// SAFETY: what works on a shared reference calls the runtime, whose calls on one stream may come from several threads; the
// survey's one report is behind a lock; events, graphs, spacer and the watch are used by `&mut self` alone.
unsafe impl Sync for GpuContext {}

impl GpuContext {
    /// Opens device `ordinal` of `dialect`. A library that cannot be opened is no error: see [`GpuContext::absent`].
    pub fn open(dialect: Dialect, ordinal: u32) -> Result<GpuContext, OpenError> {
        let mut installation = Installation::default();
        let runtime = Arc::new(super::runtime(dialect, &mut installation)?);
        let why = |why: String| OpenError::Failed { dialect, ordinal, why };
        let count = runtime.device_count().map_err(|e| why(e.to_string()))?;
        if ordinal >= count {
            return Err(OpenError::NoDevice { dialect, ordinal, count });
        }
        let current = runtime.make_current(ordinal).map_err(|e| why(e.to_string()))?;
        let described = device::describe(&runtime, ordinal).map_err(|e| why(e.to_string()))?;
        let stream = runtime.stream().map_err(|e| why(e.to_string()))?;
        let (libraries, mut absent) = open_libraries(dialect, &mut installation);
        let (surveyor, spacer) = open_kernels(&runtime, ordinal, &described, &mut installation, &mut absent).unzip();
        let watch = Watch::new(&runtime, ordinal);
        let mut environment = environment(&runtime, described, &libraries);
        if let Some(version) = watch.driver_version() {
            environment.driver = format!("{version} ({})", environment.driver);
        }
        Ok(GpuContext {
            environment,
            libraries,
            absent,
            runtime,
            current,
            stream,
            events: Vec::new(),
            graphs: Graphs::default(),
            surveyor: surveyor.map(Mutex::new),
            spacer,
            watch,
        })
    }

    /// The libraries that could not be opened, by name, each with the reason.
    pub fn absent(&self) -> &[(String, String)] {
        &self.absent
    }

    fn resume(&self) -> Result<(), Error> {
        self.runtime.resume(&self.current).map_err(failed)
    }

    fn ensure_events(&mut self, count: usize) -> Result<(), Error> {
        while self.events.len() < count {
            self.events.push(self.runtime.event().map_err(failed)?);
        }
        Ok(())
    }
}

type Opened = (Vec<Box<dyn Library>>, Vec<(String, String)>);

/// `device` with `libraries` on it, as far as the runtime knows.
pub(super) fn environment(runtime: &Runtime, device: Device, libraries: &[Box<dyn Library>]) -> Environment {
    let dialect = runtime.dialect();
    let mut builds: Vec<Build> = libraries.iter().map(|library| library.build().clone()).collect();
    builds.sort();
    let driver = format!("{} {}", dialect.pick("HIP", "CUDA"), runtime.driver_version());
    Environment { device, builds, driver, vars: vars(dialect) }
}

/// Opens every library that can be on the current device; those that cannot, each with the reason.
pub(super) fn open_libraries(dialect: Dialect, installation: &mut Installation) -> Opened {
    let (mut libraries, mut absent): Opened = (Vec::new(), Vec::new());
    let mut note = |part: Part, why: String| absent.push((part.name(dialect).to_owned(), why));
    let blaslt = match BlasLt::open(dialect, installation) {
        Ok(opened) => Some(Arc::new(opened)),
        Err(why) => {
            note(Part::BlasLt, why.to_string());
            None
        }
    };
    let lt = blaslt.map(|opened| Arc::new(lt::Lt::new(opened)));
    let older = match dialect {
        Dialect::Cuda => cublas::open(installation),
        Dialect::Hip => rocblas::open(installation, lt.clone()),
    };
    match older {
        Ok(library) => libraries.push(library),
        Err(why) => note(Part::Blas, why.to_string()),
    }
    if let Some(lt) = lt {
        libraries.insert(0, Box::new(lt));
    }
    (libraries, absent)
}

/// The kernels of our own. Where they cannot be compiled, outputs are read whole and launches follow one another.
fn open_kernels(
    runtime: &Runtime,
    ordinal: u32,
    device: &Device,
    installation: &mut Installation,
    absent: &mut Vec<(String, String)>,
) -> Option<(Surveyor, Spacer)> {
    let dialect = runtime.dialect();
    let mut note = |why: String| absent.push((Part::Rtc.name(dialect).to_owned(), why));
    let made = Rtc::open(dialect, installation).map_err(|e| e.to_string()).and_then(|rtc| {
        let arch = device::compiler_arch(runtime, ordinal).map_err(|e| e.to_string())?;
        let surveyor = Surveyor::new(runtime, &rtc, &arch).map_err(|e| e.to_string())?;
        let spacer = Spacer::new(runtime, rtc, arch, device.compute_units).map_err(|e| e.to_string())?;
        Ok((surveyor, spacer))
    });
    made.map_err(&mut note).ok()
}

/// The names of the environment variables that change which kernel runs.
pub fn kernel_vars(dialect: Dialect) -> &'static [&'static str] {
    dialect.pick(HIP_VARS, CUDA_VARS)
}

fn vars(dialect: Dialect) -> BTreeMap<String, String> {
    let set = |name: &&str| Some(((*name).to_owned(), std::env::var_os(name)?.to_string_lossy().into_owned()));
    kernel_vars(dialect).iter().filter_map(set).collect()
}

impl Backend for GpuContext {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn libraries(&self) -> &[Box<dyn Library>] {
        &self.libraries
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        self.resume()?;
        memory::alloc(&self.runtime, self.current, bytes)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.resume()?;
        // SAFETY: takes nothing.
        unsafe { self.runtime.table().synchronize() }.map_err(failed)
    }

    fn is_capturing(&self, stream: Stream) -> bool {
        memory::is_capturing(&self.runtime, stream)
    }

    fn queue(&self, stream: Stream) -> Queue {
        memory::queue(stream)
    }
}

impl Context for GpuContext {
    fn write(&self, buffer: &mut Buffer, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        buffer.check_range("write", offset, bytes.len())?;
        self.resume()?;
        let to = buffer.as_mut_ptr().wrapping_byte_add(offset);
        // SAFETY: the range is within the buffer, which is ours alone while it is borrowed; the wait keeps `bytes` alive.
        unsafe {
            self.runtime.copy_in(to, bytes.as_ptr().cast(), bytes.len(), self.stream).map_err(failed)?;
            self.runtime.table().stream_synchronize(self.stream).map_err(failed)
        }
    }

    fn read(&self, buffer: &Buffer, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        buffer.check_range("read", offset, bytes.len())?;
        self.synchronize()?;
        let from = buffer.as_ptr().wrapping_byte_add(offset);
        // SAFETY: as in `write`, in the other direction.
        unsafe {
            self.runtime.copy_out(bytes.as_mut_ptr().cast(), from, bytes.len(), self.stream).map_err(failed)?;
            self.runtime.table().stream_synchronize(self.stream).map_err(failed)
        }
    }

    fn available_bytes(&self) -> u64 {
        let free = self.resume().ok().and_then(|()| self.runtime.memory_info().ok()).map_or(0, |(free, _)| free);
        free.saturating_sub(MEMORY_RESERVE_BYTES)
    }

    fn fill(&self, buffer: &mut Buffer, offset: usize, len: usize, byte: u8) -> Result<(), Error> {
        buffer.check_range("fill", offset, len)?;
        self.resume()?;
        let at = buffer.as_mut_ptr().wrapping_byte_add(offset);
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the range is within the buffer, which is ours alone while it is borrowed.
        unsafe {
            self.runtime.table().memset(at, byte.into(), len, self.stream).map_err(failed)?;
            self.runtime.table().stream_synchronize(self.stream).map_err(failed)
        }
    }

    fn copy(&self, from: &Buffer, to: &mut Buffer) -> Result<(), Error> {
        to.check_range("copy", 0, from.bytes())?;
        self.resume()?;
        // SAFETY: both buffers have these bytes; `to` is ours alone while it is borrowed.
        unsafe {
            self.runtime.copy_within(to.as_mut_ptr(), from.as_ptr(), from.bytes(), self.stream).map_err(failed)?;
            self.runtime.table().stream_synchronize(self.stream).map_err(failed)
        }
    }

    fn survey(&self, buffer: &Buffer, survey: &Survey) -> Result<Option<Surveyed>, Error> {
        let Some(surveyor) = &self.surveyor else { return Ok(None) };
        let bytes = survey.rows.saturating_mul(survey.row_bytes);
        buffer.check_range("survey", survey.offset, bytes)?;
        if !Surveyor::is_worth_it(survey) {
            return Ok(None);
        }
        let base = buffer.as_ptr().wrapping_byte_add(survey.offset);
        // Nothing in here can panic half-way; every look starts its report anew.
        let surveyor = surveyor.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the rows lie within the buffer.
        unsafe { surveyor.look(&self.runtime, &self.current, base, survey, self.stream) }.map(Some)
    }

    unsafe fn is_graph_safe(&mut self, arm: &Arm<'_>) -> Result<Option<bool>, Error> {
        self.resume()?;
        if arm.turns.is_empty() {
            return Ok(None);
        }
        // SAFETY: the contract of this method.
        unsafe { graphs::is_capturable(&self.runtime, self.stream, arm) }.map(Some)
    }

    fn use_streams(&mut self, count: Option<u32>) -> Result<(), Error> {
        self.resume()?;
        self.spacer.as_ref().map_or(Ok(()), |spacer| spacer.use_streams(&self.runtime, count))
    }

    unsafe fn time(&mut self, block: &[Arm<'_>]) -> Result<Vec<f64>, Error> {
        self.resume()?;
        self.ensure_events(block.len() + 2)?;
        let before = self.watch.state();
        let device = On { runtime: &self.runtime, stream: self.stream, spacer: self.spacer.as_ref() };
        // SAFETY: the contract of this method.
        let times_us = unsafe { self.graphs.time(device, &self.events, block) }?;
        match watch::disturbance(&before, &self.watch.state()) {
            Some(why) => Err(Error::Disturbed(why)),
            None => Ok(times_us),
        }
    }
}

impl Drop for GpuContext {
    fn drop(&mut self) {
        let _ = self.synchronize();
        self.graphs.clear(On { runtime: &self.runtime, stream: self.stream, spacer: None });
        graphs::destroy_events(&self.runtime, &self.events);
        // SAFETY: the stream is ours, and everything on it has finished.
        let _ = unsafe { self.runtime.table().stream_destroy(self.stream) };
    }
}
