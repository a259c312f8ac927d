//! A device that somebody else has opened in this process: its libraries, and nothing of our own on it.

use tgemm_db::Environment;
use tgemm_vendor::gpu::{Dialect, Installation, Runtime};

use super::context::{environment, open_libraries};
use super::{OpenError, device};
use crate::Library;

/// The libraries of a device that is in use.
pub struct Attached {
    environment: Environment,
    libraries: Vec<Box<dyn Library>>,
}

/// The runtime of `dialect` that is in this process.
///
/// # Errors
/// There is none, or it has no device.
pub fn runtime(dialect: Dialect) -> Result<Runtime, OpenError> {
    super::runtime(dialect, &mut Installation::default())
}

impl Attached {
    /// The device that is current on this thread, with the libraries that the process has; a library that cannot be opened
    /// is not in the list. Nothing is allocated on the device but what the libraries' handles need.
    ///
    /// # Errors
    /// There is no current device.
    pub fn to_current(dialect: Dialect) -> Result<Attached, OpenError> {
        let mut installation = Installation::default();
        let runtime = super::runtime(dialect, &mut installation)?;
        let failed = |ordinal: u32, why: String| OpenError::Failed { dialect, ordinal, why };
        let ordinal = runtime.current_device().map_err(|e| failed(0, e.to_string()))?;
        let device = device::describe(&runtime, ordinal).map_err(|e| failed(ordinal, e.to_string()))?;
        let (libraries, _) = open_libraries(dialect, &mut installation);
        Ok(Attached { environment: environment(&runtime, device, &libraries), libraries })
    }

    /// Device and builds.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Every library that could be opened.
    pub fn libraries(&self) -> &[Box<dyn Library>] {
        &self.libraries
    }
}
