//! The device that products run on: the one that the engine has opened.

use std::ffi::c_char;
use std::fmt::Write as _;
use std::sync::Arc;

use tgemm_kernels::Backend;
use tgemm_kernels::cpu::CpuContext;
use tgemm_kernels::gpu::attach::Attached;
use tgemm_kernels::gpu::{Dialect, OpenError};

use crate::handle;
use crate::status::{Failure, TgemmStatus, guarded};
use crate::text::Buffer;

/// Whose functions a device is driven by.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmPlatform {
    /// The host's processors; there is one device, 0.
    Cpu = 1,
    /// CUDA, version 12 or newer.
    Cuda = 2,
    /// HIP of ROCm 6 or newer.
    Hip = 3,
}

/// A device that the engine has opened, with the libraries that can be called on it. Any number of threads may use it.
pub struct TgemmBackend {
    pub(crate) backend: Arc<dyn Backend>,
    absent: Vec<(String, String)>,
}

fn attached(dialect: Dialect, ordinal: i32) -> Result<TgemmBackend, Failure> {
    let opened = match u32::try_from(ordinal) {
        Ok(ordinal) => Attached::to_device(dialect, ordinal),
        Err(_) if ordinal == -1 => Attached::to_current(dialect),
        Err(_) => return Err(no_such(ordinal)),
    };
    let attached = opened.map_err(|error| match error {
        error @ OpenError::NoDevice { .. } => Failure::value(error.to_string()),
        error => Failure::new(TgemmStatus::Device, error.to_string()),
    })?;
    let absent = attached.absent().to_vec();
    Ok(TgemmBackend { backend: Arc::new(attached), absent })
}

fn no_such(ordinal: i32) -> Failure {
    Failure::value(format!("ordinal is {ordinal}; it is that of a device, or -1 for the one that is current"))
}

fn open(platform: u32, ordinal: i32) -> Result<TgemmBackend, Failure> {
    const CPU: u32 = TgemmPlatform::Cpu as u32;
    const CUDA: u32 = TgemmPlatform::Cuda as u32;
    const HIP: u32 = TgemmPlatform::Hip as u32;
    match platform {
        CPU if matches!(ordinal, -1 | 0) => {
            let context = CpuContext::open();
            let absent = context.absent().to_vec();
            Ok(TgemmBackend { backend: Arc::new(context), absent })
        }
        CPU => Err(no_such(ordinal)),
        CUDA => attached(Dialect::Cuda, ordinal),
        HIP => attached(Dialect::Hip, ordinal),
        _ => Err(Failure::value(format!("platform is {platform}; it is a TgemmPlatform"))),
    }
}

/// Opens the libraries of a device for dispatch: of the one with that ordinal, or with -1 of the one that is current on this
/// thread, which the engine has opened. The libraries are those that are in the process already, else those that an engine
/// would load. A library that cannot be opened is no failure: see the report.
///
/// platform is a TgemmPlatform. Nothing is put on a GPU but what the libraries' handles need, and the thread's current device
/// stays what it is. TGEMM_STATUS_DEVICE: the platform's runtime or the device cannot be opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_backend_open(
    platform: u32,
    ordinal: i32,
    backend: *mut *mut TgemmBackend,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        let out = unsafe { handle::out(backend, "backend") }?;
        out.put(open(platform, ordinal)?);
        Ok(())
    })
}

/// Closes a backend; NULL is none. What was opened on it goes on holding what it needs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_backend_close(backend: *mut TgemmBackend) {
    // SAFETY: the header's rules of handles.
    unsafe { handle::close(backend) }
}

/// Writes which device it is, and which libraries it has or has not: a line each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_backend_report(
    backend: *const TgemmBackend,
    buffer: *mut c_char,
    bytes: usize,
    needed: *mut usize,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        let (buffer, backend) = unsafe { (Buffer::new(buffer, bytes, needed)?, handle::get(backend, "backend")?) };
        let environment = backend.backend.environment();
        let mut text = environment.device.to_string();
        // Writing into a String cannot fail.
        for build in &environment.builds {
            let _ = write!(text, "\n{build}");
        }
        for (library, why) in &backend.absent {
            let _ = write!(text, "\n{library}: not here: {why}");
        }
        buffer.put(&text)
    })
}
