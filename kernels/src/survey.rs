//! What a device is asked about an output that is too large to be read: the questions of the host's own scan, answered
//! where the output lies.

/// Rows of cells in device memory, and what they held before a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Where the first cell starts, bytes into the buffer.
    pub offset: usize,
    /// How many rows.
    pub rows: usize,
    /// Cells in each.
    pub cols: usize,
    /// From one row's start to the next, bytes.
    pub row_bytes: usize,
    /// What a cell is.
    pub cell: Cell,
    /// The byte that filled every cell before the launch; `None`: the cells held numbers.
    pub prefill: Option<u8>,
    /// The byte that fills what lies between two rows, the last row's rest included.
    pub gap: u8,
}

/// Element types that a device can tell numbers from others in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
}

/// What a device found. Cells are numbered row after row: `row * cols + col`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// The first cell that still holds the prefill.
    pub unwritten: Option<u64>,
    /// The first written cell that is no number or infinite.
    pub not_finite: Option<u64>,
    /// The first row whose gap was written to.
    pub gap: Option<u64>,
    /// Equal for equal bits in equal cells, and all but surely different for others.
    pub digest: u64,
}
