//! Where a byte stands in a text, eight bytes at a time: half of reading a table is finding its commas and line ends.

const LANES: usize = 8;
const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// All places of one byte, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Positions<'b> {
    bytes: &'b [u8],
    needle: u64,
    /// Where the next eight bytes begin.
    next: usize,
    /// The highest bit of each of the last eight bytes that is the one looked for.
    found: u64,
}

/// The places of `needle` in `bytes`.
pub(crate) fn positions(bytes: &[u8], needle: u8) -> Positions<'_> {
    Positions { bytes, needle: u64::from_ne_bytes([needle; LANES]), next: 0, found: 0 }
}

impl Positions<'_> {
    /// The next eight bytes; beyond the end stands what is not looked for.
    #[inline]
    fn load(&self) -> Option<u64> {
        let rest = self.bytes.get(self.next..).filter(|rest| !rest.is_empty())?;
        if let Some(lanes) = rest.first_chunk::<LANES>() {
            return Some(u64::from_le_bytes(*lanes));
        }
        let mut lanes = (!self.needle).to_le_bytes();
        lanes[..rest.len()].copy_from_slice(rest);
        Some(u64::from_le_bytes(lanes))
    }
}

impl Iterator for Positions<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.found == 0 {
            // A byte is zero if neither its highest bit is set nor a carry of the others reaches it.
            let differs = self.load()? ^ self.needle;
            self.found = !(((differs & LOW) + LOW) | differs | LOW);
            self.next += LANES;
        }
        let lane = self.found.trailing_zeros() as usize / LANES;
        self.found &= self.found - 1;
        Some(self.next - LANES + lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_those_of_a_plain_search(
            bytes in proptest::collection::vec(prop_oneof![Just(b','), Just(b'-'), Just(b'+'), any::<u8>()], 0..70),
            needle in prop_oneof![Just(b','), any::<u8>()],
        ) {
            let plain = (0..bytes.len()).filter(|&at| bytes[at] == needle);
            prop_assert!(positions(&bytes, needle).eq(plain));
        }
    }
}
