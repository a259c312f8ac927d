//! Devices, memory, streams, events, graphs and modules: libamdhip64, or the CUDA driver.

mod properties;

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};

pub use properties::HipProperties;

use super::find::{Installation, Part};
use super::numbers::{
    CAPTURE_THREAD_LOCAL, DeviceAttribute, HIP_COPY_IN, HIP_COPY_OUT, HIP_COPY_WITHIN, NO_DEVICE, STREAM_NON_BLOCKING,
};
use super::{CallError, Dialect, Handle};
use crate::dialect_table;
use crate::load::{self, Absent, Loaded};

/// HIP's version number of ROCm 6.0, the oldest that is driven: major · 10^7 + minor · 10^5 + patch.
const HIP_VERSION_MIN: i32 = 60_000_000;

/// The driver's version number of CUDA 12.0: major · 1000 + minor · 10.
const CUDA_VERSION_MIN: i32 = 12_000;

dialect_table! {
    /// The functions of libamdhip64 (`hip_runtime_api.h`) and of libcuda (`cuda.h`).
    ///
    /// CUDA's device pointers are integers as wide as pointers, and are passed as pointers here.
    pub struct Table {
        /// Must come before every other call.
        fn init ["hipInit", "cuInit"] (flags: u32);
        /// How many devices there are.
        fn device_count ["hipGetDeviceCount", "cuDeviceGetCount"] (count: *mut i32);
        /// The version of the interface that the driver serves.
        fn driver_version ["hipDriverGetVersion", "cuDriverGetVersion"] (version: *mut i32);
        /// HIP's own version.
        fn runtime_version ["hipRuntimeGetVersion", ""] (version: *mut i32);
        /// One number about a device.
        fn device_attribute ["hipDeviceGetAttribute", "cuDeviceGetAttribute"] (value: *mut i32, attribute: i32, device: i32);
        /// `0000:03:00.0`.
        fn device_bus_id ["hipDeviceGetPCIBusId", "cuDeviceGetPCIBusId"] (text: *mut c_char, bytes: i32, device: i32);
        /// Everything about a device, in the layout of HIP 6.
        fn device_properties ["hipGetDevicePropertiesR0600", ""] (properties: *mut c_void, device: i32);
        /// Bytes of memory.
        fn device_memory ["", "cuDeviceTotalMem_v2"] (bytes: *mut usize, device: i32);
        /// This thread's device.
        fn get_device ["hipGetDevice", "cuCtxGetDevice"] (device: *mut i32);
        /// Makes a device this thread's.
        fn set_device ["hipSetDevice", ""] (device: i32);
        /// The context that all libraries of the process share.
        fn retain_context ["", "cuDevicePrimaryCtxRetain"] (context: *mut Handle, device: i32);
        /// This thread's context, or null.
        fn get_context ["", "cuCtxGetCurrent"] (context: *mut Handle);
        /// Makes a context this thread's.
        fn set_context ["", "cuCtxSetCurrent"] (context: Handle);
        /// Memory that is free, and all there is.
        fn memory_info ["hipMemGetInfo", "cuMemGetInfo_v2"] (free: *mut usize, total: *mut usize);
        /// Device memory.
        fn malloc ["hipMalloc", "cuMemAlloc_v2"] (ptr: *mut *mut c_void, bytes: usize);
        /// Gives it back.
        fn free ["hipFree", "cuMemFree_v2"] (ptr: *mut c_void);
        /// Sets bytes; the call may return before they are set.
        fn memset ["hipMemsetAsync", "cuMemsetD8Async"] (ptr: *mut c_void, byte: i32, bytes: usize, stream: Handle);
        /// Copies in the direction of `kind`.
        fn copy ["hipMemcpyAsync", ""] (to: *mut c_void, from: *const c_void, bytes: usize, kind: i32, stream: Handle);
        /// Host to device.
        fn copy_in ["", "cuMemcpyHtoDAsync_v2"] (to: *mut c_void, from: *const c_void, bytes: usize, stream: Handle);
        /// Device to host.
        fn copy_out ["", "cuMemcpyDtoHAsync_v2"] (to: *mut c_void, from: *const c_void, bytes: usize, stream: Handle);
        /// Device to device.
        fn copy_within ["", "cuMemcpyDtoDAsync_v2"] (to: *mut c_void, from: *const c_void, bytes: usize, stream: Handle);
        /// A queue.
        fn stream_create ["hipStreamCreateWithFlags", "cuStreamCreate"] (stream: *mut Handle, flags: u32);
        /// Waits for it.
        fn stream_synchronize ["hipStreamSynchronize", "cuStreamSynchronize"] (stream: Handle);
        /// Frees it.
        fn stream_destroy ["hipStreamDestroy", "cuStreamDestroy_v2"] (stream: Handle);
        /// Is it being captured?
        fn stream_capturing ["hipStreamIsCapturing", "cuStreamIsCapturing"] (stream: Handle, status: *mut i32);
        /// What captures keep this thread from; the old mode comes back.
        fn exchange_capture_mode ["hipThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode"] (mode: *mut i32);
        /// Waits for everything on the device.
        fn synchronize ["hipDeviceSynchronize", "cuCtxSynchronize"] ();
        /// A point in a queue.
        fn event_create ["hipEventCreateWithFlags", "cuEventCreate"] (event: *mut Handle, flags: u32);
        /// Puts it there.
        fn event_record ["hipEventRecord", "cuEventRecord"] (event: Handle, stream: Handle);
        /// Waits until the queue has passed it.
        fn event_synchronize ["hipEventSynchronize", "cuEventSynchronize"] (event: Handle);
        /// Milliseconds between two.
        fn event_elapsed ["hipEventElapsedTime", "cuEventElapsedTime"] (ms: *mut f32, start: Handle, end: Handle);
        /// Frees it.
        fn event_destroy ["hipEventDestroy", "cuEventDestroy_v2"] (event: Handle);
        /// From now on launches into the queue are noted, not run.
        fn begin_capture ["hipStreamBeginCapture", "cuStreamBeginCapture_v2"] (stream: Handle, mode: i32);
        /// What was noted.
        fn end_capture ["hipStreamEndCapture", "cuStreamEndCapture"] (stream: Handle, graph: *mut Handle);
        /// Makes a graph launchable.
        fn instantiate ["hipGraphInstantiate", ""] (exec: *mut Handle, graph: Handle, node: *mut Handle, log: *mut c_char, log_bytes: usize);
        /// As above.
        fn instantiate_flags ["", "cuGraphInstantiateWithFlags"] (exec: *mut Handle, graph: Handle, flags: u64);
        /// Runs it once.
        fn graph_launch ["hipGraphLaunch", "cuGraphLaunch"] (exec: Handle, stream: Handle);
        /// Frees the launchable form.
        fn exec_destroy ["hipGraphExecDestroy", "cuGraphExecDestroy"] (exec: Handle);
        /// Frees a graph.
        fn graph_destroy ["hipGraphDestroy", "cuGraphDestroy"] (graph: Handle);
        /// Loads compiled code.
        fn module_load ["hipModuleLoadData", "cuModuleLoadData"] (module: *mut Handle, image: *const c_void);
        /// Finds a kernel in it.
        fn module_function ["hipModuleGetFunction", "cuModuleGetFunction"] (function: *mut Handle, module: Handle, name: *const c_char);
        /// Unloads it.
        fn module_unload ["hipModuleUnload", "cuModuleUnload"] (module: Handle);
        /// Runs a kernel.
        fn launch_kernel ["hipModuleLaunchKernel", "cuLaunchKernel"] (
            function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
            shared_bytes: u32, stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void,
        );
    }
}

/// A device that was made current: see [`Runtime::make_current`].
#[derive(Clone, Copy, Debug)]
pub struct Current {
    device: u32,
    context: Handle,
}

// SAFETY: a context is a handle that any thread may make its own.
unsafe impl Send for Current {}
// SAFETY: as above.
unsafe impl Sync for Current {}

/// An opened runtime.
#[derive(Clone, Debug)]
pub struct Runtime {
    dialect: Dialect,
    table: Table,
    file: PathBuf,
    version: i32,
    driver: i32,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.dialect)
    }
}

impl Runtime {
    /// Opens and initialises the runtime of `dialect`, and notes where it came from.
    pub fn open(dialect: Dialect, installation: &mut Installation) -> Result<Runtime, Absent> {
        let candidates = installation.candidates(dialect, Part::Runtime);
        // SAFETY: these are the runtime's own names, or a file that the user says is it.
        let runtime =
            unsafe { load::open(Part::Runtime.name(dialect), &candidates, |library| Runtime::of(dialect, library)) }?;
        installation.opened(Part::Runtime, dialect, &runtime.file);
        Ok(runtime)
    }

    /// # Safety
    /// `library` is the runtime of `dialect`.
    unsafe fn of(dialect: Dialect, library: &'static Loaded) -> Result<Runtime, String> {
        // SAFETY: the types are those of the headers named at the table.
        let table = unsafe { Table::fill(library, dialect) };
        let at = |reason: String| format!("{}: {reason}", library.file().display());
        let (mut version, mut driver) = (0, 0);
        // SAFETY: one integer is written.
        unsafe { table.driver_version(&raw mut driver) }.map_err(|e| at(e.to_string()))?;
        match dialect {
            // SAFETY: as above.
            Dialect::Hip => unsafe { table.runtime_version(&raw mut version) }.map_err(|e| at(e.to_string()))?,
            Dialect::Cuda => version = driver,
        }
        let oldest = dialect.pick(HIP_VERSION_MIN, CUDA_VERSION_MIN);
        let is_old_layout = dialect == Dialect::Hip && table.device_properties.is_none();
        if version < oldest || is_old_layout {
            let (ours, least) = dialect.pick(("HIP", "ROCm 6.0"), ("CUDA", "CUDA 12.0"));
            return Err(at(format!(
                "{ours} {} is too old, {least} or newer is needed",
                version_text(dialect, version)
            )));
        }
        // SAFETY: the flags must be 0.
        unsafe { table.init(0) }.map_err(|e| match e.status() {
            Some(NO_DEVICE) => at("no device".into()),
            _ => at(e.to_string()),
        })?;
        Ok(Runtime { dialect, table, file: library.file().to_owned(), version, driver })
    }

    /// Which dialect it speaks.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Its functions.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The file it was loaded from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its version: `7.2.0`, `13.0`.
    pub fn version(&self) -> String {
        version_text(self.dialect, self.version)
    }

    /// The version that the kernel driver serves.
    pub fn driver_version(&self) -> String {
        version_text(self.dialect, self.driver)
    }

    /// How many devices there are.
    pub fn device_count(&self) -> Result<u32, CallError> {
        let mut count = 0;
        // SAFETY: one integer is written.
        match unsafe { self.table.device_count(&raw mut count) } {
            Err(CallError::Status { status: NO_DEVICE, .. }) => Ok(0),
            other => other.map(|()| u32::try_from(count).unwrap_or(0)),
        }
    }

    /// One number about a device.
    pub fn attribute(&self, attribute: DeviceAttribute, device: u32) -> Result<u32, CallError> {
        let mut value = 0;
        // SAFETY: one integer is written.
        unsafe { self.table.device_attribute(&raw mut value, attribute.number(self.dialect), device as i32) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// The device's address on the PCI bus: `0000:03:00.0`.
    pub fn bus_id(&self, device: u32) -> Result<String, CallError> {
        let mut text = [0 as c_char; 64];
        // SAFETY: at most `len` bytes are written, with a terminator.
        unsafe { self.table.device_bus_id(text.as_mut_ptr(), text.len() as i32 - 1, device as i32) }?;
        // SAFETY: the array ends with a zero that the call could not overwrite.
        Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().to_ascii_lowercase())
    }

    /// Bytes of memory of a device.
    pub fn memory_bytes(&self, device: u32) -> Result<u64, CallError> {
        if self.dialect == Dialect::Hip {
            return Ok(self.properties(device)?.total_memory_bytes());
        }
        let mut bytes = 0usize;
        // SAFETY: one size is written.
        unsafe { self.table.device_memory(&raw mut bytes, device as i32) }?;
        Ok(bytes as u64)
    }

    /// HIP's record of a device.
    pub fn properties(&self, device: u32) -> Result<HipProperties, CallError> {
        let mut properties = HipProperties::zeroed();
        // SAFETY: the record has `RECORD_BYTES` in every version of this layout; there is room for several times that.
        unsafe { self.table.device_properties(properties.as_mut_ptr(), device as i32) }?;
        Ok(properties)
    }

    /// The device that is current on this thread.
    pub fn current_device(&self) -> Result<u32, CallError> {
        let mut device = 0;
        // SAFETY: one integer is written.
        unsafe { self.table.get_device(&raw mut device) }?;
        Ok(u32::try_from(device).unwrap_or(0))
    }

    /// Makes `device` this thread's, and in CUDA its primary context, which all libraries of the process share.
    pub fn make_current(&self, device: u32) -> Result<Current, CallError> {
        let mut current = Current { device, context: std::ptr::null_mut() };
        if self.dialect == Dialect::Cuda {
            // SAFETY: one handle is written; it is never released, as the process keeps the device.
            unsafe { self.table.retain_context(&raw mut current.context, device as i32) }?;
        }
        self.resume(&current)?;
        Ok(current)
    }

    /// What is current on this thread, to come back to by [`Runtime::resume`].
    pub fn current(&self) -> Result<Current, CallError> {
        let mut current = Current { device: 0, context: std::ptr::null_mut() };
        match self.dialect {
            Dialect::Hip => current.device = self.current_device()?,
            // SAFETY: one handle is written.
            Dialect::Cuda => unsafe { self.table.get_context(&raw mut current.context) }?,
        }
        Ok(current)
    }

    /// Sets what captures keep this thread from; returns what it was.
    pub fn exchange_capture_mode(&self, mut mode: i32) -> Result<i32, CallError> {
        // SAFETY: one integer is read and written.
        unsafe { self.table.exchange_capture_mode(&raw mut mode) }?;
        Ok(mode)
    }

    /// Makes a device current again, on whichever thread this is.
    pub fn resume(&self, current: &Current) -> Result<(), CallError> {
        match self.dialect {
            // SAFETY: takes a number.
            Dialect::Hip => unsafe { self.table.set_device(current.device as i32) },
            // SAFETY: the context was retained for good.
            Dialect::Cuda => unsafe { self.table.set_context(current.context) },
        }
    }

    /// Memory that is free on the current device, and all there is, bytes.
    pub fn memory_info(&self) -> Result<(u64, u64), CallError> {
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: two sizes are written.
        unsafe { self.table.memory_info(&raw mut free, &raw mut total) }?;
        Ok((free as u64, total as u64))
    }

    /// Copies host memory to the device, in the order of `stream`.
    ///
    /// # Safety
    /// Both ranges are valid until the stream has passed the copy.
    pub unsafe fn copy_in(
        &self,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), CallError> {
        match self.dialect {
            // SAFETY: the contract of this method.
            Dialect::Hip => unsafe { self.table.copy(to, from, bytes, HIP_COPY_IN, stream) },
            // SAFETY: as above.
            Dialect::Cuda => unsafe { self.table.copy_in(to, from, bytes, stream) },
        }
    }

    /// Copies device memory to the host, in the order of `stream`.
    ///
    /// # Safety
    /// As [`Runtime::copy_in`].
    pub unsafe fn copy_out(
        &self,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), CallError> {
        match self.dialect {
            // SAFETY: the contract of this method.
            Dialect::Hip => unsafe { self.table.copy(to, from, bytes, HIP_COPY_OUT, stream) },
            // SAFETY: as above.
            Dialect::Cuda => unsafe { self.table.copy_out(to, from, bytes, stream) },
        }
    }

    /// Copies within the device, in the order of `stream`.
    ///
    /// # Safety
    /// As [`Runtime::copy_in`].
    pub unsafe fn copy_within(
        &self,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), CallError> {
        match self.dialect {
            // SAFETY: the contract of this method.
            Dialect::Hip => unsafe { self.table.copy(to, from, bytes, HIP_COPY_WITHIN, stream) },
            // SAFETY: as above.
            Dialect::Cuda => unsafe { self.table.copy_within(to, from, bytes, stream) },
        }
    }

    /// A queue of its own on the current device.
    pub fn stream(&self) -> Result<Handle, CallError> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: one handle is written.
        unsafe { self.table.stream_create(&raw mut stream, STREAM_NON_BLOCKING) }?;
        Ok(stream)
    }

    /// An event that keeps time.
    pub fn event(&self) -> Result<Handle, CallError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: one handle is written.
        unsafe { self.table.event_create(&raw mut event, 0) }?;
        Ok(event)
    }

    /// Starts to capture what this thread puts into `stream`.
    ///
    /// # Safety
    /// `stream` is a stream of this runtime.
    pub unsafe fn begin_capture(&self, stream: Handle) -> Result<(), CallError> {
        // SAFETY: the contract of this method.
        unsafe { self.table.begin_capture(stream, CAPTURE_THREAD_LOCAL) }
    }

    /// Ends a capture and makes what was captured launchable.
    ///
    /// # Safety
    /// `stream` is a stream of this runtime on which a capture began.
    pub unsafe fn end_capture(&self, stream: Handle) -> Result<Handle, CallError> {
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: one handle is written.
        unsafe { self.table.end_capture(stream, &raw mut graph) }?;
        let null = std::ptr::null_mut();
        let made = match self.dialect {
            // SAFETY: the graph is alive; where an error is told is optional.
            Dialect::Hip => unsafe { self.table.instantiate(&raw mut exec, graph, null, null.cast(), 0) },
            // SAFETY: as above.
            Dialect::Cuda => unsafe { self.table.instantiate_flags(&raw mut exec, graph, 0) },
        };
        // SAFETY: the launchable form does not need the graph; nobody else holds it.
        let _ = unsafe { self.table.graph_destroy(graph) };
        made.map(|()| exec)
    }

    /// Loads code that was compiled for the current device and finds `kernel` in it; the module stays loaded for good.
    ///
    /// # Safety
    /// `image` is a whole code object of the run-time compiler.
    pub unsafe fn kernel(&self, image: &[u8], kernel: &str) -> Result<Handle, CallError> {
        let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the contract of this method.
        unsafe { self.table.module_load(&raw mut module, image.as_ptr().cast()) }?;
        let name = CString::new(kernel).map_err(|_| CallError::Missing("a kernel whose name holds a zero"))?;
        // SAFETY: the module is alive and the name ends with a zero.
        unsafe { self.table.module_function(&raw mut function, module, name.as_ptr()) }?;
        Ok(function)
    }
}

fn version_text(dialect: Dialect, version: i32) -> String {
    match dialect {
        // `hip_version.h`: HIP_VERSION.
        Dialect::Hip => format!("{}.{}.{}", version / 10_000_000, version / 100_000 % 100, version % 100_000),
        // `cuda.h`: CUDA_VERSION.
        Dialect::Cuda => format!("{}.{}", version / 1000, version % 1000 / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_their_makers_write_them() {
        assert_eq!(version_text(Dialect::Hip, 70_226_015), "7.2.26015");
        assert_eq!(version_text(Dialect::Cuda, 13_000), "13.0");
        assert_eq!(version_text(Dialect::Cuda, 12_090), "12.9");
    }

    #[test]
    fn every_call_exists_in_a_dialect_and_none_twice() {
        for dialect in Dialect::ALL {
            let mut names: Vec<_> =
                Table::SYMBOLS.iter().map(|s| dialect.pick(s.0, s.1)).filter(|s| !s.is_empty()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
