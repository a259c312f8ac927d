//! A C client of the double: it is opened by soname in a child process, with a script of its own, and called by name.
#![allow(dead_code, reason = "each test file uses its part")]

use std::env;
use std::ffi::c_void;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use half::{bf16, f16};
use libloading::Library;
use tgemm_rocm_double::{SCRIPT_VAR, built, install, sonames};

/// What a child says that ran its body to the end: a filter that matches no test succeeds too.
const DONE: &str = "the body has run";

const CHILD_VAR: &str = "TGEMM_DOUBLE_TEST_CHILD";
const GENERATION_VAR: &str = "TGEMM_DOUBLE_TEST_GENERATION";

/// Runs `body` in a process that finds the double of `generation` by its sonames; how that ended, and what it printed.
/// In that process itself: runs `body`, and ends.
pub fn child(
    test: &str,
    generation: u32,
    script: &str,
    patience: Duration,
    body: impl FnOnce(&Rocm),
) -> (Option<ExitStatus>, String) {
    if env::var(CHILD_VAR).as_deref() == Ok(test) {
        // Of several children of a test only the parent knows which one this is.
        let generation = env::var(GENERATION_VAR).unwrap().parse().unwrap();
        body(&Rocm::open(generation));
        println!("{DONE}");
        // Not by returning: the parent's assertions behind this call are not the child's.
        std::process::exit(0);
    }
    let folder = tempfile::tempdir().unwrap();
    let libraries = folder.path().join("lib");
    install(&libraries, &built().unwrap(), generation).unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, script.replace("TRACE", &folder.path().join("trace.jsonl").display().to_string())).unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(GENERATION_VAR, generation.to_string());
    command.env(CHILD_VAR, test).env(SCRIPT_VAR, &file).env("LD_LIBRARY_PATH", &libraries);
    command.env("DOUBLE_TRACE", folder.path().join("trace.jsonl"));
    let to = std::fs::File::create(&log).unwrap();
    command.stdin(Stdio::null()).stdout(to.try_clone().unwrap()).stderr(to);
    let mut process = command.spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        match process.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if began.elapsed() > patience => {
                process.kill().unwrap();
                process.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    (status, std::fs::read_to_string(log).unwrap())
}

/// As above; the child must succeed.
pub fn in_child(test: &str, script: &str, body: impl FnOnce(&Rocm)) {
    let (status, log) = child(test, 7, script, Duration::from_secs(60), body);
    assert!(status.is_some_and(|status| status.success()) && log.contains(DONE), "{test}: {status:?}\n{log}");
}

/// Calls a function by its C name; every argument is passed as a word, which C reads its width of.
macro_rules! call {
    ($rocm:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let address = $rocm.address(stringify!($name));
        // SAFETY: all arguments are integers or addresses, which take a word each; the result is an int.
        unsafe {
            let function = std::mem::transmute::<*const std::ffi::c_void, unsafe extern "C" fn($($crate::common::word!($arg)),*) -> i32>(address);
            function($($arg as usize),*)
        }
    }};
}
macro_rules! word {
    ($arg:expr) => {
        usize
    };
}
pub(crate) use {call, word};

/// The five libraries.
pub struct Rocm(Vec<Library>);

impl Rocm {
    pub fn open(generation: u32) -> Rocm {
        // SAFETY: the double's initialisers do nothing.
        Rocm(sonames(generation).unwrap().iter().map(|name| unsafe { Library::new(*name) }.unwrap()).collect())
    }

    pub fn address(&self, symbol: &str) -> *const c_void {
        // SAFETY: taken as an address.
        *unsafe { self.0[0].get::<*const c_void>(symbol) }.unwrap_or_else(|error| panic!("{symbol}: {error}"))
    }

    /// A word that a call writes.
    pub fn word(&self, get: impl FnOnce(usize) -> i32) -> Result<usize, i32> {
        let mut word = 0usize;
        match get(&raw mut word as usize) {
            0 => Ok(word),
            status => Err(status),
        }
    }

    pub fn malloc(&self, bytes: usize) -> usize {
        self.word(|place| call!(self, hipMalloc(place, bytes))).unwrap()
    }

    pub fn upload(&self, bytes: &[u8]) -> usize {
        let to = self.malloc(bytes.len());
        assert_eq!(call!(self, hipMemcpy(to, bytes.as_ptr(), bytes.len(), 1)), 0);
        to
    }

    pub fn download(&self, from: usize, count: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; count];
        assert_eq!(call!(self, hipMemcpy(bytes.as_mut_ptr(), from, count, 2)), 0);
        bytes
    }

    pub fn stream(&self) -> usize {
        self.word(|place| call!(self, hipStreamCreateWithFlags(place, 1))).unwrap()
    }

    pub fn lt(&self) -> usize {
        self.word(|place| call!(self, hipblasLtCreate(place))).unwrap()
    }

    pub fn layout(&self, number: i32, rows: usize, cols: usize, ld: usize) -> usize {
        self.word(|place| call!(self, hipblasLtMatrixLayoutCreate(place, number, rows, cols, ld))).unwrap()
    }

    pub fn set_desc<T>(&self, desc: usize, attribute: i32, value: T) -> i32 {
        call!(self, hipblasLtMatmulDescSetAttribute(desc, attribute, &raw const value, size_of::<T>()))
    }

    /// (status, results): index, workspace.
    pub fn heuristic(&self, lt: usize, at: &Product, workspace_bytes: u64, requested: usize) -> (i32, Vec<(i32, u64)>) {
        let preference = self.word(|place| call!(self, hipblasLtMatmulPreferenceCreate(place))).unwrap();
        let set = call!(self, hipblasLtMatmulPreferenceSetAttribute(preference, 1, &raw const workspace_bytes, 8));
        assert_eq!(set, 0);
        let mut results = vec![0u8; 56 * requested];
        let mut returned = 0i32;
        let [a, b, c, d] = at.layouts;
        let (list, count) = (results.as_mut_ptr() as usize, &raw mut returned as usize);
        let status =
            call!(self, hipblasLtMatmulAlgoGetHeuristic(lt, at.desc, a, b, c, d, preference, requested, list, count));
        let found = results.chunks_exact(56).take(returned as usize).map(|result| {
            assert_eq!(i32::from_ne_bytes(result[32..36].try_into().unwrap()), 0, "state");
            (index_of(result), u64::from_ne_bytes(result[24..32].try_into().unwrap()))
        });
        (status, found.collect())
    }

    /// One `hipblasLtMatmul` by index, or by the library's choice.
    pub fn matmul(&self, lt: usize, at: &Product, index: Option<i32>, stream: usize) -> i32 {
        let [la, lb, lc, ld] = at.layouts;
        let [a, b, c, d] = at.addresses;
        let mut algo = [0u8; 24];
        algo[..4].copy_from_slice(&index.unwrap_or(0).to_ne_bytes());
        let algo = if index.is_some() { algo.as_ptr() } else { std::ptr::null() };
        let (alpha, beta) = (&raw const at.alpha, &raw const at.beta);
        let (workspace, bytes) = at.workspace;
        call!(
            self,
            hipblasLtMatmul(lt, at.desc, alpha, a, la, b, lb, beta, c, lc, d, ld, algo, workspace, bytes, stream)
        )
    }
}

pub fn index_of(algo: &[u8]) -> i32 {
    i32::from_ne_bytes(algo[..4].try_into().unwrap())
}

/// Descriptors and addresses of a product.
#[derive(Clone, Debug)]
pub struct Product {
    pub desc: usize,
    pub layouts: [usize; 4],
    pub addresses: [usize; 4],
    pub alpha: f32,
    pub beta: f32,
    pub workspace: (usize, usize),
}

/// A product of packed bf16 matrices, TN, m × n × k, D = C.
pub fn bf16_product(rocm: &Rocm, m: usize, n: usize, k: usize) -> (Product, Vec<f64>) {
    let (a, b) = (numbers(k * m, 1), numbers(k * n, 2));
    let bytes = |values: &[f64]| values.iter().flat_map(|v| bf16::from_f64(*v).to_ne_bytes()).collect::<Vec<u8>>();
    let desc = rocm.word(|place| call!(rocm, hipblasLtMatmulDescCreate(place, 2, 0))).unwrap();
    assert_eq!(rocm.set_desc(desc, 0, 112i32), 0);
    let layout = |rows: usize, cols: usize| rocm.layout(14, rows, cols, rows);
    let d = rocm.malloc(2 * m * n);
    let (workspace, size) = (rocm.malloc(1 << 20), 1 << 20);
    let product = Product {
        desc,
        layouts: [layout(k, m), layout(k, n), layout(m, n), layout(m, n)],
        addresses: [rocm.upload(&bytes(&a)), rocm.upload(&bytes(&b)), d, d],
        alpha: 1.0,
        beta: 0.0,
        workspace: (workspace, size),
    };
    let dot = |row: usize, col: usize| (0..k).map(|at| a[row * k + at] * b[col * k + at]).sum::<f64>();
    let expected = (0..m * n).map(|at| dot(at % m, at / m)).collect();
    (product, expected)
}

/// D of a [`bf16_product`].
pub fn bf16_output(rocm: &Rocm, product: &Product, count: usize) -> Vec<f64> {
    let bytes = rocm.download(product.addresses[3], 2 * count);
    bytes.chunks_exact(2).map(|pair| bf16::from_ne_bytes([pair[0], pair[1]]).to_f64()).collect()
}

/// Numbers of few bits, exact in every type of 16 bits and more, and in e5m2 and e4m3.
pub fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        [-2.0, -1.0, -0.5, 0.25, 0.5, 1.0, 1.5, 3.0][(state >> 32) as usize % 8]
    };
    (0..count).map(|_| next()).collect()
}

/// How the bytes of a type are read and written in tests: (`hipDataType`, bytes).
pub fn encode(number: i32, value: f64) -> Vec<u8> {
    // 8-bit: (mantissa bits, bias) from the formats' definitions; the values of `numbers` are exact in all.
    let fp8 = |mantissa: u32, bias: i32| {
        let exponent = value.abs().log2().floor() as i32;
        let fraction = ((value.abs() / f64::from(exponent).exp2() - 1.0) * f64::from(1 << mantissa)) as u8;
        vec![(u8::from(value < 0.0) << 7) | (((exponent + bias) as u8) << mantissa) | fraction]
    };
    match number {
        0 => (value as f32).to_ne_bytes().to_vec(),
        1 => value.to_ne_bytes().to_vec(),
        2 => f16::from_f64(value).to_ne_bytes().to_vec(),
        14 => bf16::from_f64(value).to_ne_bytes().to_vec(),
        28 => fp8(3, 7),
        29 => fp8(2, 15),
        1000 => fp8(3, 8),
        1001 => fp8(2, 16),
        other => panic!("type {other}"),
    }
}

pub fn decode(number: i32, bytes: &[u8]) -> f64 {
    match number {
        0 => f32::from_ne_bytes(bytes.try_into().unwrap()).into(),
        1 => f64::from_ne_bytes(bytes.try_into().unwrap()),
        2 => f16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        14 => bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        other => panic!("type {other}"),
    }
}
