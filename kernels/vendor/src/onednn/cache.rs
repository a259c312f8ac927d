//! oneDNN's primitive cache, and why it is off while implementations are walked over and made.
//!
//! The cache knows a primitive by what it computes and by its place in the walk. A walk whose first place is found in
//! the cache does not move on underneath, so that the next places repeat implementations, and a primitive made then is
//! kept under a wrong place: with 2.6.3 and 3.2.0, the second implementation of a product whose first was made before
//! is the first again. Emptied and off, the cache cannot do this.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::handle::{CallError, check};
use super::sys;

/// The capacity is the library's one setting for all threads: one walk at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The cache is empty and off while this lives, then as large as before. Others who use the same library meanwhile lose
/// time to code that is generated again, no more.
pub(super) struct Uncached<'a> {
    common: &'a sys::Common,
    capacity: c_int,
    /// Released after the capacity has been put back.
    _turn: MutexGuard<'static, ()>,
}

impl Uncached<'_> {
    pub(super) fn begin(common: &sys::Common) -> Result<Uncached<'_>, CallError> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut capacity: c_int = 0;
        // SAFETY: writes one int.
        let status = unsafe { (common.dnnl_get_primitive_cache_capacity)(&mut capacity) };
        check("dnnl_get_primitive_cache_capacity", status)?;
        // SAFETY: any number that is not negative is a capacity.
        check("dnnl_set_primitive_cache_capacity", unsafe { (common.dnnl_set_primitive_cache_capacity)(0) })?;
        Ok(Uncached { common, capacity, _turn: turn })
    }
}

impl Drop for Uncached<'_> {
    fn drop(&mut self) {
        // SAFETY: the library gave this number itself.
        unsafe { (self.common.dnnl_set_primitive_cache_capacity)(self.capacity) };
    }
}
