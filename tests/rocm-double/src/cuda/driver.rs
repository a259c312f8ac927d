//! The CUDA driver (`cuda.h`).

use super::table::table;

/// HIP took over the driver's numbers for everything that both have.
fn hip_error(status: i32) -> i32 {
    match status {
        1..=4 | 100 | 101 | 200 | 201 | 209 | 218 | 300..=304 | 400 | 401 | 500 | 600 | 700..=702 | 708 | 709 | 719 => {
            status
        }
        801 | 900..=908 | 910 => status,
        _ => 999,
    }
}

table! {
    /// libcuda. Device pointers are addresses.
    Driver, hip_error;
    fn init = "cuInit" (flags: u32);
    fn device_count = "cuDeviceGetCount" (place: usize);
    fn attribute = "cuDeviceGetAttribute" (place: usize, attribute: i32, device: i32);
    fn bus_id = "cuDeviceGetPCIBusId" (text: usize, bytes: i32, device: i32);
    fn total_memory = "cuDeviceTotalMem_v2" (place: usize, device: i32);
    fn retain_context = "cuDevicePrimaryCtxRetain" (place: usize, device: i32);
    fn set_context = "cuCtxSetCurrent" (context: usize);
    fn synchronize = "cuCtxSynchronize" ();
    fn memory_info = "cuMemGetInfo_v2" (free: usize, total: usize);
    fn allocate = "cuMemAlloc_v2" (place: usize, bytes: usize);
    fn free = "cuMemFree_v2" (address: usize);
    fn host_allocate = "cuMemHostAlloc" (place: usize, bytes: usize, flags: u32);
    fn host_free = "cuMemFreeHost" (address: usize);
    fn memset = "cuMemsetD8_v2" (to: usize, byte: u8, bytes: usize);
    fn memset_async = "cuMemsetD8Async" (to: usize, byte: u8, bytes: usize, stream: usize);
    fn memcpy = "cuMemcpy" (to: usize, from: usize, bytes: usize);
    fn memcpy_async = "cuMemcpyAsync" (to: usize, from: usize, bytes: usize, stream: usize);
    fn stream_create = "cuStreamCreate" (place: usize, flags: u32);
    fn stream_synchronize = "cuStreamSynchronize" (stream: usize);
    fn stream_destroy = "cuStreamDestroy_v2" (stream: usize);
    fn stream_capture_info = "cuStreamGetCaptureInfo_v2" (
        stream: usize, status: usize, id: usize, graph: usize, needs: usize, needs_len: usize,
    );
    fn exchange_capture_mode = "cuThreadExchangeStreamCaptureMode" (mode: usize);
    fn stream_is_capturing = "cuStreamIsCapturing" (stream: usize, place: usize);
    fn event_create = "cuEventCreate" (place: usize, flags: u32);
    fn event_record = "cuEventRecord" (event: usize, stream: usize);
    fn event_synchronize = "cuEventSynchronize" (event: usize);
    fn event_query = "cuEventQuery" (event: usize);
    fn event_elapsed = "cuEventElapsedTime" (place: usize, start: usize, end: usize);
    fn event_destroy = "cuEventDestroy_v2" (event: usize);
    fn capture_begin = "cuStreamBeginCapture_v2" (stream: usize, mode: i32);
    fn capture_end = "cuStreamEndCapture" (stream: usize, place: usize);
    fn graph_instantiate = "cuGraphInstantiateWithFlags" (place: usize, graph: usize, flags: u64);
    fn graph_clone = "cuGraphClone" (place: usize, graph: usize);
    fn graph_nest = "cuGraphAddChildGraphNode" (
        place: usize, graph: usize, needs: usize, needs_len: usize, child: usize,
    );
    fn exec_update = "cuGraphExecUpdate_v2" (exec: usize, graph: usize, result: usize);
    fn graph_nodes = "cuGraphGetNodes" (graph: usize, nodes: usize, count: usize);
    fn graph_launch = "cuGraphLaunch" (exec: usize, stream: usize);
    fn exec_destroy = "cuGraphExecDestroy" (exec: usize);
    fn graph_destroy = "cuGraphDestroy" (graph: usize);
    fn module_load = "cuModuleLoadData" (place: usize, image: usize);
    fn module_function = "cuModuleGetFunction" (place: usize, module: usize, name: usize);
    fn module_unload = "cuModuleUnload" (module: usize);
    fn launch_kernel = "cuLaunchKernel" (
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: usize, params: usize, extra: usize,
    );
}
