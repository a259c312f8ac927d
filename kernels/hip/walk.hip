// Straight code, 28 KB of it on NVIDIA, where a step is four instructions of 16 bytes: as an engine's other kernels leave the
// first instruction cache full of theirs between two products of one kind. One source for HIP and CUDA; compiled at run time;
// no headers.
#define STEP a = a * x + 1.25f; b = b * x + 1.5f; c = c * x + 1.75f; d = d * x + 1.125f;
#define TWICE(...) __VA_ARGS__ __VA_ARGS__
#define SEVEN(...) TWICE(__VA_ARGS__) TWICE(__VA_ARGS__) TWICE(__VA_ARGS__) __VA_ARGS__

extern "C" __global__ void tgemm_walk(float *scratch) {
    float x = scratch[threadIdx.x], a = x, b = x, c = x, d = x;
    TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(SEVEN(STEP)))))))
    scratch[threadIdx.x] = a + b + c + d;
}
