//! Drives the installed double as a client would, on whatever its script says: for a machine with an NVIDIA device,
//! `echo '{"mode":"cuda"}' >s.json; TGEMM_DOUBLE=s.json double_selftest libtgemm_rocm_double.so`.
//!
//! Prints a line a check and ends with 0 only if all hold.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::process::ExitCode;

use half::bf16;
use libloading::Library;
use tgemm_rocm_double::{built, install};

/// Calls a function by its C name, every argument as a word.
macro_rules! call {
    ($library:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: all arguments are integers or addresses, which take a word each; the result is an int.
        unsafe {
            let name = stringify!($name);
            let address = *$library.get::<*const c_void>(name).map_err(|error| format!("{name}: {error}"))?;
            let function: unsafe extern "C" fn($(word!($arg)),*) -> i32 = std::mem::transmute(address);
            match function($($arg as usize),*) {
                0 => Ok(()),
                status => Err(format!("{name}: {status}")),
            }
        }
    }};
}
macro_rules! word {
    ($arg:expr) => {
        usize
    };
}

fn got(call: impl FnOnce(usize) -> Result<(), String>) -> Result<usize, String> {
    let mut word = 0usize;
    call(&raw mut word as usize)?;
    Ok(word)
}

const M: usize = 256;
const N: usize = 64;
const K: usize = 512;

/// Launches of one graph, and replays of it.
const LAUNCHES: usize = 20;
const REPLAYS: usize = 10;

struct Product {
    lt: usize,
    desc: usize,
    layouts: [usize; 3],
    addresses: [usize; 3],
    algo: [u8; 24],
    workspace: usize,
}

const WORKSPACE_BYTES: usize = 32 << 20;

impl Product {
    fn launch(&self, hip: &Library, stream: usize) -> Result<(), String> {
        let (alpha, beta) = (1f32, 0f32);
        let ([la, lb, ld], [a, b, d]) = (self.layouts, self.addresses);
        let (alpha, beta, algo) = (&raw const alpha, &raw const beta, self.algo.as_ptr());
        let (desc, workspace) = (self.desc, self.workspace);
        call!(
            hip,
            hipblasLtMatmul(
                self.lt,
                desc,
                alpha,
                a,
                la,
                b,
                lb,
                beta,
                d,
                ld,
                d,
                ld,
                algo,
                workspace,
                WORKSPACE_BYTES,
                stream
            )
        )
    }
}

fn value(at: usize) -> f32 {
    ((at * 37 + at / 11) % 17) as f32 / 8.0 - 1.0
}

fn upload(hip: &Library, count: usize, shift: usize) -> Result<usize, String> {
    let bytes: Vec<u8> = (0..count).flat_map(|at| bf16::from_f32(value(at + shift)).to_ne_bytes()).collect();
    let to = got(|place| call!(hip, hipMalloc(place, bytes.len())))?;
    call!(hip, hipMemcpy(to, bytes.as_ptr(), bytes.len(), 1))?;
    Ok(to)
}

fn described(hip: &Library) -> Result<Product, String> {
    let lt = got(|place| call!(hip, hipblasLtCreate(place)))?;
    let desc = got(|place| call!(hip, hipblasLtMatmulDescCreate(place, 2, 0)))?;
    let transposed = 112i32;
    call!(hip, hipblasLtMatmulDescSetAttribute(desc, 0, &raw const transposed, 4))?;
    let layout =
        |rows: usize, cols: usize| got(|place| call!(hip, hipblasLtMatrixLayoutCreate(place, 14, rows, cols, rows)));
    let layouts = [layout(K, M)?, layout(K, N)?, layout(M, N)?];
    let addresses = [upload(hip, K * M, 0)?, upload(hip, K * N, 5)?, upload(hip, M * N, 9)?];
    let workspace = got(|place| call!(hip, hipMalloc(place, WORKSPACE_BYTES)))?;
    let preference = got(|place| call!(hip, hipblasLtMatmulPreferenceCreate(place)))?;
    let bytes = WORKSPACE_BYTES as u64;
    call!(hip, hipblasLtMatmulPreferenceSetAttribute(preference, 1, &raw const bytes, 8))?;
    let mut results = vec![0u8; 56 * 1000];
    let [la, lb, ld] = layouts;
    let list = results.as_mut_ptr();
    let count = got(|place| {
        call!(hip, hipblasLtMatmulAlgoGetHeuristic(lt, desc, la, lb, ld, ld, preference, 1000, list, place))
    })?;
    let algo: [u8; 24] = results[..24].try_into().map_err(|_| "no result")?;
    println!("PASS heuristic: {count} solutions, first {:02x?}", &algo[..4]);
    Ok(Product { lt, desc, layouts, addresses, algo, workspace })
}

fn check(hip: &Library, product: &Product) -> Result<(), String> {
    let mut bytes = vec![0u8; 2 * M * N];
    call!(hip, hipMemcpy(bytes.as_mut_ptr(), product.addresses[2], bytes.len(), 2))?;
    let mut worst = 0f64;
    for (at, pair) in bytes.chunks_exact(2).enumerate() {
        let (row, col) = (at % M, at / M);
        let rounded = |at: usize| f64::from(bf16::from_f32(value(at)).to_f32());
        let exact: f64 = (0..K).map(|k| rounded(row * K + k) * rounded(col * K + k + 5)).sum();
        let found = f64::from(bf16::from_ne_bytes([pair[0], pair[1]]).to_f32());
        worst = worst.max((found - exact).abs() / exact.abs().max(1.0));
    }
    if worst > 0.01 { Err(format!("an element is off by {worst}")) } else { Ok(()) }
}

fn run(folder: &Path) -> Result<(), String> {
    let cdylib = std::env::args_os().nth(1).map_or_else(built, |file| Ok(file.into()));
    let cdylib = cdylib.map_err(|error| error.to_string())?;
    let paths = install(folder, &cdylib, 7).map_err(|error| error.to_string())?;
    // SAFETY: the double's initialisers do nothing.
    let hip = unsafe { Library::new(&paths[0]) }.map_err(|error| error.to_string())?;
    call!(hip, hipInit(0))?;
    call!(hip, hipSetDevice(0))?;
    let mut record = vec![0u8; 4096];
    call!(hip, hipGetDevicePropertiesR0600(record.as_mut_ptr(), 0))?;
    let arch = CStr::from_bytes_until_nul(&record[1160..1416]).map_err(|error| error.to_string())?;
    let cus = i32::from_ne_bytes([record[388], record[389], record[390], record[391]]);
    println!("PASS device: {} with {cus} compute units", arch.to_string_lossy());
    let stream = got(|place| call!(hip, hipStreamCreateWithFlags(place, 1)))?;
    let mut product = described(&hip)?;
    product.launch(&hip, stream)?;
    call!(hip, hipStreamSynchronize(stream))?;
    check(&hip, &product)?;
    println!("PASS product");
    // By its index alone, as a stored choice would name it.
    product.algo[4..].fill(0);
    call!(hip, hipMemset(product.addresses[2], 0xff, 2 * M * N))?;
    call!(hip, hipStreamBeginCapture(stream, 1))?;
    for _ in 0..LAUNCHES {
        product.launch(&hip, stream)?;
    }
    let graph = got(|place| call!(hip, hipStreamEndCapture(stream, place)))?;
    let exec = got(|place| call!(hip, hipGraphInstantiate(place, graph, 0, 0, 0)))?;
    let events = [0, 1].map(|_| got(|place| call!(hip, hipEventCreateWithFlags(place, 0))));
    let [start, end] = [events[0].clone()?, events[1].clone()?];
    call!(hip, hipGraphLaunch(exec, stream))?;
    call!(hip, hipEventRecord(start, stream))?;
    for _ in 0..REPLAYS {
        call!(hip, hipGraphLaunch(exec, stream))?;
    }
    call!(hip, hipEventRecord(end, stream))?;
    call!(hip, hipEventSynchronize(end))?;
    let mut ms = 0f32;
    call!(hip, hipEventElapsedTime(&raw mut ms, start, end))?;
    check(&hip, &product)?;
    let us = f64::from(ms) * 1e3 / (LAUNCHES * REPLAYS) as f64;
    if us.is_nan() || us <= 0.0 {
        return Err(format!("{us} us a launch"));
    }
    println!("PASS replay: {us:.3} us a launch");
    compile(&hip)
}

fn compile(hip: &Library) -> Result<(), String> {
    let source = c"extern \"C\" __global__ void fill(float* x, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 3.f; }";
    let program = got(|place| call!(hip, hiprtcCreateProgram(place, source.as_ptr(), c"fill.hip".as_ptr(), 0, 0, 0)))?;
    let options: [*const c_char; 2] = [c"--offload-arch=gfx942".as_ptr(), c"-O3".as_ptr()];
    call!(hip, hiprtcCompileProgram(program, options.len(), options.as_ptr()))?;
    let bytes = got(|place| call!(hip, hiprtcGetCodeSize(program, place)))?;
    let mut code = vec![0u8; bytes];
    call!(hip, hiprtcGetCode(program, code.as_mut_ptr()))?;
    let module = got(|place| call!(hip, hipModuleLoadData(place, code.as_ptr())))?;
    let function = got(|place| call!(hip, hipModuleGetFunction(place, module, c"fill".as_ptr())))?;
    let (buffer, count) = (got(|place| call!(hip, hipMalloc(place, 4000)))?, 1000i32);
    let params = [&raw const buffer as usize, &raw const count as usize];
    call!(hip, hipModuleLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, 0, params.as_ptr(), 0))?;
    call!(hip, hipDeviceSynchronize())?;
    println!("PASS module: {bytes} bytes of code");
    Ok(())
}

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("tgemm-double-{}", std::process::id()));
    let ran = run(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("FAIL {reason}");
            ExitCode::FAILURE
        }
    }
}
