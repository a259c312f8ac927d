//! How much a reader takes. Each is far above any real file, and keeps a hostile one from filling memory.

/// Bytes of one file; AITER's largest is 2 MB.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// Rows of one file; AITER's largest has under 10,000.
pub const ROWS_MAX: usize = 1 << 20;
/// Bytes of one line: a hipBLASLt kernel name takes some 600, and a choice may carry 256 baselines.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Cells of one line; the widest known table has 40.
pub const FIELDS_MAX: usize = 128;
/// Warnings of one file.
pub const WARNINGS_MAX: usize = 64;
/// Characters of a file's own text that an error message repeats.
pub const EXCERPT_CHARS_MAX: usize = 80;

/// The beginning of `text`, fit for one line of a message.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(EXCERPT_CHARS_MAX)
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    if text.chars().nth(EXCERPT_CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}
