#!/usr/bin/env python3
"""A program of AMD's own Python bindings that needs a card, to be run against whatever the loader finds as ROCm.

    ROCM_PATH=FOLDER LD_LIBRARY_PATH=FOLDER/lib rocm_client.py

It asks for the device, moves bytes, times with events, lists algorithms of a matrix product, runs one of them and the
library's own choice, and computes the product a second time itself. It was written for libraries that stand in for ROCm's in
tests: what this program takes for ROCm, other programs than ours do too. It runs on a real card as well.
"""

import array
import ctypes
import random
import sys

from rocm.bindings import hip, hipblas, hipblaslt, hiprtc

M, N, K = 48, 20, 64
RESULT_BYTES_MAX = 64


def checked(answer):
    """What a call gave besides its status."""
    status, *values = answer
    if status.value != 0:
        raise SystemExit(f"{status!r}")
    return values[0] if len(values) == 1 else values


def device():
    """The device in words; every source of a number must give the same."""
    count = checked(hip.hipGetDeviceCount())
    if count < 1:
        raise SystemExit("no device")
    checked(hip.hipSetDevice(0))
    properties = checked(hip.hipGetDeviceProperties(0))
    asked = hip.hipDeviceAttribute_t
    for name, attribute in [
        ("multiProcessorCount", asked.hipDeviceAttributeMultiprocessorCount),
        ("l2CacheSize", asked.hipDeviceAttributeL2CacheSize),
        ("warpSize", asked.hipDeviceAttributeWarpSize),
    ]:
        value = checked(hip.hipDeviceGetAttribute(attribute, 0))
        if value != getattr(properties, name):
            raise SystemExit(f"{attribute!r} is {value}, but the record says {getattr(properties, name)}")
    _, total = checked(hip.hipMemGetInfo())
    if total != properties.totalGlobalMem:
        raise SystemExit(f"{total} bytes of memory, but the record says {properties.totalGlobalMem}")
    return f"{count} x {properties.gcnArchName} with {properties.multiProcessorCount} units"


def upload(values):
    """A device copy of single-precision values."""
    host = array.array("f", values)
    bytes_len = len(host) * host.itemsize
    to = checked(hip.hipMalloc(bytes_len))
    checked(hip.hipMemcpy(to, host, bytes_len, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    return to


def download(source, count):
    """The values of a device copy."""
    host = array.array("f", bytes(4 * count))
    checked(hip.hipMemcpy(host, source, 4 * count, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    return host


def set_attribute(call, of, attribute, value):
    """Sets an attribute to a number of C."""
    checked(call(of, attribute, ctypes.addressof(value), ctypes.sizeof(value)))


def algorithms(handle, desc, layouts, preference):
    """The library's list: (algorithm, workspace) each, read from the list's bytes."""
    result = hipblaslt.hipblasLtMatmulHeuristicResult_t()
    size = result.c_sizeof()
    room = ctypes.create_string_buffer(size * RESULT_BYTES_MAX)
    answer = hipblaslt.hipblasLtMatmulAlgoGetHeuristic(
        handle, desc, *layouts, preference, RESULT_BYTES_MAX, ctypes.addressof(room)
    )
    found = []
    for at in range(checked(answer)):
        one = hipblaslt.hipblasLtMatmulHeuristicResult_t.fromObj(ctypes.addressof(room) + at * size)
        if one.state.value == 0:
            found.append((ctypes.addressof(room) + at * size, one.workspaceSize))
    return room, found


def product():
    """One product by each way of asking for it; how many algorithms were listed, and the time of a launch in ms."""
    draw = random.Random(7)
    a, b = ([draw.choice([-1.0, -0.5, 0.25, 1.0, 2.0]) for _ in range(count)] for count in (M * K, K * N))
    # Column-major: A is stored K x M and transposed, B is K x N.
    expected = [sum(a[m * K + k] * b[n * K + k] for k in range(K)) for n in range(N) for m in range(M)]
    single, attribute = hip.hipDataType.HIP_R_32F, hipblaslt.hipblasLtMatmulDescAttributes_t
    handle = checked(hipblaslt.hipblasLtCreate())
    desc = checked(hipblaslt.hipblasLtMatmulDescCreate(hipblas.hipblasComputeType_t.HIPBLAS_COMPUTE_32F, single))
    transposed = ctypes.c_int32(hipblas.hipblasOperation_t.HIPBLAS_OP_T.value)
    set_desc = hipblaslt.hipblasLtMatmulDescSetAttribute
    set_attribute(set_desc, desc, attribute.HIPBLASLT_MATMUL_DESC_TRANSA, transposed)
    shapes = [(K, M), (K, N), (M, N), (M, N)]
    layouts = [checked(hipblaslt.hipblasLtMatrixLayoutCreate(single, rows, cols, rows)) for rows, cols in shapes]
    preference = checked(hipblaslt.hipblasLtMatmulPreferenceCreate())
    workspace_bytes = 1 << 22
    set_attribute(
        hipblaslt.hipblasLtMatmulPreferenceSetAttribute,
        preference,
        hipblaslt.hipblasLtMatmulPreferenceAttributes_t.HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        ctypes.c_uint64(workspace_bytes),
    )
    workspace = checked(hip.hipMalloc(workspace_bytes))
    device_a, device_b = upload(a), upload(b)
    room, found = algorithms(handle, desc, layouts, preference)
    if not found:
        raise SystemExit("no algorithm for a plain product of single precision")
    alpha, beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
    stream = checked(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    start, end = checked(hip.hipEventCreateWithFlags(0)), checked(hip.hipEventCreateWithFlags(0))
    for algorithm, needed in [found[0], (None, 0)]:
        if needed > workspace_bytes:
            raise SystemExit(f"{needed} bytes of workspace, but {workspace_bytes} were allowed")
        device_d = upload([float("nan")] * (M * N))
        checked(hip.hipEventRecord(start, stream))
        launched = hipblaslt.hipblasLtMatmul(
            handle, desc, ctypes.addressof(alpha), device_a, layouts[0], device_b, layouts[1], ctypes.addressof(beta),
            device_d, layouts[2], device_d, layouts[3], algorithm, workspace, workspace_bytes, stream,
        )
        checked(launched)
        checked(hip.hipEventRecord(end, stream))
        checked(hip.hipStreamSynchronize(stream))
        wrong = [at for at, (x, y) in enumerate(zip(download(device_d, M * N), expected)) if not abs(x - y) <= 1e-4]
        if wrong:
            raise SystemExit(f"{len(wrong)} of {M * N} outputs are wrong, the first at {wrong[0]}")
        checked(hip.hipFree(device_d))
    time_ms = checked(hip.hipEventElapsedTime(start, end))
    if not 0 < time_ms < 1e4:
        raise SystemExit(f"a launch took {time_ms} ms")
    for memory in (device_a, device_b, workspace):
        checked(hip.hipFree(memory))
    checked(hipblaslt.hipblasLtDestroy(handle))
    del room
    return len(found), time_ms


def main():
    checked(hip.hipInit(0))
    words = device()
    listed, time_ms = product()
    major, minor = checked(hiprtc.hiprtcVersion())
    print(f"{words}: {listed} algorithms, a product in {time_ms:.4f} ms is right; hipRTC {major}.{minor}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
