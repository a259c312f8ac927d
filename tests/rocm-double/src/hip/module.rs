//! Modules: code that hiprtc compiled.

use crate::abi::{Out, Text, exports, hip_call};
use crate::hiprtc::kernels_in_code;
use crate::host::{INVALID_HANDLE, INVALID_VALUE, Work};

/// `hipErrorInvalidImage`, `hipErrorNotFound`.
const INVALID_IMAGE: i32 = 200;
const NOT_FOUND: i32 = 500;

/// Threads of a block, on every part.
const BLOCK_THREADS_MAX: u64 = 1024;

exports! { hip_call;
    fn hipModuleLoadData(place: Out<usize>, image: usize) |double| {
        match double.host() {
            Ok(mut host) => {
                let kernels = kernels_in_code(image).ok_or(INVALID_IMAGE)?;
                let handle = host.handle();
                host.modules.insert(handle, kernels);
                if place.put(handle) { Ok(()) } else { Err(INVALID_VALUE) }
            }
            Err(cuda) => cuda.enter()?.module_load(place.address(), image),
        }
    }

    fn hipModuleGetFunction(place: Out<usize>, module: usize, name: Text) |double| {
        match double.host() {
            Ok(mut host) => {
                let kernels = host.modules.get(&module).ok_or(INVALID_HANDLE)?;
                let name = name.read().ok_or(INVALID_VALUE)?;
                let names = String::from_utf8_lossy(kernels).into_owned();
                if !names.lines().any(|have| have == name) {
                    return Err(NOT_FOUND);
                }
                let handle = host.handle();
                host.functions.insert(handle, name);
                if place.put(handle) { Ok(()) } else { Err(INVALID_VALUE) }
            }
            Err(cuda) => cuda.enter()?.module_function(place.address(), module, name.address()),
        }
    }

    fn hipModuleUnload(module: usize) |double| {
        match double.host() {
            Ok(mut host) => host.modules.remove(&module).map(|_| ()).ok_or(INVALID_HANDLE),
            Err(cuda) => cuda.enter()?.module_unload(module),
        }
    }

    fn hipModuleLaunchKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: usize, params: usize, extra: usize,
    ) |double| {
        match double.host() {
            Ok(mut host) => {
                let name = host.functions.get(&function).cloned().ok_or(INVALID_HANDLE)?;
                let threads = [block_x, block_y, block_z].into_iter().map(u64::from).product::<u64>();
                let blocks = [grid_x, grid_y, grid_z].into_iter().map(u64::from).product::<u64>();
                if threads == 0 || threads > BLOCK_THREADS_MAX || blocks == 0 {
                    return Err(INVALID_VALUE);
                }
                host.enqueue(stream, &Work::Kernel { name })
            }
            Err(cuda) => cuda.enter()?.launch_kernel(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, extra,
            ),
        }
    }
}
