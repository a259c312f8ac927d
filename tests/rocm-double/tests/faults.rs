//! Each scripted fault does what it says, and nothing else.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use common::{bf16_output, bf16_product, call, child, in_child};

fn script(fault: &str) -> String {
    format!(r#"{{"solutions": [{{"index": 1}}, {{"index": 2, "fault": {fault}}}]}}"#)
}

const SIZES: (usize, usize, usize) = (24, 10, 64);

/// Runs the faulty solution once on an output full of 0xff; (status of the launch, output, the right one).
fn outputs(rocm: &common::Rocm) -> (Vec<f64>, Vec<f64>) {
    let (m, n, k) = SIZES;
    let lt = rocm.lt();
    let (product, expected) = bf16_product(rocm, m, n, k);
    assert_eq!(call!(rocm, hipMemset(product.addresses[3], 0xff, 2 * m * n)), 0);
    assert_eq!(rocm.matmul(lt, &product, Some(2), 0), 0);
    (bf16_output(rocm, &product, m * n), expected)
}

fn is_right(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 0.01 * expected.abs().max(1.0)
}

#[test]
fn wrong() {
    in_child("wrong", &script(r#""wrong""#), |rocm| {
        let (found, expected) = outputs(rocm);
        assert!(found.iter().all(|value| value.is_finite()));
        let wrong = found.iter().zip(&expected).filter(|(found, expected)| !is_right(**found, **expected)).count();
        assert!(wrong > expected.len() / 2, "{wrong}");
    });
}

#[test]
fn nan() {
    in_child("nan", &script(r#""nan""#), |rocm| {
        let (found, expected) = outputs(rocm);
        assert_eq!(found.iter().filter(|value| value.is_nan()).count(), 1);
        assert!(found.iter().zip(&expected).skip(1).all(|(found, expected)| is_right(*found, *expected)));
    });
}

#[test]
fn unwritten() {
    in_child("unwritten", &script(r#""unwritten""#), |rocm| {
        let (found, expected) = outputs(rocm);
        let (written, left) = found.split_at(found.len() - SIZES.0);
        assert!(left.iter().all(|value| value.is_nan()), "the last column is as it was");
        assert!(written.iter().zip(&expected).all(|(found, expected)| is_right(*found, *expected)));
    });
}

#[test]
fn out_of_bounds() {
    in_child("out_of_bounds", &script(r#""out_of_bounds""#), |rocm| {
        let (m, n, k) = SIZES;
        let (mut product, expected) = bf16_product(rocm, m, n, k);
        let lt = rocm.lt();
        let d = rocm.malloc(2 * m * n + 64);
        product.addresses[2..].fill(d);
        for (index, is_clean) in [(1, true), (2, false), (2, false)] {
            assert_eq!(call!(rocm, hipMemset(d + 2 * m * n, 0x11, 64)), 0);
            assert_eq!(rocm.matmul(lt, &product, Some(index), 0), 0);
            let guard = rocm.download(d + 2 * m * n, 64);
            assert_eq!(guard.iter().all(|byte| *byte == 0x11), is_clean, "{guard:?}");
        }
        assert!(bf16_output(rocm, &product, m * n).iter().zip(&expected).all(|(f, e)| is_right(*f, *e)));
    });
}

#[test]
fn nondeterministic() {
    in_child("nondeterministic", &script(r#""nondeterministic""#), |rocm| {
        let (m, n, k) = SIZES;
        let (product, _) = bf16_product(rocm, m, n, k);
        let lt = rocm.lt();
        let run = |index: i32| {
            assert_eq!(rocm.matmul(lt, &product, Some(index), 0), 0);
            rocm.download(product.addresses[3], 2 * m * n)
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(2), run(2));
    });
}

#[test]
fn statuses() {
    in_child("statuses", &script(r#"{"error_status": 7}"#), |rocm| {
        let (product, _) = bf16_product(rocm, 8, 8, 8);
        let lt = rocm.lt();
        assert_eq!(rocm.matmul(lt, &product, Some(2), 0), 7);
        assert_eq!(rocm.matmul(lt, &product, Some(1), 0), 0);
        assert_eq!(rocm.matmul(lt, &product, Some(3), 0), 7, "no such solution");
    });
}

#[test]
fn workspace() {
    in_child("workspace", &script(r#""workspace""#), |rocm| {
        let (product, _) = bf16_product(rocm, 8, 8, 8);
        let lt = rocm.lt();
        let (status, mut listed) = rocm.heuristic(lt, &product, 1 << 20, 10);
        listed.sort_unstable();
        assert_eq!((status, listed), (0, vec![(1, 0), (2, 1 << 30)]), "more than the preference allows");
        assert_eq!(rocm.matmul(lt, &product, Some(2), 0), 3);
    });
}

#[test]
fn capture_fails() {
    in_child("capture_fails", &script(r#""capture_fails""#), |rocm| {
        let (product, _) = bf16_product(rocm, 8, 8, 8);
        let (lt, stream) = (rocm.lt(), rocm.stream());
        assert_eq!(rocm.matmul(lt, &product, Some(2), stream), 0, "eagerly it runs");
        assert_eq!(call!(rocm, hipStreamBeginCapture(stream, 1)), 0);
        assert_eq!(rocm.matmul(lt, &product, Some(2), stream), 5);
        assert_eq!(rocm.word(|place| call!(rocm, hipStreamEndCapture(stream, place))), Err(901));
        assert_eq!(rocm.matmul(lt, &product, Some(1), stream), 0, "the stream is usable again");
    });
}

#[test]
fn illegal_address() {
    in_child("illegal_address", &script(r#""illegal_address""#), |rocm| {
        let (product, _) = bf16_product(rocm, 8, 8, 8);
        let (lt, stream) = (rocm.lt(), rocm.stream());
        assert_eq!(rocm.matmul(lt, &product, Some(2), stream), 0);
        assert_eq!(call!(rocm, hipStreamSynchronize(stream)), 700);
        assert_eq!(call!(rocm, hipDeviceSynchronize()), 700, "the device is lost");
        assert_eq!(call!(rocm, hipGetLastError()), 700);
        assert_eq!(call!(rocm, hipGetLastError()), 0);
    });
}

#[test]
fn host_memory_is_not_the_devices() {
    in_child("host_memory_is_not_the_devices", &script(r#""none""#), |rocm| {
        let (mut product, _) = bf16_product(rocm, 8, 8, 8);
        let host = vec![0u8; 4096];
        product.addresses[0] = host.as_ptr() as usize;
        assert_eq!(rocm.matmul(rocm.lt(), &product, Some(1), 0), 0);
        assert_eq!(call!(rocm, hipDeviceSynchronize()), 700);
    });
}

#[test]
fn hang() {
    let (status, log) = child("hang", 7, &script(r#""hang""#), Duration::from_secs(3), |rocm| {
        let (product, _) = bf16_product(rocm, 8, 8, 8);
        let (lt, stream) = (rocm.lt(), rocm.stream());
        assert_eq!(rocm.matmul(lt, &product, Some(2), stream), 0, "the launch itself returns");
        println!("launched");
        call!(rocm, hipStreamSynchronize(stream));
        println!("waited");
    });
    assert!(status.is_none() && log.contains("launched") && !log.contains("waited"), "{status:?}\n{log}");
}

fn dies(test: &str, fault: &str, signal: i32) {
    let (status, log) = child(test, 7, &script(fault), Duration::from_secs(20), |rocm| {
        let (product, _) = bf16_product(rocm, 8, 8, 8);
        rocm.matmul(rocm.lt(), &product, Some(2), 0);
    });
    assert_eq!(status.and_then(|status| status.signal()), Some(signal), "{log}");
}

#[test]
fn abort() {
    dies("abort", r#""abort""#, libc::SIGABRT);
}

#[test]
fn segfault() {
    dies("segfault", r#""segfault""#, libc::SIGSEGV);
}
