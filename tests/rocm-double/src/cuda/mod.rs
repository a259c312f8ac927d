//! CUDA mode: the same calls, carried out by an NVIDIA device and its vendor's libraries.
//!
//! Numbers and statuses are translated both ways. What has no counterpart (FNUZ types, swish) is not supported.

mod algo;
mod blas;
mod driver;
mod lt;
mod near;
mod table;

use std::cell::Cell;
use std::sync::OnceLock;

use crate::abi::Answer;
use crate::hip::Facts;
pub use blas::ROCBLAS_INDEX;
use driver::Driver;

table::table! {
    /// libnvrtc. Its results are numbered as hiprtc's.
    Rtc, std::convert::identity;
    fn create = "nvrtcCreateProgram" (
        place: usize, source: usize, name: usize, count: i32, headers: usize, names: usize,
    );
    fn destroy = "nvrtcDestroyProgram" (place: usize);
    fn compile = "nvrtcCompileProgram" (program: usize, count: i32, options: usize);
    fn log_size = "nvrtcGetProgramLogSize" (program: usize, place: usize);
    fn log = "nvrtcGetProgramLog" (program: usize, text: usize);
    fn code_size = "nvrtcGetCUBINSize" (program: usize, place: usize);
    fn code = "nvrtcGetCUBIN" (program: usize, code: usize);
    fn add_name = "nvrtcAddNameExpression" (program: usize, name: usize);
    fn lowered_name = "nvrtcGetLoweredName" (program: usize, name: usize, place: usize);
}

/// `hipErrorInvalidDevice`, `hipErrorInvalidContext`.
const INVALID_DEVICE: i32 = 101;
const INVALID_CONTEXT: i32 = 201;

/// Most devices of a host.
const DEVICES_MAX: usize = 64;

thread_local! {
    /// The device whose context this thread has, if any.
    static ENTERED: Cell<Option<i32>> = const { Cell::new(None) };
}

/// The opened libraries. Only the driver must be there.
pub struct Cuda {
    driver: Driver,
    /// The primary context of each device, once it was entered.
    contexts: [OnceLock<Result<usize, i32>>; DEVICES_MAX],
    lt: Result<lt::Lt, String>,
    blas: Result<blas::Blas, String>,
    /// NVRTC.
    pub rtc: Result<Rtc, String>,
}

impl Cuda {
    pub fn open() -> Result<Cuda, String> {
        let driver = Driver::load(&["libcuda.so.1"])?;
        driver.init(0).map_err(|status| format!("cuInit: {status}"))?;
        Ok(Cuda {
            driver,
            contexts: [const { OnceLock::new() }; DEVICES_MAX],
            lt: lt::Lt::load().inspect_err(|reason| eprintln!("rocm-double: cuBLASLt: {reason}")),
            blas: blas::Blas::load(&["libcublas.so.13", "libcublas.so.12"])
                .inspect_err(|reason| eprintln!("rocm-double: cuBLAS: {reason}")),
            rtc: Rtc::load(&["libnvrtc.so.13", "libnvrtc.so.12"])
                .inspect_err(|reason| eprintln!("rocm-double: NVRTC: {reason}")),
        })
    }

    pub fn count(&self) -> Result<i32, i32> {
        let mut count = 0i32;
        self.driver.device_count(&raw mut count as usize)?;
        Ok(count)
    }

    /// Makes the device's primary context, which NVIDIA's libraries share, this thread's.
    pub fn enter_device(&self, device: i32) -> Answer {
        let place = usize::try_from(device).ok().and_then(|at| self.contexts.get(at)).ok_or(INVALID_DEVICE)?;
        let context = place.get_or_init(|| {
            let mut context = 0usize;
            // Once a device and kept: the process owns it.
            self.driver.retain_context(&raw mut context as usize, device).map(|()| context)
        });
        self.driver.set_context((*context)?)?;
        ENTERED.set(Some(device));
        Ok(())
    }

    /// The driver, with a context on this thread: HIP makes device 0 current without being asked.
    pub fn enter(&self) -> Result<&Driver, i32> {
        if ENTERED.get().is_none() {
            self.enter_device(0)?;
        }
        Ok(&self.driver)
    }

    fn attribute(&self, attribute: i32, device: i32) -> Result<i32, i32> {
        let mut value = 0i32;
        self.driver.attribute(&raw mut value as usize, attribute, device)?;
        Ok(value)
    }

    /// `scripted` with the sizes of the real device (`CUdevice_attribute`).
    pub fn facts(&self, device: i32, scripted: Facts) -> Result<Facts, i32> {
        let mut bytes = 0usize;
        self.driver.total_memory(&raw mut bytes as usize, device)?;
        let mut text = [0u8; 32];
        self.driver.bus_id(text.as_mut_ptr() as usize, text.len() as i32 - 1, device)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(Facts {
            memory_bytes: bytes as u64,
            shared_bytes_per_block: self.attribute(8, device)?,
            warp: self.attribute(10, device)?,
            clock_khz: self.attribute(13, device)?,
            cus: self.attribute(16, device)?,
            memory_clock_khz: self.attribute(36, device)?,
            bus_width_bits: self.attribute(37, device)?,
            l2_bytes: self.attribute(38, device)?,
            pci_bus_id: String::from_utf8_lossy(&text[..end]).to_ascii_lowercase(),
            xccs: 1,
            ..scripted
        })
    }

    pub fn allocate(&self, bytes: usize) -> Result<usize, i32> {
        let mut address = 0usize;
        if bytes > 0 {
            self.enter()?.allocate(&raw mut address as usize, bytes)?;
        }
        Ok(address)
    }

    pub fn host_allocate(&self, bytes: usize) -> Result<usize, i32> {
        let mut address = 0usize;
        self.enter()?.host_allocate(&raw mut address as usize, bytes.max(1), 0)?;
        Ok(address)
    }

    /// (free, total).
    pub fn memory_info(&self) -> Result<(u64, u64), i32> {
        let (mut free, mut total) = (0usize, 0usize);
        self.enter()?.memory_info(&raw mut free as usize, &raw mut total as usize)?;
        Ok((free as u64, total as u64))
    }

    /// Compiles for the device that is there, whatever AMD part the options name; options of AMD's compiler are dropped.
    pub fn compile(&self, program: usize, options: &[String]) -> Answer {
        let device = ENTERED.get().unwrap_or(0);
        // Compute capability: major 75, minor 76.
        let capability = |attribute: i32| self.attribute(attribute, device).map_err(|_| INVALID_CONTEXT);
        let (major, minor) = (capability(75)?, capability(76)?);
        let is_amds = |option: &&String| ["--offload-arch", "-O", "-m"].iter().any(|start| option.starts_with(start));
        let kept = options.iter().filter(|option| !is_amds(option)).cloned();
        let arch = format!("--gpu-architecture=sm_{major}{minor}");
        let texts: Vec<String> = kept.chain([arch]).map(|option| format!("{option}\0")).collect();
        let pointers: Vec<usize> = texts.iter().map(|text| text.as_ptr() as usize).collect();
        let rtc = self.rtc.as_ref().map_err(|_| crate::hiprtc::INTERNAL)?;
        rtc.compile(program, pointers.len() as i32, pointers.as_ptr() as usize)
    }
}
