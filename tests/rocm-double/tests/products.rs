//! Products on the host against a naive sum: types, transposes, leading dimensions, batches, factors, epilogues, scales.

mod common;

use common::{Product, Rocm, call, decode, encode, in_child, numbers};

const ONE: &str = r#"{"device": {"arch": "ARCH"}, "solutions": [{"index": 1, "tile": [64, 64]}]}"#;

#[derive(Clone, Copy, Debug)]
struct Case {
    types: [i32; 4],
    trans: [bool; 2],
    batch: usize,
    beta: f32,
    epilogue: u32,
    /// 0 none, 1 tensor, 2 vectors.
    scales: u32,
}

const PLAIN: Case = Case { types: [14; 4], trans: [true, false], batch: 1, beta: 0.0, epilogue: 1, scales: 0 };

fn bytes_of(number: i32) -> usize {
    encode(number, 1.0).len()
}

/// `batch` matrices, rows × cols with ld = rows + pad, and the number at (matrix, row, col).
struct Stored {
    number: i32,
    rows: usize,
    ld: usize,
    stride: usize,
    values: Vec<f64>,
}

impl Stored {
    fn new(number: i32, rows: usize, cols: usize, batch: usize, seed: u64) -> Stored {
        let ld = rows + 3;
        Stored { number, rows, ld, stride: ld * cols + 5, values: numbers((ld * cols + 5) * batch, seed) }
    }

    fn at(&self, batch: usize, row: usize, col: usize) -> f64 {
        assert!(row < self.rows);
        self.values[batch * self.stride + col * self.ld + row]
    }

    fn upload(&self, rocm: &Rocm) -> usize {
        rocm.upload(&self.values.iter().flat_map(|value| encode(self.number, *value)).collect::<Vec<u8>>())
    }

    fn layout(&self, rocm: &Rocm, cols: usize, batch: usize) -> usize {
        let layout = rocm.layout(self.number, self.rows, cols, self.ld);
        for (attribute, value, bytes) in [(0, batch as i64, 4), (1, self.stride as i64, 8)] {
            let set = call!(rocm, hipblasLtMatrixLayoutSetAttribute(layout, attribute, &raw const value, bytes));
            assert_eq!(set, 0);
        }
        layout
    }
}

fn activated(epilogue: u32, x: f64) -> f64 {
    match epilogue & !4 {
        2 => x.max(0.0),
        32 => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
        65536 => x / (1.0 + (-x).exp()),
        _ => x,
    }
}

fn check(rocm: &Rocm, case: Case) {
    let (m, n, k) = (19, 7, 40);
    let Case { types: [ta, tb, tc, td], trans, batch, beta, epilogue, scales } = case;
    let shape = |trans: bool, rows: usize, cols: usize| if trans { (cols, rows) } else { (rows, cols) };
    let ((ar, ac), (br, bc)) = (shape(trans[0], m, k), shape(trans[1], k, n));
    let [a, b] = [Stored::new(ta, ar, ac, batch, 3), Stored::new(tb, br, bc, batch, 4)];
    let [c, d] = [Stored::new(tc, m, n, batch, 5), Stored::new(td, m, n, batch, 6)];
    let is_double = ta == 1;
    let desc = rocm.word(|place| {
        let (compute, scale) = if is_double { (7, 1) } else { (2, 0) };
        call!(rocm, hipblasLtMatmulDescCreate(place, compute, scale))
    });
    let desc = desc.unwrap();
    for (attribute, trans) in [(0, trans[0]), (1, trans[1])] {
        assert_eq!(rocm.set_desc(desc, attribute, if trans { 112i32 } else { 111 }), 0);
    }
    assert_eq!(rocm.set_desc(desc, 2, epilogue), 0);
    let bias = numbers(m, 8);
    if epilogue & 4 != 0 {
        let address = rocm.upload(&bias.iter().flat_map(|v| encode(td, *v)).collect::<Vec<u8>>());
        assert_eq!(rocm.set_desc(desc, 3, address), 0);
        assert_eq!(rocm.set_desc(desc, 4, td), 0);
    }
    let (scale_a, scale_b) = (numbers(m, 9), numbers(n, 10));
    if scales > 0 {
        let f32s = |values: &[f64]| rocm.upload(&values.iter().flat_map(|v| encode(0, *v)).collect::<Vec<u8>>());
        assert_eq!(rocm.set_desc(desc, 5, f32s(&scale_a)), 0);
        assert_eq!(rocm.set_desc(desc, 6, f32s(&scale_b)), 0);
        for attribute in [31, 32] {
            assert_eq!(rocm.set_desc(desc, attribute, if scales == 2 { 3i32 } else { 0 }), 0);
        }
    }
    let scale = |row: usize, col: usize| match scales {
        0 => 1.0,
        1 => scale_a[0] * scale_b[0],
        _ => scale_a[row] * scale_b[col],
    };
    let product = Product {
        desc,
        layouts: [
            a.layout(rocm, ac, batch),
            b.layout(rocm, bc, batch),
            c.layout(rocm, n, batch),
            d.layout(rocm, n, batch),
        ],
        addresses: [a.upload(rocm), b.upload(rocm), c.upload(rocm), d.upload(rocm)],
        alpha: 1.5,
        beta,
        workspace: (0, 0),
    };
    let lt = rocm.lt();
    let status = if is_double {
        let (alpha, beta) = (1.5f64, f64::from(beta));
        let ([la, lb, lc, ld], [xa, xb, xc, xd]) = (product.layouts, product.addresses);
        let (alpha, beta) = (&raw const alpha, &raw const beta);
        call!(rocm, hipblasLtMatmul(lt, desc, alpha, xa, la, xb, lb, beta, xc, lc, xd, ld, 0, 0, 0, 0))
    } else {
        rocm.matmul(lt, &product, None, 0)
    };
    assert_eq!(status, 0, "{case:?}");
    let size = bytes_of(td);
    let bytes = rocm.download(product.addresses[3], d.values.len() * size);
    let found: Vec<f64> = bytes.chunks_exact(size).map(|bytes| decode(td, bytes)).collect();
    let mut expected: Vec<f64> = d.values.clone();
    for (batch, col, row) in (0..batch).flat_map(|x| (0..n).flat_map(move |y| (0..m).map(move |z| (x, y, z)))) {
        let of_a = |at: usize| if trans[0] { a.at(batch, at, row) } else { a.at(batch, row, at) };
        let of_b = |at: usize| if trans[1] { b.at(batch, col, at) } else { b.at(batch, at, col) };
        let sum: f64 = (0..k).map(|at| of_a(at) * of_b(at)).sum();
        let mut value = 1.5 * scale(row, col) * sum + f64::from(beta) * c.at(batch, row, col);
        if epilogue & 4 != 0 {
            value += bias[row];
        }
        expected[batch * d.stride + col * d.ld + row] = activated(epilogue, value);
    }
    // Cells between columns and matrices are compared too: they must be as they were.
    let relative = if size == 2 { 0.01 } else { 1e-5 };
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let error = (found - expected).abs();
        assert!(error <= relative * expected.abs().max(1.0), "{case:?} at {at}: {found}, not {expected}");
    }
}

fn checked(test: &str, arch: &str, cases: &[Case]) {
    in_child(test, &ONE.replace("ARCH", arch), |rocm| cases.iter().for_each(|case| check(rocm, *case)));
}

#[test]
fn types_of_sixteen_bits_and_more() {
    let typed = |types: [i32; 4]| Case { types, beta: 0.5, ..PLAIN };
    let cases = [[14; 4], [2; 4], [0; 4], [1; 4], [14, 14, 0, 0], [2, 2, 0, 0]].map(typed);
    checked("types_of_sixteen_bits_and_more", "gfx942", &cases);
}

#[test]
fn eight_bits_are_fnuz_on_gfx942() {
    let cases = [[1000, 1000, 14, 14], [1000, 1001, 0, 0], [1001, 1000, 2, 2]].map(|types| Case { types, ..PLAIN });
    checked("eight_bits_are_fnuz_on_gfx942", "gfx942:sramecc+:xnack-", &cases);
}

#[test]
fn eight_bits_are_ocp_on_gfx950() {
    let cases = [[28, 28, 14, 14], [29, 28, 0, 0]].map(|types| Case { types, scales: 1, ..PLAIN });
    checked("eight_bits_are_ocp_on_gfx950", "gfx950", &cases);
}

#[test]
fn every_transpose_with_and_without_a_batch() {
    let both = [false, true];
    let all = both.into_iter().flat_map(|x| both.into_iter().flat_map(move |y| [1, 3].map(|batch| ([x, y], batch))));
    let cases: Vec<Case> =
        all.map(|(trans, batch)| Case { types: [0; 4], trans, batch, beta: -2.0, ..PLAIN }).collect();
    checked("every_transpose_with_and_without_a_batch", "gfx90a", &cases);
}

#[test]
fn epilogues_and_scales() {
    let with = |epilogue: u32| Case { types: [0; 4], epilogue, beta: 1.0, ..PLAIN };
    let mut cases: Vec<Case> = [2, 4, 6, 32, 36, 65536, 65540].into_iter().map(with).collect();
    cases.extend([1, 2].map(|scales| Case { types: [1000, 1000, 14, 14], scales, ..PLAIN }));
    checked("epilogues_and_scales", "gfx942", &cases);
}
