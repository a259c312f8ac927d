//! A survey answered on the host, straight from its definition: what a device's kernel does, for tests of both routes.

use crate::{Cell, Survey, Surveyed};

/// One step of a multiplicative mixer (the finaliser of MurmurHash3).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The bits of a cell, and are they no number?
fn bits_of(cell: Cell, bytes: &[u8]) -> (u32, bool) {
    let bits = bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
    let exponent = match cell {
        Cell::F32 => 0x7F80_0000,
        Cell::F16 => 0x7C00,
        Cell::Bf16 => 0x7F80,
    };
    (bits, bits & exponent == exponent)
}

/// Answers `survey` about `memory`, which holds its rows and nothing else.
pub(super) fn look(memory: &[u8], survey: &Survey) -> Surveyed {
    let size = if survey.cell == Cell::F32 { 4 } else { 2 };
    let mut found = Surveyed { unwritten: None, not_finite: None, gap: None, digest: 0 };
    for row in 0..survey.rows {
        let stored = &memory[row * survey.row_bytes..(row + 1) * survey.row_bytes];
        let (cells, gap) = stored.split_at(survey.cols * size);
        for (col, bytes) in cells.chunks_exact(size).enumerate() {
            let number = (row * survey.cols + col) as u64;
            let (bits, is_no_number) = bits_of(survey.cell, bytes);
            found.digest = found.digest.wrapping_add(mix(number.wrapping_mul(0x100_0000_01b3) ^ u64::from(bits)));
            let is_unwritten = survey.prefill.is_some_and(|prefill| bytes.iter().all(|&byte| byte == prefill));
            let place = if is_unwritten { &mut found.unwritten } else { &mut found.not_finite };
            if is_no_number && place.is_none() {
                *place = Some(number);
            }
        }
        if found.gap.is_none() && gap.iter().any(|&byte| byte != survey.gap) {
            found.gap = Some(row as u64);
        }
    }
    found
}
