//! Streams under the virtual clock, events, capture and replay, memory, modules, and the trace.

mod common;

use common::{Rocm, bf16_output, bf16_product, call, in_child};

/// 10 us and 20 us, whatever the product.
const TIMED: &str = r#"{"trace": "TRACE", "replay_gap_us": 1, "solutions": [
    {"index": 1, "cost": {"base_us": 10}}, {"index": 2, "cost": {"base_us": 20}}]}"#;

fn event(rocm: &Rocm) -> usize {
    rocm.word(|place| call!(rocm, hipEventCreateWithFlags(place, 0))).unwrap()
}

/// Microseconds between two events around `body`.
fn timed_us(rocm: &Rocm, stream: usize, body: impl FnOnce()) -> f32 {
    let (start, end) = (event(rocm), event(rocm));
    assert_eq!(call!(rocm, hipEventRecord(start, stream)), 0);
    body();
    assert_eq!(call!(rocm, hipEventRecord(end, stream)), 0);
    assert_eq!(call!(rocm, hipEventSynchronize(end)), 0);
    let mut ms = 0f32;
    assert_eq!(call!(rocm, hipEventElapsedTime(&raw mut ms, start, end)), 0);
    ms * 1e3
}

#[test]
fn launches_and_replays_advance_the_clock() {
    in_child("launches_and_replays_advance_the_clock", TIMED, |rocm| {
        let (lt, stream) = (rocm.lt(), rocm.stream());
        let (product, expected) = bf16_product(rocm, 16, 8, 32);
        let eager_us = timed_us(rocm, stream, || {
            assert_eq!(rocm.matmul(lt, &product, Some(1), stream), 0);
            assert_eq!(rocm.matmul(lt, &product, Some(2), stream), 0);
        });
        assert!((eager_us - 30.0).abs() < 1e-3, "{eager_us}");
        assert_eq!(call!(rocm, hipStreamBeginCapture(stream, 1)), 0);
        let status = rocm.word(|place| call!(rocm, hipStreamIsCapturing(stream, place)));
        assert_eq!(status, Ok(1));
        let clear = || assert_eq!(call!(rocm, hipMemset(product.addresses[3], 0, 2 * 16 * 8)), 0);
        for index in [1, 2, 2] {
            assert_eq!(rocm.matmul(lt, &product, Some(index), stream), 0);
        }
        let graph = rocm.word(|place| call!(rocm, hipStreamEndCapture(stream, place))).unwrap();
        let exec = rocm.word(|place| call!(rocm, hipGraphInstantiate(place, graph, 0, 0, 0))).unwrap();
        assert_eq!(call!(rocm, hipGraphDestroy(graph)), 0);
        clear();
        let replayed_us = timed_us(rocm, stream, || {
            for _ in 0..4 {
                assert_eq!(call!(rocm, hipGraphLaunch(exec, stream)), 0);
            }
        });
        assert!((replayed_us - 4.0 * 51.0).abs() < 1e-3, "{replayed_us}");
        assert_eq!(bf16_output(rocm, &product, 16 * 8).len(), expected.len());
        assert!(bf16_output(rocm, &product, 16 * 8).iter().any(|value| *value != 0.0), "the replay computes");
        clear();
        assert_eq!(call!(rocm, hipGraphLaunch(exec, stream)), 0);
        assert!(bf16_output(rocm, &product, 16 * 8).iter().any(|value| *value != 0.0), "and again after a change");
        assert_eq!(call!(rocm, hipGraphExecDestroy(exec)), 0);
        assert_eq!(call!(rocm, hipGraphLaunch(exec, stream)), 1);
        let trace = std::fs::read_to_string(std::env::var("DOUBLE_TRACE").unwrap()).unwrap();
        let count = |how: &str| trace.lines().filter(|line| line.contains(&format!("\"how\":\"{how}\""))).count();
        assert_eq!([count("eager"), count("captured"), count("replayed")], [2, 3, 15]);
        let first: serde_json::Value = serde_json::from_str(trace.lines().next().unwrap()).unwrap();
        assert_eq!(
            (first["library"].as_str(), first["index"].as_i64(), first["m"].as_i64()),
            (Some("hipblaslt"), Some(1), Some(16))
        );
    });
}

#[test]
fn what_changes_is_computed_again() {
    in_child("what_changes_is_computed_again", TIMED, |rocm| {
        let lt = rocm.lt();
        let (product, expected) = bf16_product(rocm, 16, 8, 32);
        let run = |product: &common::Product| {
            assert_eq!(rocm.matmul(lt, product, Some(1), 0), 0);
            bf16_output(rocm, product, 16 * 8)
        };
        let first = run(&product);
        assert_eq!(first, run(&product));
        // Other operands, other factors, accumulation in place.
        assert_eq!(call!(rocm, hipMemset(product.addresses[1], 0, 2 * 32 * 8)), 0);
        assert!(run(&product).iter().all(|value| *value == 0.0));
        let (product, _) = bf16_product(rocm, 16, 8, 32);
        let doubled = run(&common::Product { alpha: 2.0, ..product.clone() });
        assert_eq!(doubled, first.iter().map(|value| 2.0 * value).collect::<Vec<_>>());
        let adding = common::Product { beta: 1.0, ..product };
        let (once, twice) = (run(&adding), run(&adding));
        for (at, expected) in expected.iter().enumerate() {
            let near =
                |found: f64, times: f64| (found - times * expected).abs() <= 0.02 * (times * expected).abs().max(1.0);
            assert!(near(once[at], 3.0) && near(twice[at], 4.0), "{at}: {} {}, of {expected}", once[at], twice[at]);
        }
    });
}

#[test]
fn capture_refuses_what_waits() {
    in_child("capture_refuses_what_waits", TIMED, |rocm| {
        let stream = rocm.stream();
        let end = || rocm.word(|place| call!(rocm, hipStreamEndCapture(stream, place)));
        assert_eq!(end(), Err(401), "no capture is under way");
        assert_eq!(call!(rocm, hipStreamBeginCapture(0, 0)), 900, "the default stream");
        let spoilt = |mode: i32, call: &dyn Fn() -> i32, status: i32| {
            assert_eq!(call!(rocm, hipStreamBeginCapture(stream, mode)), 0);
            assert_eq!(call!(rocm, hipStreamBeginCapture(stream, mode)), 401);
            assert_eq!(call(), status);
            assert_eq!(end(), Err(901));
        };
        spoilt(0, &|| rocm.word(|place| call!(rocm, hipMalloc(place, 64))).unwrap_err(), 900);
        spoilt(1, &|| call!(rocm, hipDeviceSynchronize()), 900);
        spoilt(0, &|| call!(rocm, hipStreamSynchronize(stream)), 900);
        let buffer = rocm.malloc(64);
        let mut host = [0u8; 64];
        spoilt(1, &|| call!(rocm, hipMemcpy(host.as_ptr(), buffer, 64, 2)), 900);
        // Another thread may, in thread-local mode.
        assert_eq!(call!(rocm, hipStreamBeginCapture(stream, 1)), 0);
        std::thread::scope(|scope| scope.spawn(|| rocm.malloc(64)).join()).unwrap();
        assert_eq!(call!(rocm, hipMemsetAsync(buffer, 7, 64, stream)), 0);
        let graph = end().unwrap();
        let exec = rocm.word(|place| call!(rocm, hipGraphInstantiate(place, graph, 0, 0, 0))).unwrap();
        assert_eq!(call!(rocm, hipMemset(buffer, 0, 64)), 0);
        assert_eq!(call!(rocm, hipGraphLaunch(exec, stream)), 0);
        assert_eq!(call!(rocm, hipMemcpyAsync(host.as_mut_ptr(), buffer, 64, 2, stream)), 0);
        assert_eq!(call!(rocm, hipStreamSynchronize(stream)), 0);
        assert_eq!(host, [7; 64]);
    });
}

#[test]
fn events_that_tell_no_time_say_so() {
    in_child("events_that_tell_no_time_say_so", TIMED, |rocm| {
        let (timed, untimed) =
            (event(rocm), rocm.word(|place| call!(rocm, hipEventCreateWithFlags(place, 2))).unwrap());
        let mut ms = 0f32;
        let mut elapsed = |start: usize, end: usize| call!(rocm, hipEventElapsedTime(&raw mut ms, start, end));
        assert_eq!(elapsed(timed, timed), 400, "never recorded");
        for event in [timed, untimed] {
            assert_eq!(call!(rocm, hipEventRecord(event, 0)), 0);
        }
        assert_eq!((elapsed(timed, timed), elapsed(timed, untimed), elapsed(timed, 12345)), (0, 400, 400));
        assert_eq!(call!(rocm, hipEventDestroy(timed)), 0);
        assert_eq!(call!(rocm, hipEventDestroy(timed)), 400);
    });
}

#[test]
fn memory_is_bounded_and_devices_are_described() {
    let script = r#"{"device": {"memory_bytes": 1048576, "arch": "gfx950", "cus": 256, "pci_bus_id": "0000:05:00.0"}}"#;
    in_child("memory_is_bounded_and_devices_are_described", script, |rocm| {
        let held = rocm.malloc(1 << 19);
        assert_eq!(rocm.word(|place| call!(rocm, hipMalloc(place, 1 << 20))), Err(2));
        let (mut free, mut total) = (0usize, 0usize);
        assert_eq!(call!(rocm, hipMemGetInfo(&raw mut free, &raw mut total)), 0);
        assert_eq!((free, total), (1 << 19, 1 << 20));
        assert_eq!((call!(rocm, hipFree(held + 64)), call!(rocm, hipFree(held)), call!(rocm, hipFree(0))), (1, 0, 0));
        let mut record = vec![0u8; 4096];
        assert_eq!(call!(rocm, hipGetDevicePropertiesR0600(record.as_mut_ptr(), 0)), 0);
        assert_eq!(u64::from_ne_bytes(record[288..296].try_into().unwrap()), 1 << 20);
        assert_eq!(i32::from_ne_bytes(record[388..392].try_into().unwrap()), 256);
        assert_eq!(&record[1160..1167], b"gfx950\0");
        let mut cus = 0i32;
        assert_eq!(call!(rocm, hipDeviceGetAttribute(&raw mut cus, 63, 0)), 0);
        assert_eq!(cus, 256);
        assert_eq!(call!(rocm, hipDeviceGetAttribute(&raw mut cus, 63, 1)), 101);
        let mut text = [1u8; 16];
        assert_eq!(call!(rocm, hipDeviceGetPCIBusId(text.as_mut_ptr(), 16, 0)), 0);
        assert_eq!(&text[..13], b"0000:05:00.0\0");
        assert_eq!(call!(rocm, hipDeviceGetPCIBusId(text.as_mut_ptr(), 12, 0)), 1);
    });
}

#[test]
fn modules_hold_the_kernels_of_their_source() {
    in_child("modules_hold_the_kernels_of_their_source", TIMED, |rocm| {
        let source = c"extern \"C\" __global__ void fill(float* x) { x[0] = 1; }";
        let program =
            rocm.word(|place| call!(rocm, hiprtcCreateProgram(place, source.as_ptr(), c"fill".as_ptr(), 0, 0, 0)));
        let program = program.unwrap();
        let compile = |options: &[&std::ffi::CStr]| {
            let options: Vec<usize> = options.iter().map(|option| option.as_ptr() as usize).collect();
            call!(rocm, hiprtcCompileProgram(program, options.len(), options.as_ptr()))
        };
        assert_eq!(compile(&[c"-O3"]), 6);
        assert_eq!(compile(&[c"--offload-arch=gfx942:sramecc+:xnack-", c"-O3"]), 0);
        let bytes = rocm.word(|place| call!(rocm, hiprtcGetCodeSize(program, place))).unwrap();
        let mut code = vec![0u8; bytes];
        assert_eq!(call!(rocm, hiprtcGetCode(program, code.as_mut_ptr())), 0);
        let module = rocm.word(|place| call!(rocm, hipModuleLoadData(place, code.as_ptr()))).unwrap();
        let function =
            |name: &std::ffi::CStr| rocm.word(|place| call!(rocm, hipModuleGetFunction(place, module, name.as_ptr())));
        assert_eq!(function(c"empty"), Err(500));
        let fill = function(c"fill").unwrap();
        let launch = |threads: u32| call!(rocm, hipModuleLaunchKernel(fill, 1, 1, 1, threads, 1, 1, 0, 0, 0, 0));
        assert_eq!((launch(256), launch(2048)), (0, 1));
        code[0] ^= 1;
        assert_eq!(rocm.word(|place| call!(rocm, hipModuleLoadData(place, code.as_ptr()))), Err(200));
    });
}
