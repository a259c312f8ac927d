//! HIP's record of a device.

use std::ffi::c_void;

/// `hipDeviceProp_t` in the layout of HIP 6 and later ("R0600"), read by offset.
///
/// The offsets are equal from HIP 6.0 to 7.15; tests hold them against bindings of 6.2 to 7.15.
#[derive(Clone)]
pub struct HipProperties(Box<[u64; HipProperties::WORDS]>);

impl HipProperties {
    /// Several times the record's size: later versions may append.
    const WORDS: usize = 1024;

    /// `sizeof(hipDeviceProp_tR0600)`.
    pub const RECORD_BYTES: usize = 1472;
    /// `totalGlobalMem`.
    pub const TOTAL_GLOBAL_MEM_AT: usize = 288;
    /// `multiProcessorCount`.
    pub const MULTI_PROCESSOR_COUNT_AT: usize = 388;
    /// `l2CacheSize`.
    pub const L2_CACHE_SIZE_AT: usize = 616;
    /// `gcnArchName`, 256 bytes.
    pub const GCN_ARCH_NAME_AT: usize = 1160;

    /// All zero, to be filled in.
    pub(super) fn zeroed() -> HipProperties {
        HipProperties(Box::new([0; HipProperties::WORDS]))
    }

    /// Where the runtime writes it; there is room for several times [`HipProperties::RECORD_BYTES`].
    pub(super) fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = self.0[(at + i) / 8].to_ne_bytes()[(at + i) % 8];
        }
        bytes
    }

    /// Bytes of memory.
    pub fn total_memory_bytes(&self) -> u64 {
        u64::from_ne_bytes(self.bytes(Self::TOTAL_GLOBAL_MEM_AT))
    }

    /// Compute units; on RDNA it counts pairs of them where the driver runs in that mode.
    pub fn multiprocessors(&self) -> u32 {
        u32::from_ne_bytes(self.bytes(Self::MULTI_PROCESSOR_COUNT_AT))
    }

    /// Bytes of the L2 cache.
    pub fn l2_cache_bytes(&self) -> u32 {
        u32::from_ne_bytes(self.bytes(Self::L2_CACHE_SIZE_AT))
    }

    /// Architecture with feature flags: `gfx942:sramecc+:xnack-`.
    pub fn arch(&self) -> String {
        let name = self.bytes::<256>(Self::GCN_ARCH_NAME_AT);
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_at_their_offsets() {
        let mut properties = HipProperties::zeroed();
        properties.0[HipProperties::TOTAL_GLOBAL_MEM_AT / 8] = 192 << 30;
        properties.0[HipProperties::GCN_ARCH_NAME_AT / 8] = u64::from_ne_bytes(*b"gfx942:s");
        properties.0[HipProperties::MULTI_PROCESSOR_COUNT_AT / 8] = u64::from(304u32) << 32;
        assert_eq!(properties.total_memory_bytes(), 192 << 30);
        assert_eq!(properties.arch(), "gfx942:s");
        assert_eq!(properties.multiprocessors(), 304);
    }
}
