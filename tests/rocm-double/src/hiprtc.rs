//! libhiprtc. On the host it compiles nothing: it finds the names of a source's kernels, so that modules can be loaded and
//! their launches noted. In CUDA mode NVRTC compiles.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::abi::{Answer, Out, Text, answer, exports, read_at, read_bytes, write_bytes};
use crate::state::Double;

/// `hiprtcResult`.
const INVALID_INPUT: i32 = 3;
const INVALID_PROGRAM: i32 = 4;
const COMPILATION: i32 = 6;
pub const INTERNAL: i32 = 11;

/// Begins the host's code objects; a length and the names of kernels, one a line, follow.
const MAGIC: u64 = u64::from_ne_bytes(*b"TGEMMDBL");

/// Longer is no code of ours.
const NAMES_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
struct Program {
    source: String,
    log: String,
    code: Vec<u8>,
    lowered: HashMap<String, CString>,
}

static PROGRAMS: LazyLock<Mutex<HashMap<usize, Program>>> = LazyLock::new(Mutex::default);

fn programs() -> MutexGuard<'static, HashMap<usize, Program>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rtc_call(body: impl FnOnce(&'static Double) -> Answer) -> i32 {
    answer(INTERNAL, INTERNAL, body)
}

/// The kernels' names, if there is code of the host's at `image`.
pub fn kernels_in_code(image: usize) -> Option<Vec<u8>> {
    let magic = read_at::<u64>(image)?;
    let bytes = if magic == MAGIC { read_at::<u64>(image + 8)? as usize } else { return None };
    (bytes <= NAMES_BYTES_MAX).then(|| read_bytes(image + 16, bytes))
}

/// The names behind each `__global__`: the word before the first bracket that opens no attribute.
fn kernels_in_source(source: &str) -> Vec<String> {
    let name = |rest: &str| {
        let rest = match rest.find("__launch_bounds__") {
            Some(at) if rest[..at].trim().is_empty() => rest.split_once(')')?.1,
            _ => rest,
        };
        let head = rest.split_once('(')?.0;
        head.split_whitespace().last().map(str::to_owned)
    };
    source.split("__global__").skip(1).filter_map(name).collect()
}

fn compile(program: &mut Program, options: &[String]) -> Answer {
    let count = |mark: char| program.source.matches(mark).count();
    let problem = if !options.iter().any(|option| option.starts_with("--offload-arch=gfx")) {
        Some("no --offload-arch=gfx…".to_owned())
    } else if count('{') != count('}') {
        Some("error: braces do not match".to_owned())
    } else {
        program.source.lines().find(|line| line.trim_start().starts_with("#error")).map(|line| format!("error: {line}"))
    };
    if let Some(problem) = problem {
        program.log = problem;
        return Err(COMPILATION);
    }
    let names = kernels_in_source(&program.source).join("\n");
    program.code = MAGIC.to_ne_bytes().to_vec();
    program.code.extend((names.len() as u64).to_ne_bytes());
    program.code.extend(names.bytes());
    Ok(())
}

fn texts(count: i32, list: usize) -> Option<Vec<String>> {
    let at = |place: usize| read_at::<Text>(list + place * size_of::<usize>())?.read();
    (0..usize::try_from(count).ok()?).map(at).collect()
}

exports! { rtc_call;
    fn hiprtcVersion(major: Out<i32>, minor: Out<i32>) |double| {
        let hip = double.versions.hip;
        if major.put(hip / 10_000_000) && minor.put(hip / 100_000 % 100) { Ok(()) } else { Err(INVALID_INPUT) }
    }

    fn hiprtcCreateProgram(
        place: Out<usize>, source: Text, name: Text, header_count: i32, headers: usize, names: usize,
    ) |double| {
        if let Err(cuda) = double.host() {
            return cuda.rtc.as_ref().map_err(|_| INTERNAL)?.create(
                place.address(), source.address(), name.address(), header_count, headers, names,
            );
        }
        let source = source.read().ok_or(INVALID_INPUT)?;
        let mut programs = programs();
        let handle = 0x10 + 0x10 * programs.keys().max().map_or(0, |largest| largest / 0x10);
        programs.insert(handle, Program { source, ..Program::default() });
        if place.put(handle) { Ok(()) } else { Err(INVALID_INPUT) }
    }

    fn hiprtcDestroyProgram(place: Out<usize>) |double| {
        if let Err(cuda) = double.host() {
            return cuda.rtc.as_ref().map_err(|_| INTERNAL)?.destroy(place.address());
        }
        let handle = place.get().ok_or(INVALID_INPUT)?;
        place.put(0);
        programs().remove(&handle).map(|_| ()).ok_or(INVALID_PROGRAM)
    }

    fn hiprtcCompileProgram(program: usize, count: i32, options: usize) |double| {
        let options = texts(count, options).ok_or(INVALID_INPUT)?;
        if let Err(cuda) = double.host() {
            return cuda.compile(program, &options);
        }
        compile(programs().get_mut(&program).ok_or(INVALID_PROGRAM)?, &options)
    }

    fn hiprtcGetProgramLogSize(program: usize, bytes: Out<usize>) |double| {
        if let Err(cuda) = double.host() {
            return cuda.rtc.as_ref().map_err(|_| INTERNAL)?.log_size(program, bytes.address());
        }
        let length = programs().get(&program).ok_or(INVALID_PROGRAM)?.log.len() + 1;
        if bytes.put(length) { Ok(()) } else { Err(INVALID_INPUT) }
    }

    fn hiprtcGetProgramLog(program: usize, text: usize) |double| {
        if let Err(cuda) = double.host() {
            return cuda.rtc.as_ref().map_err(|_| INTERNAL)?.log(program, text);
        }
        write_bytes(text, format!("{}\0", programs().get(&program).ok_or(INVALID_PROGRAM)?.log).as_bytes());
        Ok(())
    }

    fn hiprtcGetCodeSize(program: usize, bytes: Out<usize>) |double| {
        if let Err(cuda) = double.host() {
            return cuda.rtc.as_ref().map_err(|_| INTERNAL)?.code_size(program, bytes.address());
        }
        let length = programs().get(&program).ok_or(INVALID_PROGRAM)?.code.len();
        if bytes.put(length) { Ok(()) } else { Err(INVALID_INPUT) }
    }

    fn hiprtcGetCode(program: usize, code: usize) |double| {
        if let Err(cuda) = double.host() {
            return cuda.rtc.as_ref().map_err(|_| INTERNAL)?.code(program, code);
        }
        write_bytes(code, &programs().get(&program).ok_or(INVALID_PROGRAM)?.code);
        Ok(())
    }

    fn hiprtcAddNameExpression(program: usize, name: Text) |double| {
        if let Err(cuda) = double.host() {
            return cuda.rtc.as_ref().map_err(|_| INTERNAL)?.add_name(program, name.address());
        }
        let name = name.read().ok_or(INVALID_INPUT)?;
        let lowered = CString::new(name.as_str()).map_err(|_| INVALID_INPUT)?;
        programs().get_mut(&program).ok_or(INVALID_PROGRAM)?.lowered.insert(name, lowered);
        Ok(())
    }

    fn hiprtcGetLoweredName(program: usize, name: Text, place: Out<usize>) |double| {
        if let Err(cuda) = double.host() {
            return cuda.rtc.as_ref().map_err(|_| INTERNAL)?.lowered_name(program, name.address(), place.address());
        }
        let programs = programs();
        let program = programs.get(&program).ok_or(INVALID_PROGRAM)?;
        let lowered = program.lowered.get(&name.read().ok_or(INVALID_INPUT)?).ok_or(INVALID_INPUT)?;
        if place.put(lowered.as_ptr() as usize) { Ok(()) } else { Err(INVALID_INPUT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_in_a_source() {
        let source = "extern \"C\" __global__ void fill(float* p) {}\n__global__ __launch_bounds__(256) void other_one(int n) {}";
        assert_eq!(kernels_in_source(source), ["fill", "other_one"]);
        assert!(kernels_in_source("int f() { return 0; }").is_empty());
    }
}
