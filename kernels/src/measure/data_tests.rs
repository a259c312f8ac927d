use super::*;
use std::collections::HashSet;
use tgemm_db::problem::{Batch, Leading, ScaleMode, Trans};
use tgemm_db::{DType, Site};

fn data(m: u32, n: u32, k: u32, dtype: DType) -> Data {
    Data::new(&Site::linear(n, k, dtype).with_bias(dtype).at(m).into(), 7).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn the_pool_is_of_prime_length() {
    assert!((2..=POOL_LEN.isqrt()).all(|divisor| !POOL_LEN.is_multiple_of(divisor)));
    const { assert!(POOL_STEP < POOL_LEN) };
}

#[test]
fn values_are_normal_exact_and_never_tiny() {
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let w = data(1, 1200, 1000, dtype).w;
        let float = Float::of(dtype).unwrap();
        let (mut row, mut count, mut sum, mut square, mut fourth) = (Vec::new(), 0.0, 0.0, 0.0, 0.0);
        for r in 0..w.layout().rows() {
            w.of_batch(0).row(r, &mut row);
            for &value in &row {
                let v = f64::from(value);
                assert_eq!(float.round(v), value);
                assert!(v.abs() >= MAGNITUDE_MIN && v.abs() < 9.0);
                (count, sum, square, fourth) = (count + 1.0, sum + v, square + v * v, fourth + v.powi(4));
            }
        }
        assert!((sum / count).abs() < 0.01, "{dtype} mean {}", sum / count);
        assert!((square / count - 1.0).abs() < 0.01, "{dtype} variance {}", square / count);
        assert!((fourth / count - 3.0).abs() < 0.1, "{dtype} kurtosis {}", fourth / count);
    }
}

#[test]
fn no_two_rows_and_no_two_columns_are_alike() {
    // One matrix drawn singly, one from the pool, one whose rows overlap often in it.
    for (n, k) in [(40, 30), (1100, 1000), (20_000, 512)] {
        let w = data(1, n, k, DType::Bf16).w;
        let mut line = Vec::new();
        let rows: HashSet<Vec<u32>> = (0..n as usize)
            .map(|r| {
                w.of_batch(0).row(r, &mut line);
                bits(&line)
            })
            .collect();
        assert_eq!(rows.len(), n as usize);
        let cols: HashSet<Vec<u32>> = (0..k as usize)
            .map(|c| {
                w.of_batch(0).col(c, &mut line);
                bits(&line)
            })
            .collect();
        assert_eq!(cols.len(), k as usize);
    }
}

#[test]
fn bytes_rows_columns_and_values_agree_and_gaps_are_nan() {
    for (n, k, ld) in [(5u32, 7u32, 11u32), (1500, 900, 903)] {
        let site = Site { ld: Leading { w: ld, ..Leading::default() }, ..Site::linear(n, k, DType::F16) };
        let w = Data::new(&site.at(2).into(), 3).unwrap().w;
        let first = n as usize - 2;
        let row_bytes = ld as usize * 2;
        let mut stored = vec![0u8; 2 * row_bytes];
        w.fill(first..first + 2, &mut stored);
        let mut row = Vec::new();
        for r in 0..2 {
            w.of_batch(0).row(first + r, &mut row);
            for c in 0..ld as usize {
                let got = Float::F16.decode(&stored[r * row_bytes + c * 2..]);
                match row.get(c) {
                    Some(&value) => assert_eq!((got, got), (value, w.of_batch(0).value(first + r, c))),
                    None => assert!(got.is_nan()),
                }
            }
        }
        let mut col = Vec::new();
        w.of_batch(0).col(3, &mut col);
        assert_eq!(col[first], w.of_batch(0).value(first, 3));
    }
}

#[test]
fn seeds_and_operands_differ_and_bias_is_as_large_as_the_product() {
    let a = data(8, 8, 8, DType::F32);
    let b = Data::new(&Site::linear(8, 8, DType::F32).at(8).into(), 8).unwrap();
    assert_ne!(bits(&a.x.pool.values), bits(&b.x.pool.values));
    assert_ne!(bits(&a.x.pool.values), bits(&a.w.pool.values));
    let bias = data(1, 512, 400, DType::Bf16).bias.unwrap();
    assert!(bias.pool.values.iter().all(|value| value.abs() >= 9.9));
}

#[test]
fn what_cannot_be_made_is_unsupported() {
    let refused = |site: Site| matches!(Data::new(&site.at(2).into(), 1), Err(Error::Unsupported(_)));
    let plain = Site::linear(8, 8, DType::F32);
    assert!(!refused(plain));
    assert!(refused(Site::linear(8, 8, DType::I8)));
    assert!(refused(Site { batch: Batch { count: 2, ..Batch::default() }, ..plain }), "outputs would be one");
    let batch = Batch { count: 2, stride_x: 16, stride_w: 64, stride_out: 16 };
    assert!(!refused(Site { batch, ..plain }));
    assert!(refused(Site { batch: Batch { stride_x: 15, ..batch }, ..plain }));
    assert!(refused(Site { batch, scale: ScaleMode::TokenChannel, ..plain }));
    assert!(!refused(Site { batch, scale: ScaleMode::Tensor, ..plain }));
    assert!(refused(Site { scale: ScaleMode::Mx, ..plain }));
    assert!(refused(Site { scale: ScaleMode::Tensor, scale_dtype: DType::Ue8m0, ..plain }));
    assert!(refused(Site { preshuffled: true, ..plain }));
    assert!(refused(Site::linear(2, 0, DType::F32)));
    assert!(refused(Site::linear(2, 2_000_000, DType::F32)));
    assert!(!refused(Site { trans: Trans::Xw, ..plain }));
}

#[test]
fn matrices_of_a_batch_differ_unless_they_are_shared() {
    // Drawn singly, and from the pool.
    for (n, k) in [(6u32, 8u32), (700, 500)] {
        let batch = Batch { count: 5, stride_x: 0, stride_w: u64::from(n * k + 3), stride_out: u64::from(2 * n) };
        let data = Data::new(&Site { batch, ..Site::linear(n, k, DType::Bf16) }.at(2).into(), 3).unwrap();
        let mut row = Vec::new();
        let mut rows = HashSet::new();
        for matrix in 0..5 {
            for r in 0..n as usize {
                data.w.of_batch(matrix).row(r, &mut row);
                assert_eq!(row[3], data.w.of_batch(matrix).value(r, 3));
                rows.insert(bits(&row));
            }
        }
        assert_eq!(rows.len(), 5 * n as usize);
        data.x.of_batch(0).row(1, &mut row);
        let first = row.clone();
        data.x.of_batch(4).row(1, &mut row);
        assert_eq!(row, first);
        // The bytes are those of the values.
        let stored = data.w.layout().stored(3, 2);
        let mut bytes = vec![0u8; (data.w.layout().start(stored + 1) - data.w.layout().start(stored)) * 2];
        data.w.fill(stored..stored + 1, &mut bytes);
        data.w.of_batch(3).row(2, &mut row);
        assert!(row.iter().zip(bytes.chunks_exact(2)).all(|(&value, bytes)| Float::Bf16.decode(bytes) == value));
    }
}
