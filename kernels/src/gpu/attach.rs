//! A device that somebody else has opened in this process: its libraries, and nothing of our own on it unless it is asked for.

use std::sync::Arc;

use tgemm_db::Environment;
use tgemm_vendor::gpu::{Current, Dialect, Installation, Runtime};

use super::context::{environment, open_libraries};
use super::{OpenError, device, failed, memory};
use crate::{Backend, Buffer, Error, Library, Queue, Stream};

/// A device that is in use, with its libraries.
///
/// Opening it puts on the device what the libraries' handles need, and no more: [`Backend::alloc`] is the only way to more.
/// Every method leaves the thread's current device as it was. Launches go to the device that is current on their thread, as
/// calls of its libraries do: it must be this one.
pub struct Attached {
    environment: Environment,
    libraries: Vec<Box<dyn Library>>,
    absent: Vec<(String, String)>,
    runtime: Arc<Runtime>,
    current: Current,
}

/// The runtime of `dialect` that is in this process.
///
/// # Errors
/// There is none, or it has no device.
pub fn runtime(dialect: Dialect) -> Result<Runtime, OpenError> {
    super::runtime(dialect, &mut Installation::default())
}

impl Attached {
    /// The device that is current on this thread, in the context that is, with the libraries that the process has; a library
    /// that cannot be opened is not in the list.
    ///
    /// # Errors
    /// There is no current device.
    pub fn to_current(dialect: Dialect) -> Result<Attached, OpenError> {
        let mut installation = Installation::default();
        let runtime = super::runtime(dialect, &mut installation)?;
        let failed = |ordinal: u32, why: String| OpenError::Failed { dialect, ordinal, why };
        let ordinal = runtime.current_device().map_err(|e| failed(0, e.to_string()))?;
        let current = runtime.current().map_err(|e| failed(ordinal, e.to_string()))?;
        Attached::to(runtime, installation, ordinal, current)
    }

    /// Device `ordinal`, in the context that the runtime's own functions and all libraries share.
    ///
    /// # Errors
    /// There is no such device, or it cannot be made current.
    pub fn to_device(dialect: Dialect, ordinal: u32) -> Result<Attached, OpenError> {
        let mut installation = Installation::default();
        let runtime = super::runtime(dialect, &mut installation)?;
        let failed = |why: String| OpenError::Failed { dialect, ordinal, why };
        let count = runtime.device_count().map_err(|e| failed(e.to_string()))?;
        if ordinal >= count {
            return Err(OpenError::NoDevice { dialect, ordinal, count });
        }
        let before = runtime.current();
        let current = runtime.make_current(ordinal).map_err(|e| failed(e.to_string()))?;
        if let Ok(before) = before {
            runtime.resume(&before).map_err(|e| failed(e.to_string()))?;
        }
        Attached::to(runtime, installation, ordinal, current)
    }

    fn to(
        runtime: Runtime,
        mut installation: Installation,
        ordinal: u32,
        current: Current,
    ) -> Result<Attached, OpenError> {
        let dialect = runtime.dialect();
        let failed = |why: String| OpenError::Failed { dialect, ordinal, why };
        let described = device::describe(&runtime, ordinal).map_err(|e| failed(e.to_string()))?;
        let opened = memory::on(&runtime, current, || open_libraries(dialect, &mut installation));
        let (libraries, absent) = opened.map_err(|e| failed(e.to_string()))?;
        let environment = environment(&runtime, described, &libraries);
        Ok(Attached { environment, libraries, absent, runtime: Arc::new(runtime), current })
    }

    /// The libraries that could not be opened, by name, each with the reason.
    pub fn absent(&self) -> &[(String, String)] {
        &self.absent
    }
}

impl Backend for Attached {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn libraries(&self) -> &[Box<dyn Library>] {
        &self.libraries
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        memory::on(&self.runtime, self.current, || memory::alloc(&self.runtime, self.current, bytes))?
    }

    fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: takes nothing.
        let done = memory::on(&self.runtime, self.current, || unsafe { self.runtime.table().synchronize() });
        done?.map_err(failed)
    }

    fn is_capturing(&self, stream: Stream) -> bool {
        memory::is_capturing(&self.runtime, stream)
    }

    fn queue(&self, stream: Stream) -> Queue {
        memory::queue(stream)
    }
}
