// A little work that is no product, as an engine has norms, rotations and activations between its products. One source for
// HIP and CUDA; compiled at run time; no headers.
extern "C" __global__ void tgemm_between(float *scratch) { scratch[threadIdx.x] = scratch[threadIdx.x] * 0.5f + 1.0f; }
