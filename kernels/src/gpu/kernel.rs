//! Kernels of our own, compiled for the device at hand when it is opened.

use tgemm_vendor::gpu::rtc::Rtc;
use tgemm_vendor::gpu::{Handle, Runtime};

use super::failed;
use crate::Error;

/// A kernel's source, the same for both dialects.
pub(super) struct Source {
    /// Named in messages.
    pub(super) file: &'static str,
    pub(super) text: &'static str,
    /// The kernel in it.
    pub(super) kernel: &'static str,
}

/// Compiles and loads a kernel for the current device, which is an `arch`.
pub(super) fn load(runtime: &Runtime, rtc: &Rtc, arch: &str, source: &Source) -> Result<Handle, Error> {
    let options = [rtc.arch_option(arch), "-std=c++17".to_owned()];
    let compiled = rtc.compile(source.text, source.file, &options);
    let code =
        compiled.map_err(|e| Error::Failed { call: format!("compile {}", source.file), reason: e.to_string() })?;
    // SAFETY: the code comes whole from the compiler, for this device.
    unsafe { runtime.kernel(&code, source.kernel) }.map_err(failed)
}
