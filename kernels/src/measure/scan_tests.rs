use super::*;
use crate::measure::data::Data;
use tgemm_db::Site;
use tgemm_db::problem::Leading;

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
    let mut scan = Scan::new(&problem, &reference, true).unwrap();
    bytes.chunks(piece_rows * LD * float.bytes()).for_each(|piece| scan.rows(piece));
    (scan.outputs, scan.fault, scan.digest)
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
        assert_eq!(with(1, 4, &vec![UNWRITTEN_BYTE; size]), Some(Fault::Unwritten { row: 1, col: 4 }));
        let nan = with(2, 0, &value(f64::NAN));
        assert!(matches!(nan, Some(Fault::NotFinite { row: 2, col: 0, value }) if value.is_nan()), "{nan:?}");
        let infinite = Some(Fault::NotFinite { row: 0, col: 3, value: f32::NEG_INFINITY });
        assert_eq!(with(0, 3, &value(f64::NEG_INFINITY)), infinite);
        assert_eq!(with(1, 5, &[0]), Some(Fault::Gap { row: 1 }));
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
