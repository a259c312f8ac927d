use super::*;
use proptest::prelude::*;
use tgemm_db::problem::{Batch, Leading, Trans};
use tgemm_db::{DType, Site};

fn layout(shape: [u32; 3], count: u32, stride: u64) -> Result<Layout, Error> {
    Layout::new("x", shape, count, stride)
}

/// Every stored row as the definition has it: (start, matrix, row), by address.
fn by_definition([rows, _, ld]: [u32; 3], count: u32, stride: u64) -> Vec<(usize, usize, usize)> {
    let matrices = if count == 1 || stride == 0 { 1 } else { count as usize };
    let of_matrix =
        |matrix: usize| (0..rows as usize).map(move |row| (matrix * stride as usize + row * ld as usize, matrix, row));
    let mut all: Vec<_> = (0..matrices).flat_map(of_matrix).collect();
    all.sort_unstable();
    all
}

/// Rows, columns, row length, count and stride of what can be laid out.
fn arrangements() -> impl Strategy<Value = ([u32; 3], u32, u64)> {
    (1u32..7, 1u32..9, 0u32..5, 1u32..6, 0u64..40, 0u8..4).prop_map(|(rows, cols, pad, count, more, kind)| {
        let ld = cols + pad;
        match kind {
            0 => ([rows, cols, ld], 1, more),
            1 => ([rows, cols, ld], count, 0),
            2 => ([rows, cols, ld], count, u64::from((rows - 1) * ld + cols) + more),
            _ => {
                let stride = cols + more as u32 % 3;
                ([rows, cols, count * stride + pad], count, stride.into())
            }
        }
    })
}

proptest! {
    #[test]
    fn stored_rows_lie_where_the_strides_say((shape, count, stride) in arrangements(), size in 1usize..5) {
        let layout = layout(shape, count, stride).unwrap();
        let want = by_definition(shape, count, stride);
        prop_assert_eq!(layout.stored_rows(), want.len());
        let mut end = 0;
        for (stored, &(start, matrix, row)) in want.iter().enumerate() {
            prop_assert_eq!((layout.start(stored), layout.matrix_and_row(stored)), (start, (matrix, row)));
            prop_assert_eq!(layout.stored(matrix, row), stored);
            prop_assert!(start >= end, "no two overlap");
            end = start + layout.cols();
        }
        prop_assert!(layout.elements() >= end && layout.start(want.len()) == layout.elements());
        // Cells and gaps cover everything, once.
        let mut at = 0;
        for span in layout.spans(0..want.len(), size) {
            prop_assert_eq!((span.cells.start, span.cells.len()), (at, layout.cols() * size));
            prop_assert_eq!(span.gap.start, span.cells.end);
            at = span.gap.end;
        }
        prop_assert_eq!(at, layout.elements() * size);
        prop_assert_eq!(layout.is_packed(), layout.elements() == want.len() * layout.cols());
    }

    #[test]
    fn grids_cover_every_cell_and_every_gap_once((shape, count, stride) in arrangements()) {
        let layout = layout(shape, count, stride).unwrap();
        let Some(grids) = layout.grids() else { return Ok(()) };
        let mut seen = vec![None; layout.elements()];
        let mut mark = |at: usize, what: usize| seen[at].replace(what).is_none();
        for grid in grids {
            let cols = grid.stored_in_row * layout.cols();
            for row in 0..grid.rows {
                let start = layout.start(grid.first) + row * grid.pitch;
                for col in 0..grid.pitch {
                    let cell = grid.first + (row * cols + col) / layout.cols();
                    let gap = grid.first + (row + 1) * grid.stored_in_row - 1;
                    let what = if col < cols { cell } else { layout.stored_rows() + gap };
                    prop_assert!(mark(start + col, what));
                }
            }
            let last = grid.first + grid.rows * grid.stored_in_row - 1;
            for at in grid.tail {
                prop_assert!(mark(at, layout.stored_rows() + last));
            }
        }
        for span in layout.spans(0..layout.stored_rows(), 1) {
            prop_assert!(seen[span.cells].iter().all(|&what| what == Some(span.stored)));
            prop_assert!(seen[span.gap].iter().all(|&what| what == Some(layout.stored_rows() + span.stored)));
        }
    }
}

#[test]
fn pieces_are_whole_rows_that_fit_and_cover_all() {
    for (shape, count, stride) in [
        ([3000, 1000, 1024], 1, 0),
        ([100, 1000, 1000], 70, 100_000),
        ([100, 1000, 1000], 70, 100_321),
        ([500, 64, 32 * 64], 32, 64),
        ([2, 3_000_000, 3_000_000], 2, 6_000_000),
    ] {
        let layout = layout(shape, count, stride).unwrap();
        let (mut row, mut at, mut pieces) = (0, 0, 0);
        let each = |rows: Range<usize>, bytes: Range<usize>| {
            assert_eq!((rows.start, bytes.start), (row, at));
            assert_eq!((layout.start(rows.start) * 4, layout.start(rows.end) * 4), (bytes.start, bytes.end));
            assert!(bytes.len() <= STAGING_BYTES || rows.len() == 1);
            (row, at, pieces) = (rows.end, bytes.end, pieces + 1);
            Ok(())
        };
        layout.pieces(4, each).unwrap();
        assert_eq!((row, at), (layout.stored_rows(), layout.elements() * 4));
        let least = (layout.elements() * 4).div_ceil(STAGING_BYTES).min(layout.stored_rows());
        assert!((least..=least.max(layout.stored_rows().min(2 * least))).contains(&pieces), "{pieces} of {least}");
    }
}

#[test]
fn what_overlaps_or_does_not_fit_is_refused() {
    let refused = |shape, count, stride| matches!(layout(shape, count, stride), Err(Error::Unsupported(_)));
    assert!(refused([4, 8, 8], 2, 31), "one element short of apart");
    assert!(!refused([4, 8, 8], 2, 32));
    assert!(refused([4, 8, 15], 2, 8), "one element short of woven");
    assert!(!refused([4, 8, 16], 2, 8));
    assert!(refused([4, 8, 16], 2, 7));
    assert!(refused([4, 8, 16], 2, 20), "every second row is meshed");
    assert!(refused([1, 8, 8], 2, ROW_ELEMENTS_MAX + 1));
    assert!(matches!(layout([4, 8, 8], u32::MAX, u64::MAX / 2), Err(Error::OutOfMemory { .. })));
    assert!(matches!(layout([u32::MAX, 8, 8], 1 << 30, 1 << 60), Err(Error::OutOfMemory { .. })));
}

#[test]
fn operands_have_their_own_strides_and_outputs_are_never_shared() {
    let batch = Batch { count: 3, stride_x: 0, stride_w: 40, stride_out: 5 };
    let ld = Leading { out: 15, ..Leading::default() };
    let site = Site { batch, ld, trans: Trans::W, ..Site::linear(5, 7, DType::F32) };
    let layouts = Layouts::of(&site.at(2)).unwrap();
    assert_eq!((layouts.x.matrices(), layouts.x.elements()), (1, 14));
    assert_eq!((layouts.w.rows(), layouts.w.cols(), layouts.w.elements()), (7, 5, 120));
    assert_eq!((layouts.out.matrices(), layouts.out.elements(), layouts.out.is_packed()), (3, 30, true));
    let shared = Site { batch: Batch { stride_out: 0, ..batch }, ..site };
    assert!(matches!(Layouts::of(&shared.at(2)), Err(Error::Unsupported(_))));
    let meshed = Site { batch: Batch { stride_out: 4, ..batch }, ..site };
    assert!(matches!(Layouts::of(&meshed.at(2)), Err(Error::Unsupported(_))));
}

#[test]
fn places_are_written_as_indices() {
    assert_eq!(Place { matrix: None, row: 1, col: 2 }.to_string(), "[1,2]");
    assert_eq!(Place { matrix: Some(7), row: 1, col: 2 }.to_string(), "[7,1,2]");
}
