// Looks over rows of cells in device memory: which were never written, which are no numbers, which gaps between rows were
// written to, and a digest of every bit. One source for HIP and CUDA; compiled at run time; no headers.
//
// report[0..2]: the first (lowest) number of an unwritten cell, of a cell that is no number or infinite, of a row whose gap
// was written to; all ones where there is none. report[3]: the sum of a mix of each cell's number and bits.

typedef unsigned long long u64;
typedef unsigned int u32;

// Of a block; whoever launches knows it too.
#define THREADS 256

// One step of a multiplicative mixer (the finaliser of MurmurHash3): spreads every bit over the word.
__device__ static u64 mix(u64 x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

// kind: 0 binary32, 1 binary16, 2 bfloat16. prefill: the byte in every unwritten cell, or -1.
extern "C" __global__ void tgemm_survey(const unsigned char *base, u64 rows, u64 cols, u64 row_bytes, int kind, int prefill,
                                        int gap, u64 *report) {
    const u64 size = kind == 0 ? 4 : 2;
    const u32 exponent = kind == 0 ? 0x7f800000u : kind == 1 ? 0x7c00u : 0x7f80u;
    const u32 untouched = prefill < 0 ? 0 : (u32)prefill * (kind == 0 ? 0x01010101u : 0x0101u);
    const u64 stride = (u64)gridDim.y * blockDim.x;
    const u64 first = (u64)blockIdx.y * blockDim.x + threadIdx.x;
    u64 digest = 0;
    for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned char *start = base + row * row_bytes;
        for (u64 col = first; col < cols; col += stride) {
            u32 bits = kind == 0 ? ((const u32 *)start)[col] : ((const unsigned short *)start)[col];
            u64 cell = row * cols + col;
            digest += mix(cell * 0x100000001b3ull ^ bits);
            if ((bits & exponent) == exponent) {
                int is_unwritten = prefill >= 0 && bits == untouched;
                atomicMin(&report[is_unwritten ? 0 : 1], cell);
            }
        }
        for (u64 at = cols * size + first; at < row_bytes; at += stride) {
            if (start[at] != (unsigned char)gap) {
                atomicMin(&report[2], row);
            }
        }
    }
    // One addition a block: millions of threads at one address would take longer than everything before.
    __shared__ u64 sums[THREADS];
    sums[threadIdx.x] = digest;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        atomicAdd(&report[3], sums[0]);
    }
}
