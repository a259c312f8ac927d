//! A fuzzer's bytes as decisions. What is not there is zero, so that every prefix of an input is an input.

/// The rest of the bytes.
#[derive(Clone, Debug)]
pub struct Feed<'b>(&'b [u8]);

impl<'b> Feed<'b> {
    /// All of them.
    pub fn new(bytes: &'b [u8]) -> Feed<'b> {
        Feed(bytes)
    }

    /// Is nothing left?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// The next bytes, as many as there are of `count`.
    pub fn bytes(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A number of eight bytes.
    pub fn long(&mut self) -> u64 {
        let mut all = [0; 8];
        let given = self.bytes(8);
        all[..given.len()].copy_from_slice(given);
        u64::from_le_bytes(all)
    }

    /// A number of four bytes.
    pub fn word(&mut self) -> u32 {
        let mut all = [0; 4];
        let given = self.bytes(4);
        all[..given.len()].copy_from_slice(given);
        u32::from_le_bytes(all)
    }

    /// A number below `limit`, by one byte.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit.max(1)
    }

    /// One in `of` times.
    pub fn rarely(&mut self, of: u8) -> bool {
        self.byte() % of == of - 1
    }

    /// One of them.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
