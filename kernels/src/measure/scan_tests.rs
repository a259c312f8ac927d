use super::*;
use crate::measure::data::Data;
use tgemm_db::problem::{Batch, Leading};
use tgemm_db::{DType, Site};

const ROWS: u32 = 3;
const COLS: usize = 5;
const LD: usize = 7;

/// An output of 3 x 5 in rows of 7, filled with 0, 1, 2, …, gaps guarded.
fn stored(float: Float) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in 0..ROWS as usize {
        for col in 0..COLS {
            float.encode((row * COLS + col) as f64, &mut bytes);
        }
        bytes.extend(std::iter::repeat_n(GUARD_BYTE, (LD - COLS) * float.bytes()));
    }
    bytes
}

fn scan(float: Float, bytes: &[u8], piece_rows: usize) -> (Vec<f32>, Option<Fault>, u64) {
    let ld = Leading { out: LD as u32, ..Leading::default() };
    let problem = Problem::from(Site { ld, ..Site::linear(COLS as u32, 4, float.dtype()) }.at(ROWS));
    let mut reference = Reference::new(&problem, &Data::new(&problem, 1).unwrap(), 1).unwrap();
    // As if only these had been sampled.
    (reference.rows, reference.cols) = (vec![0, 2], vec![1, 4]);
    reference.cells.truncate(4);
    let mut scan = Scan::new(&problem, &reference, true).unwrap();
    for (at, piece) in bytes.chunks(piece_rows * LD * float.bytes()).enumerate() {
        let first = at * piece_rows;
        scan.rows(first..first + piece.len() / (LD * float.bytes()), piece);
    }
    (scan.outputs, scan.fault, scan.digest)
}

fn at(row: u32, col: u32) -> Place {
    Place { matrix: None, row, col }
}

const FLOATS: [Float; 3] = [Float::F32, Float::F16, Float::Bf16];

#[test]
fn sampled_cells_are_gathered_whatever_the_pieces() {
    for float in FLOATS {
        let bytes = stored(float);
        let whole = scan(float, &bytes, 3);
        assert_eq!((&whole.0, &whole.1), (&vec![1.0, 4.0, 11.0, 14.0], &None));
        assert_eq!(whole, scan(float, &bytes, 1));
    }
}

#[test]
fn unwritten_nan_infinite_and_gaps_are_told_apart() {
    for float in FLOATS {
        let size = float.bytes();
        let with = |row: usize, col: usize, bytes: &[u8]| {
            let mut all = stored(float);
            let at = (row * LD + col) * size;
            all[at..at + bytes.len()].copy_from_slice(bytes);
            scan(float, &all, 2).1
        };
        let value = |value: f64| {
            let mut bytes = Vec::new();
            float.encode(value, &mut bytes);
            bytes
        };
        assert_eq!(with(1, 4, &vec![UNWRITTEN_BYTE; size]), Some(Fault::Unwritten(at(1, 4))));
        let nan = with(2, 0, &value(f64::NAN));
        assert!(matches!(nan, Some(Fault::NotFinite(place, value)) if place == at(2, 0) && value.is_nan()), "{nan:?}");
        let infinite = Some(Fault::NotFinite(at(0, 3), f32::NEG_INFINITY));
        assert_eq!(with(0, 3, &value(f64::NEG_INFINITY)), infinite);
        assert_eq!(with(1, 5, &[0]), Some(Fault::Gap(at(1, COLS as u32 - 1))));
        assert_eq!(with(1, 0, &value(3e38)).is_some(), float == Float::F16, "65504 is f16's largest");
        assert_eq!(with(1, 0, &value(60_000.0)), None);
    }
}

#[test]
fn every_bit_of_every_cell_is_in_the_digest() {
    let bytes = stored(Float::Bf16);
    let whole = scan(Float::Bf16, &bytes, 3).2;
    for row in 0..ROWS as usize {
        for bit in 0..COLS * 16 {
            let mut other = bytes.clone();
            other[row * LD * 2 + bit / 8] ^= 1 << (bit % 8);
            assert_ne!(scan(Float::Bf16, &other, 3).2, whole, "row {row} bit {bit}");
        }
    }
    let mut swapped = bytes.clone();
    swapped[..LD * 4].rotate_left(LD * 2);
    assert_ne!(scan(Float::Bf16, &swapped, 3).2, whole);
}

/// Outputs of a batch of three in rows of 11, every cell one more than the cell before it in its matrix, 100 more a matrix.
fn batched(stride: u64, ld: u32) -> (Problem, Layout, Vec<u8>) {
    let batch = Batch { count: 3, stride_x: 0, stride_w: 20, stride_out: stride };
    let ld = Leading { out: ld, ..Leading::default() };
    let problem = Problem::from(Site { batch, ld, ..Site::linear(2, 4, DType::F32) }.at(2));
    let layout = Layouts::of(problem.gemm().unwrap()).unwrap().out;
    let mut bytes = vec![GUARD_BYTE; layout.elements() * 4];
    for matrix in 0..3 {
        for (row, col) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let at = (layout.start(layout.stored(matrix, row)) + col) * 4;
            bytes[at..at + 4].copy_from_slice(&((matrix * 100 + row * 2 + col) as f32).to_le_bytes());
        }
    }
    (problem, layout, bytes)
}

#[test]
fn batches_are_gathered_in_the_references_order_and_faults_say_where() {
    for (stride, ld) in [(13, 5), (10, 5), (3, 11), (2, 6)] {
        let (problem, layout, bytes) = batched(stride, ld);
        let reference = Reference::new(&problem, &Data::new(&problem, 1).unwrap(), 1).unwrap();
        let scan = |bytes: &[u8]| {
            let mut scan = Scan::new(&problem, &reference, true).unwrap();
            scan.rows(0..layout.stored_rows(), bytes);
            (scan.outputs, scan.fault)
        };
        let want: Vec<f32> =
            [0, 100, 200].iter().flat_map(|base| (0..4).map(move |cell| (base + cell) as f32)).collect();
        assert_eq!(scan(&bytes), (want, None), "stride {stride}, rows of {ld}");
        let place = |col| Place { matrix: Some(1), row: 1, col };
        let cell = (layout.start(layout.stored(1, 1)) + 1) * 4;
        let mut bad = bytes.clone();
        bad[cell..cell + 4].fill(UNWRITTEN_BYTE);
        assert_eq!(scan(&bad).1, Some(Fault::Unwritten(place(1))));
        if !layout.is_packed() && stride != 2 {
            let mut bad = bytes.clone();
            bad[cell + 4] = 0;
            assert_eq!(scan(&bad).1, Some(Fault::Gap(place(1))));
        }
    }
}

#[test]
fn rows_that_never_came_are_no_outputs() {
    let (problem, layout, bytes) = batched(10, 5);
    let reference = Reference::new(&problem, &Data::new(&problem, 1).unwrap(), 1).unwrap();
    let mut scan = Scan::new(&problem, &reference, true).unwrap();
    scan.rows(0..5, &bytes[..layout.start(5) * 4]);
    assert_eq!(scan.outputs.iter().filter(|output| output.is_nan()).count(), 2);
}
