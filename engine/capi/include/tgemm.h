/*
 * tgemm.h: find tuned GEMMs, run them, and record which ones an engine runs. C99 and C++11.
 *
 * This file is generated from the library's sources; do not edit it.
 *
 * To begin:
 *
 *   TgemmDevice device = {.size = sizeof device}; // C++: TgemmDevice device = {}; device.size = sizeof device;
 *   device.vendor = TGEMM_VENDOR_AMD;
 *   device.arch = "gfx942";
 *   device.compute_units = 304;
 *   const char *paths[] = {"tuned.csv"};
 *   TgemmDatabase *database;
 *   if (tgemm_database_open(paths, 1, &device, NULL, &database) != TGEMM_STATUS_OK)
 *     fprintf(stderr, "%s\n", tgemm_last_error());
 *
 *   TgemmProblem layer = {.size = sizeof layer}; // once a layer
 *   layer.n = 1024, layer.k = 3072, layer.x = TGEMM_DTYPE_BF16;
 *   TgemmSite *site;
 *   tgemm_site_open(database, &layer, &site);
 *
 *   TgemmHit hit = {.size = sizeof hit};         // once a call
 *   tgemm_site_lookup(site, tokens, NULL, &hit); // NULL: plain weights, exact sums, any library
 *   if (hit.kind != TGEMM_KIND_DEFAULT) { ... hit.library, hit.index, hit.params ... }
 *
 * To have them run as well, on the device that is current on this thread:
 *
 *   TgemmBackend *backend;                       // nothing has to be described then
 *   tgemm_backend_open(TGEMM_PLATFORM_HIP, -1, &backend);
 *   tgemm_database_open_for(backend, paths, 1, NULL, &database);
 *   TgemmDispatch *dispatch;
 *   tgemm_dispatch_open(backend, database, NULL, &dispatch);
 *   TgemmPlan *plan;                             // once a weight matrix
 *   tgemm_plan_open(dispatch, &layer, &plan);
 *   tgemm_plan_warm(plan, tokens, w, stream);    // before a capture, or the first token
 *
 *   TgemmOperands io = {.size = sizeof io, .x = x, .w = w, .out = out}; // once a call
 *   if (tgemm_plan_run(plan, tokens, &io, stream) != TGEMM_STATUS_OK) { ... tgemm_last_error() ... }
 *
 * Link with -ltgemm. The static library needs, on Linux, -lgcc_s -lutil -lrt -lpthread -lm -ldl behind it.
 *
 * Rules:
 *
 * - Structures: the first field of each that has a `size` is set by the caller to its sizeof, also where the library fills
 *   the rest. Zero is the default of every field, so start from one of which only the size is said. A library that is older than the header
 *   refuses what it does not know (TGEMM_STATUS_SIZE) unless it is zero, and fills it with zero; one that is newer takes
 *   fields that the program does not have as zero.
 * - Enumerations travel as uint32_t; a number that is none of them is refused (TGEMM_STATUS_VALUE).
 * - Pointers: NULL is refused (TGEMM_STATUS_NULL) where its meaning is not told. Any other must point to what its type says
 *   for the time of the call; nothing of the caller's is kept.
 * - Handles come from an ..._open function, which sets them to NULL if it fails, and end with the ..._close of their kind.
 *   A handle is not used after that, nor closed while another thread uses it. Apart from that every function may be called
 *   by any number of threads at once.
 * - Texts that are passed end with a NUL and are UTF-8. Texts that are returned in a caller's buffer are written whole,
 *   with a NUL, or not at all: then the status is TGEMM_STATUS_BUFFER. `needed` gets the bytes that it takes, the NUL
 *   included; to ask for that alone, pass a buffer of NULL. One of the two may be NULL.
 * - The library starts no thread and installs no signal handler. It must not be unloaded (dlclose) once a recorder was
 *   made, which watches for forks and, that of the process, for the exit.
 */


#ifndef TGEMM_H
#define TGEMM_H

#include <stddef.h>
#include <stdint.h>

/**
 * Goes up when a program that was compiled with an older header would no longer work.
 */
#define TGEMM_ABI_VERSION 1

/**
 * How a call went. Negative values are failures: nothing was done (but for TGEMM_STATUS_MAY_HAVE_RUN), and
 * tgemm_last_error() says why.
 */
enum TgemmStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Done.
   */
  TGEMM_STATUS_OK = 0,
  /**
   * A pointer that must not be NULL is.
   */
  TGEMM_STATUS_NULL = -1,
  /**
   * A structure's `size` is none that this library knows, or bytes that it does not know are not zero; or a pointer to a
   * structure is not aligned.
   */
  TGEMM_STATUS_SIZE = -2,
  /**
   * A value is out of its range, or values do not go together.
   */
  TGEMM_STATUS_VALUE = -3,
  /**
   * A text is not UTF-8.
   */
  TGEMM_STATUS_UTF8 = -4,
  /**
   * A text is no key of a problem.
   */
  TGEMM_STATUS_KEY = -5,
  /**
   * It is right, and this interface has no way to say it.
   */
  TGEMM_STATUS_UNSUPPORTED = -6,
  /**
   * The caller's buffer is too small; `needed` says how many bytes it takes.
   */
  TGEMM_STATUS_BUFFER = -7,
  /**
   * A file cannot be read or written.
   */
  TGEMM_STATUS_IO = -8,
  /**
   * There is no more room for it.
   */
  TGEMM_STATUS_FULL = -9,
  /**
   * The device, its runtime or one of its libraries failed; from a run: nothing was started.
   */
  TGEMM_STATUS_DEVICE = -10,
  /**
   * The stream is being captured into a graph, and something is not ready that tgemm_plan_warm makes ready; nothing was
   * started.
   */
  TGEMM_STATUS_NOT_WARM = -11,
  /**
   * A product was started and failed: its output is not to be trusted, and nothing was run instead.
   */
  TGEMM_STATUS_MAY_HAVE_RUN = -12,
  /**
   * A defect of this library; the handles that were passed should be closed.
   */
  TGEMM_STATUS_PANIC = -100,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmStatus TgemmStatus;
#else
typedef int32_t TgemmStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The type of one matrix element as it lies in memory. "Fn" and "Fnuz" floats are different types.
 */
enum TgemmDtype
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * None, or the default of its field.
   */
  TGEMM_DTYPE_NONE = 0,
  /**
   * IEEE binary64.
   */
  TGEMM_DTYPE_F64 = 1,
  /**
   * IEEE binary32.
   */
  TGEMM_DTYPE_F32 = 2,
  /**
   * IEEE binary16.
   */
  TGEMM_DTYPE_F16 = 3,
  /**
   * bfloat16: the upper half of binary32.
   */
  TGEMM_DTYPE_BF16 = 4,
  /**
   * OCP 8-bit float, 4 exponent bits, finite.
   */
  TGEMM_DTYPE_F8E4M3_FN = 5,
  /**
   * 8-bit float, 4 exponent bits, one NaN, no negative zero (gfx942).
   */
  TGEMM_DTYPE_F8E4M3_FNUZ = 6,
  /**
   * OCP 8-bit float, 5 exponent bits.
   */
  TGEMM_DTYPE_F8E5M2 = 7,
  /**
   * 8-bit float, 5 exponent bits, one NaN, no negative zero (gfx942).
   */
  TGEMM_DTYPE_F8E5M2_FNUZ = 8,
  /**
   * OCP 6-bit float, 2 exponent bits.
   */
  TGEMM_DTYPE_F6E2M3 = 9,
  /**
   * OCP 6-bit float, 3 exponent bits.
   */
  TGEMM_DTYPE_F6E3M2 = 10,
  /**
   * Two OCP 4-bit floats in a byte.
   */
  TGEMM_DTYPE_F4E2M1X2 = 11,
  /**
   * 8-bit power-of-two scale.
   */
  TGEMM_DTYPE_UE8M0 = 12,
  /**
   * Signed 8-bit integer.
   */
  TGEMM_DTYPE_I8 = 13,
  /**
   * Unsigned 8-bit integer.
   */
  TGEMM_DTYPE_U8 = 14,
  /**
   * Signed 32-bit integer.
   */
  TGEMM_DTYPE_I32 = 15,
  /**
   * Two signed 4-bit integers in a byte.
   */
  TGEMM_DTYPE_I4 = 16,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmDtype TgemmDtype;
#else
typedef uint32_t TgemmDtype;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The type in which products are summed.
 */
enum TgemmCompute
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * As a linear layer of the type of x does: F64 for it, I32 for integers, else F32.
   */
  TGEMM_COMPUTE_DEFAULT = 0,
  /**
   * 32-bit float.
   */
  TGEMM_COMPUTE_F32 = 1,
  /**
   * 32-bit float over products rounded to 10 mantissa bits.
   */
  TGEMM_COMPUTE_TF32 = 2,
  /**
   * 16-bit float.
   */
  TGEMM_COMPUTE_F16 = 3,
  /**
   * 64-bit float.
   */
  TGEMM_COMPUTE_F64 = 4,
  /**
   * 32-bit integer.
   */
  TGEMM_COMPUTE_I32 = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmCompute TgemmCompute;
#else
typedef uint32_t TgemmCompute;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How the product is scaled back.
 */
enum TgemmScale
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Not at all.
   */
  TGEMM_SCALE_NONE = 0,
  /**
   * One factor for x and one for w.
   */
  TGEMM_SCALE_TENSOR = 1,
  /**
   * One factor a token and one an out feature.
   */
  TGEMM_SCALE_TOKEN_CHANNEL = 2,
  /**
   * x in blocks of 1x128, w in blocks of 128x128.
   */
  TGEMM_SCALE_BLOCK128 = 3,
  /**
   * OCP microscaling: one power of two for 32 elements along K.
   */
  TGEMM_SCALE_MX = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmScale TgemmScale;
#else
typedef uint32_t TgemmScale;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The function applied to the sum last.
 */
enum TgemmActivation
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Identity.
   */
  TGEMM_ACTIVATION_NONE = 0,
  /**
   * max(0, v).
   */
  TGEMM_ACTIVATION_RELU = 1,
  /**
   * Gaussian error linear unit.
   */
  TGEMM_ACTIVATION_GELU = 2,
  /**
   * v * sigmoid(v).
   */
  TGEMM_ACTIVATION_SILU = 3,
  /**
   * Clamped SiLU of the gate times up + 1.
   */
  TGEMM_ACTIVATION_SWIGLU = 4,
  /**
   * What AITER's fused MoE tables call Situv2.
   */
  TGEMM_ACTIVATION_SITUV2 = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmActivation TgemmActivation;
#else
typedef uint32_t TgemmActivation;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The class of a scalar factor; its value is no part of a problem.
 */
enum TgemmScalar
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * 1 for alpha, 0 for beta.
   */
  TGEMM_SCALAR_DEFAULT = 0,
  /**
   * Exactly 0.
   */
  TGEMM_SCALAR_ZERO = 1,
  /**
   * Exactly 1.
   */
  TGEMM_SCALAR_ONE = 2,
  /**
   * Anything else.
   */
  TGEMM_SCALAR_OTHER = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmScalar TgemmScalar;
#else
typedef uint32_t TgemmScalar;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How x and w are stored, as seen from out = x * transpose(w). Everything is row-major.
 */
enum TgemmTrans
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * `x[M,K]` and `w[N,K]`, both with K fastest: a linear layer.
   */
  TGEMM_TRANS_LINEAR = 0,
  /**
   * `x[K,M]`, `w[N,K]`.
   */
  TGEMM_TRANS_X = 1,
  /**
   * `x[M,K]`, `w[K,N]`: a plain matrix product.
   */
  TGEMM_TRANS_W = 2,
  /**
   * `x[K,M]`, `w[K,N]`.
   */
  TGEMM_TRANS_XW = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmTrans TgemmTrans;
#else
typedef uint32_t TgemmTrans;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * What every pointer and every row start is a multiple of, in bytes.
 */
enum TgemmAlign
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * 16 bytes or more.
   */
  TGEMM_ALIGN_B16 = 0,
  /**
   * 8 bytes.
   */
  TGEMM_ALIGN_B8 = 1,
  /**
   * 4 bytes.
   */
  TGEMM_ALIGN_B4 = 2,
  /**
   * Less than 4 bytes.
   */
  TGEMM_ALIGN_B1 = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmAlign TgemmAlign;
#else
typedef uint32_t TgemmAlign;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Who makes a device.
 */
enum TgemmVendor
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Not said, which is refused.
   */
  TGEMM_VENDOR_NONE = 0,
  /**
   * AMD GPU, through HIP.
   */
  TGEMM_VENDOR_AMD = 1,
  /**
   * NVIDIA GPU, through CUDA.
   */
  TGEMM_VENDOR_NVIDIA = 2,
  /**
   * The host's processors, whoever made them.
   */
  TGEMM_VENDOR_CPU = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmVendor TgemmVendor;
#else
typedef uint32_t TgemmVendor;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * By which interface an engine asked for a problem: it decides what tuning compares with.
 */
enum TgemmVia
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Not said.
   */
  TGEMM_VIA_UNKNOWN = 0,
  /**
   * tgemm's dispatch.
   */
  TGEMM_VIA_DISPATCH = 1,
  /**
   * hipBLASLt or cuBLASLt matmul.
   */
  TGEMM_VIA_LT_MATMUL = 2,
  /**
   * hipblasGemmEx, cublasGemmEx.
   */
  TGEMM_VIA_GEMM_EX = 3,
  /**
   * rocblas_gemm_ex.
   */
  TGEMM_VIA_ROCBLAS_GEMM_EX = 4,
  /**
   * CBLAS or Fortran BLAS.
   */
  TGEMM_VIA_BLAS = 5,
  /**
   * An engine's own linear layer.
   */
  TGEMM_VIA_LINEAR = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmVia TgemmVia;
#else
typedef uint32_t TgemmVia;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How faithful arithmetic is, best first.
 */
enum TgemmNumerics
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Sums in the problem's compute type throughout.
   */
  TGEMM_NUMERICS_EXACT = 0,
  /**
   * Sums in fewer bits than asked for, partial sums in at least 32 bits.
   */
  TGEMM_NUMERICS_REDUCED_ACCUMULATION = 1,
  /**
   * Partial sums leave the accumulator in 16 bits.
   */
  TGEMM_NUMERICS_PARTIAL16 = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmNumerics TgemmNumerics;
#else
typedef uint32_t TgemmNumerics;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * In which form a solution takes the weights. Bits, so that several can be allowed.
 */
enum TgemmWeightForm
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * As the problem says: row-major.
   */
  TGEMM_WEIGHT_FORM_PLAIN = 1,
  /**
   * Shuffled for the matrix cores by the engine.
   */
  TGEMM_WEIGHT_FORM_PRESHUFFLED = 2,
  /**
   * Packed once by the solution's own library, before the first call.
   */
  TGEMM_WEIGHT_FORM_PREPACKED = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmWeightForm TgemmWeightForm;
#else
typedef uint32_t TgemmWeightForm;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How a choice compared with what would have run without it.
 */
enum TgemmVerdict
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * The source does not say.
   */
  TGEMM_VERDICT_UNKNOWN = 0,
  /**
   * Faster beyond doubt.
   */
  TGEMM_VERDICT_FASTER = 1,
  /**
   * Nothing was: the baseline is chosen.
   */
  TGEMM_VERDICT_SAME = 2,
  /**
   * Times were too noisy to say: the baseline is chosen.
   */
  TGEMM_VERDICT_AMBIGUOUS = 3,
  /**
   * There was no baseline: the fastest is chosen.
   */
  TGEMM_VERDICT_NO_BASELINE = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmVerdict TgemmVerdict;
#else
typedef uint32_t TgemmVerdict;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * An answer that may be missing.
 */
enum TgemmKnown
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Nobody knows.
   */
  TGEMM_KNOWN_UNKNOWN = 0,
  /**
   * No.
   */
  TGEMM_KNOWN_NO = 1,
  /**
   * Yes.
   */
  TGEMM_KNOWN_YES = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmKnown TgemmKnown;
#else
typedef uint32_t TgemmKnown;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How far from what was tuned a lookup may answer. Bits; an exact answer is always allowed.
 */
enum TgemmLevel
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Exact answers; alone, nothing else.
   */
  TGEMM_LEVEL_EXACT = 1,
  /**
   * The M that AITER's padding names.
   */
  TGEMM_LEVEL_PADDED = 2,
  /**
   * An M between two tuned ones of the same site that chose the same solution.
   */
  TGEMM_LEVEL_INTERVAL = 4,
  /**
   * A site that was not tuned, beside one that was: a guess.
   */
  TGEMM_LEVEL_PREDICTED = 8,
  /**
   * With Interval: where the two chose differently, the one that is thought to be faster; it may be slower than what would
   * have run.
   */
  TGEMM_LEVEL_SCORED = 16,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmLevel TgemmLevel;
#else
typedef uint32_t TgemmLevel;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How a lookup answered.
 */
enum TgemmKind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Nothing fits: run what would have run without tgemm. The rest of the answer is empty.
   */
  TGEMM_KIND_DEFAULT = 0,
  /**
   * This very problem was tuned.
   */
  TGEMM_KIND_EXACT = 1,
  /**
   * Borrowed from the M that AITER's padding names.
   */
  TGEMM_KIND_PADDED = 2,
  /**
   * Between two tuned M of the site: the winner of one of them.
   */
  TGEMM_KIND_INTERVAL = 3,
  /**
   * From a tuned site near this one.
   */
  TGEMM_KIND_PREDICTED = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmKind TgemmKind;
#else
typedef uint32_t TgemmKind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Whose functions a device is driven by.
 */
enum TgemmPlatform
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * The host's processors; there is one device, 0.
   */
  TGEMM_PLATFORM_CPU = 1,
  /**
   * CUDA, version 12 or newer.
   */
  TGEMM_PLATFORM_CUDA = 2,
  /**
   * HIP of ROCm 6 or newer.
   */
  TGEMM_PLATFORM_HIP = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TgemmPlatform TgemmPlatform;
#else
typedef uint32_t TgemmPlatform;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A device that the engine has opened, with the libraries that can be called on it. Any number of threads may use it.
 */
typedef struct TgemmBackend TgemmBackend;

/**
 * What an engine allows, made ready; made once and used by any number of lookups, databases and threads.
 */
typedef struct TgemmConstraints TgemmConstraints;

/**
 * Tuned tables made ready for one device. Any number of threads may ask it at once.
 */
typedef struct TgemmDatabase TgemmDatabase;

/**
 * Tuned products on one device. Any number of threads may use it.
 */
typedef struct TgemmDispatch TgemmDispatch;

/**
 * One weight matrix, ready to be multiplied with at any M. Of several threads that run it at once, one waits for the other:
 * give each its own plan.
 */
typedef struct TgemmPlan TgemmPlan;

/**
 * Counts the problems that an engine runs, and writes them to a file for the tuner. Any number of threads may use it.
 */
typedef struct TgemmRecorder TgemmRecorder;

/**
 * A layer: a problem less its M, found in the database once.
 */
typedef struct TgemmSite TgemmSite;

/**
 * What an engine allows. Every field but size may stay 0.
 */
typedef struct TgemmLimits {
  /**
   * sizeof(TgemmLimits).
   */
  size_t size;
  /**
   * The only libraries that may be answered with; NULL with a count of 0 allows all.
   */
  const char *const *libraries;
  /**
   * How many there are.
   */
  size_t library_count;
  /**
   * Bits of TgemmWeightForm: the forms in which the engine holds the weights or lets them be made; 0 is Plain.
   */
  uint32_t weight_forms;
  /**
   * A TgemmNumerics: the least faithful arithmetic that will do. What would have run without tgemm may always run.
   */
  uint32_t numerics;
  /**
   * 1: only what is known to give the same bits every time.
   */
  uint32_t deterministic;
  /**
   * 1: only what is known to be safe to capture into a graph.
   */
  uint32_t graph_safe;
  /**
   * 1: workspace_bytes_max holds; 0: there is no cap.
   */
  uint32_t has_workspace_max;
  /**
   * Must be 0.
   */
  uint32_t reserved;
  /**
   * The most scratch memory that a launch may use.
   */
  uint64_t workspace_bytes_max;
} TgemmLimits;

/**
 * The exact version of a library. A solution that was tuned with a known build serves only where this says the same.
 */
typedef struct TgemmBuild {
  /**
   * Its name in tuned tables: "hipblaslt", "cublaslt", "onednn".
   */
  const char *library;
  /**
   * Its version as tuned tables write it; NULL or empty if not known.
   */
  const char *version;
  /**
   * Its source revision or content hash as tuned tables write it; NULL or empty if not known.
   */
  const char *revision;
} TgemmBuild;

/**
 * The device that a database answers for, and the libraries that the engine has.
 */
typedef struct TgemmDevice {
  /**
   * sizeof(TgemmDevice).
   */
  size_t size;
  /**
   * The instruction set: "gfx942", "sm_90", "x86_64-v4".
   */
  const char *arch;
  /**
   * A TgemmVendor.
   */
  uint32_t vendor;
  /**
   * Compute units, multiprocessors or cores; 0 if not known, which fits any.
   */
  uint32_t compute_units;
  /**
   * Memory in GiB, rounded; 0 if not known, which fits any.
   */
  uint32_t memory_gib;
  /**
   * PCI device id of a GPU, CPUID leaf 1 signature of an x86 CPU; 0 if not known, which fits any.
   */
  uint32_t chip_id;
  /**
   * Partition mode such as "SPX/NPS1"; NULL if there is none or it is not known.
   */
  const char *partition;
  /**
   * The libraries that the engine can call. What was tuned with a known build of any other does not serve.
   */
  const struct TgemmBuild *builds;
  /**
   * How many there are.
   */
  size_t build_count;
} TgemmDevice;

/**
 * How a database is opened. Every field but size may stay 0.
 */
typedef struct TgemmOptions {
  /**
   * sizeof(TgemmOptions).
   */
  size_t size;
  /**
   * Bits of TgemmLevel; 0 is Exact, Padded and Interval.
   */
  uint32_t levels;
  /**
   * 1: the tables that the environment variable TGEMM_DB names count before the paths.
   */
  uint32_t use_environment;
  /**
   * 1: a file that cannot be read whole is a failure; 0: the others serve, and the report tells.
   */
  uint32_t strict;
  /**
   * How many different misses are kept for tgemm_tally_write; 0 only counts them. Some 200 bytes each.
   */
  uint32_t misses_max;
} TgemmOptions;

/**
 * How products are dispatched. Every field but size may stay 0.
 */
typedef struct TgemmDispatchOptions {
  /**
   * sizeof(TgemmDispatchOptions).
   */
  size_t size;
  /**
   * What runs where nothing is tuned: a library's name, or a call such as "cublasGemmEx"; NULL, or one that does not take a
   * problem: the first library that does.
   */
  const char *baseline;
  /**
   * What a choice may be; NULL is plain weights, exact sums and any library. With TGEMM_WEIGHT_FORM_PREPACKED, plans keep
   * packed copies of their weights: not for an engine that writes into its weights in place. Not needed afterwards.
   */
  const struct TgemmConstraints *constraints;
} TgemmDispatchOptions;

/**
 * How often what was run, over all plans of a dispatch, and what they hold.
 */
typedef struct TgemmCounters {
  /**
   * sizeof(TgemmCounters), set by the caller.
   */
  size_t size;
  /**
   * Runs of a choice that was tuned for this very problem.
   */
  uint64_t exact;
  /**
   * Runs of one borrowed from the M that AITER's padding names.
   */
  uint64_t padded;
  /**
   * Runs of one tuned at an M beside it.
   */
  uint64_t interval;
  /**
   * Runs of one tuned at a site beside it.
   */
  uint64_t predicted;
  /**
   * Runs of the baseline because nothing was tuned.
   */
  uint64_t missed;
  /**
   * Runs of the baseline although something was tuned: see the report.
   */
  uint64_t fallen_back;
  /**
   * Memory in packed weights.
   */
  uint64_t packed_bytes;
  /**
   * Memory in the workspaces of streams.
   */
  uint64_t workspace_bytes;
} TgemmCounters;

/**
 * What is to be computed: `out[M,N] = act(alpha * x[M,K] * transpose(w[N,K]) * scales + bias[N] + beta * c[M,N])`.
 *
 * M counts tokens, N out features, K in features; all matrices are row-major. Every field but size, m, n, k and x may stay
 * 0, which means a packed linear layer of one element type. What means nothing is taken as not said: a row length that is
 * its row, the strides of a single product, out_of_place where beta is zero.
 */
typedef struct TgemmProblem {
  /**
   * sizeof(TgemmProblem).
   */
  size_t size;
  /**
   * Tokens: rows of x and out, 1 to 2147483647.
   */
  uint32_t m;
  /**
   * Out features: columns of out, rows of w.
   */
  uint32_t n;
  /**
   * In features: columns of x and w.
   */
  uint32_t k;
  /**
   * A TgemmDtype: of x.
   */
  uint32_t x;
  /**
   * A TgemmDtype: of w; 0 is that of x.
   */
  uint32_t w;
  /**
   * A TgemmDtype: of out; 0 is I32 for integers, else that of x.
   */
  uint32_t out;
  /**
   * A TgemmCompute.
   */
  uint32_t compute;
  /**
   * A TgemmDtype: of the bias of N elements; 0 is none.
   */
  uint32_t bias;
  /**
   * A TgemmScale.
   */
  uint32_t scale;
  /**
   * A TgemmDtype: of the scales; 0 is F32.
   */
  uint32_t scale_dtype;
  /**
   * A TgemmActivation.
   */
  uint32_t activation;
  /**
   * A TgemmScalar: the factor of the product; 0 is One.
   */
  uint32_t alpha;
  /**
   * A TgemmScalar: the factor of the old output; 0 is Zero.
   */
  uint32_t beta;
  /**
   * 1: the old output (C) is other memory than the new one (D).
   */
  uint32_t out_of_place;
  /**
   * 1: 8-bit products may be summed in fewer than 32 bits.
   */
  uint32_t fast_accumulation;
  /**
   * 1: w is already shuffled for the matrix cores.
   */
  uint32_t preshuffled;
  /**
   * A TgemmTrans.
   */
  uint32_t trans;
  /**
   * A TgemmAlign.
   */
  uint32_t align;
  /**
   * Elements from one row of x as stored to the next; 0 is packed.
   */
  uint32_t ldx;
  /**
   * Elements from one row of w as stored to the next; 0 is packed.
   */
  uint32_t ldw;
  /**
   * Elements from one row of out to the next; 0 is packed.
   */
  uint32_t ldo;
  /**
   * Number of products of a strided batch; 0 is 1.
   */
  uint32_t batch_count;
  /**
   * Elements from one x to the next; 0: all share one.
   */
  uint64_t stride_x;
  /**
   * Elements from one w to the next; 0: all share one.
   */
  uint64_t stride_w;
  /**
   * Elements from one out to the next.
   */
  uint64_t stride_out;
} TgemmProblem;

/**
 * A text that belongs to a handle: UTF-8, `bytes` long, without a NUL at its end. Print it with "%.*s". `data` is never
 * NULL.
 */
typedef struct TgemmText {
  /**
   * The first byte.
   */
  const char *data;
  /**
   * How many there are.
   */
  size_t bytes;
} TgemmText;

/**
 * The answer to a lookup. Its texts belong to the database.
 */
typedef struct TgemmHit {
  /**
   * sizeof(TgemmHit), set by the caller.
   */
  size_t size;
  /**
   * A TgemmKind.
   */
  uint32_t kind;
  /**
   * The M that the choice was tuned at.
   */
  uint32_t tuned_m;
  /**
   * The N that it was tuned at; the problem's own unless kind is Predicted.
   */
  uint32_t tuned_n;
  /**
   * The K that it was tuned at; the problem's own unless kind is Predicted.
   */
  uint32_t tuned_k;
  /**
   * A TgemmWeightForm.
   */
  uint32_t weight_form;
  /**
   * A TgemmNumerics.
   */
  uint32_t numerics;
  /**
   * A TgemmKnown: does it give the same bits every time?
   */
  uint32_t deterministic;
  /**
   * A TgemmKnown: may it be captured into a graph?
   */
  uint32_t graph_safe;
  /**
   * A TgemmVerdict.
   */
  uint32_t verdict;
  /**
   * 1: it is what would have run without tgemm.
   */
  uint32_t is_baseline;
  /**
   * Who computes: "hipblaslt", "cublaslt", "onednn".
   */
  struct TgemmText library;
  /**
   * That library's version; empty if not known.
   */
  struct TgemmText version;
  /**
   * That library's source revision or content hash; empty if not known.
   */
  struct TgemmText revision;
  /**
   * The solution's name in the library.
   */
  struct TgemmText name;
  /**
   * What else selects it: "split_k=4;threads=2".
   */
  struct TgemmText params;
  /**
   * The library's own number for it; means nothing for another build.
   */
  int64_t index;
  /**
   * Scratch memory of a launch at tuned_m. Where kind is not Exact, ask the library how much the real M takes.
   */
  uint64_t workspace_bytes;
  /**
   * Microseconds a call at tuned_m.
   */
  double time_us;
  /**
   * Time over the baseline's; below 1 is faster.
   */
  double ratio;
  /**
   * Lower end of its 95 % interval.
   */
  double ratio_low;
  /**
   * Upper end of its 95 % interval.
   */
  double ratio_high;
} TgemmHit;

/**
 * The operands of one product, by raw pointers into the device's memory, as its problem describes them. What a problem does
 * not have may stay NULL.
 */
typedef struct TgemmOperands {
  /**
   * sizeof(TgemmOperands).
   */
  size_t size;
  /**
   * Activations.
   */
  const void *x;
  /**
   * Weights as the engine holds them: the same pointer at every run of a plan.
   */
  const void *w;
  /**
   * The output.
   */
  void *out;
  /**
   * Bias of N elements.
   */
  const void *bias;
  /**
   * Scales of x.
   */
  const void *x_scale;
  /**
   * Scales of w.
   */
  const void *w_scale;
  /**
   * The old output, where the problem's beta is not zero and it is out of place.
   */
  const void *c;
  /**
   * Scratch memory for this run, aligned to 64 bytes; NULL, or less than is needed: that of the stream is used.
   */
  void *workspace;
  /**
   * How much that is.
   */
  size_t workspace_bytes;
  /**
   * Factor of the product, where the problem's alpha is TGEMM_SCALAR_OTHER; else it is not looked at.
   */
  float alpha;
  /**
   * Factor of the old output, where the problem's beta is TGEMM_SCALAR_OTHER; else it is not looked at.
   */
  float beta;
} TgemmOperands;

/**
 * How a problem was asked for. Every field but size may stay 0.
 */
typedef struct TgemmCall {
  /**
   * sizeof(TgemmCall).
   */
  size_t size;
  /**
   * A TgemmVia.
   */
  uint32_t via;
  /**
   * 1: it went into a graph.
   */
  uint32_t captured;
  /**
   * How many calls this stands for, at most 4294967295; 0 is one.
   */
  uint64_t calls;
  /**
   * 1: workspace_bytes_max holds; 0: it is not known.
   */
  uint32_t has_workspace_max;
  /**
   * Must be 0.
   */
  uint32_t reserved;
  /**
   * The most scratch memory that the caller allowed.
   */
  uint64_t workspace_bytes_max;
} TgemmCall;

/**
 * How many lookups of a database were answered how, since it was opened.
 */
typedef struct TgemmTally {
  /**
   * sizeof(TgemmTally), set by the caller.
   */
  size_t size;
  /**
   * Of TGEMM_KIND_EXACT.
   */
  uint64_t exact;
  /**
   * Of TGEMM_KIND_PADDED.
   */
  uint64_t padded;
  /**
   * Of TGEMM_KIND_INTERVAL.
   */
  uint64_t interval;
  /**
   * Of TGEMM_KIND_PREDICTED.
   */
  uint64_t predicted;
  /**
   * Of TGEMM_KIND_DEFAULT.
   */
  uint64_t missed;
  /**
   * Those of them that were not kept for tgemm_tally_write.
   */
  uint64_t untold;
} TgemmTally;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library that runs, such as "0.1.0"; never NULL, and always there.
 */
const char *tgemm_version(void);

/**
 * The TGEMM_ABI_VERSION of the library that runs: compare it with that of the header.
 */
uint32_t tgemm_abi_version(void);

/**
 * Opens the libraries of a device for dispatch: of the one with that ordinal, or with -1 of the one that is current on this
 * thread, which the engine has opened. The libraries are those that are in the process already, else those that an engine
 * would load. A library that cannot be opened is no failure: see the report.
 *
 * platform is a TgemmPlatform. Nothing is put on a GPU but what the libraries' handles need, and the thread's current device
 * stays what it is. TGEMM_STATUS_DEVICE: the platform's runtime or the device cannot be opened.
 */
TgemmStatus tgemm_backend_open(uint32_t platform,
                               int32_t ordinal,
                               struct TgemmBackend **backend);

/**
 * Closes a backend; NULL is none. What was opened on it goes on holding what it needs.
 */
void tgemm_backend_close(struct TgemmBackend *backend);

/**
 * Writes which device it is, and which libraries it has or has not: a line each.
 */
TgemmStatus tgemm_backend_report(const struct TgemmBackend *backend,
                                 char *buffer,
                                 size_t bytes,
                                 size_t *needed);

/**
 * Makes constraints of limits (NULL: of their defaults). The limits and their texts are not needed afterwards.
 *
 * Wherever a function takes constraints, NULL is those of the defaults.
 */
TgemmStatus tgemm_constraints_open(const struct TgemmLimits *limits,
                                   struct TgemmConstraints **constraints);

/**
 * Frees constraints; NULL is none.
 */
void tgemm_constraints_close(struct TgemmConstraints *constraints);

/**
 * Opens tuned CSV files (tgemm's or AITER's) for a device; of two that both answer, the one that stands first counts.
 *
 * What cannot be read is in the report (tgemm_database_report) and the rest serves, unless options->strict is 1. Options may
 * be NULL, and so may paths if count is 0. Paths, device and options are not needed afterwards. Close what comes back with
 * tgemm_database_close.
 */
TgemmStatus tgemm_database_open(const char *const *paths,
                                size_t count,
                                const struct TgemmDevice *device,
                                const struct TgemmOptions *options,
                                struct TgemmDatabase **database);

/**
 * The same for the device and the libraries of a backend: nothing has to be described.
 */
TgemmStatus tgemm_database_open_for(const struct TgemmBackend *backend,
                                    const char *const *paths,
                                    size_t count,
                                    const struct TgemmOptions *options,
                                    struct TgemmDatabase **database);

/**
 * Closes a database; NULL is none. What its answers point to is gone, but for what a site still holds (tgemm_site_open).
 */
void tgemm_database_close(struct TgemmDatabase *database);

/**
 * Writes what became of each file and its rows when they were last read: a line a file.
 */
TgemmStatus tgemm_database_report(const struct TgemmDatabase *database,
                                  char *buffer,
                                  size_t bytes,
                                  size_t *needed);

/**
 * How many choices serve on this device now.
 */
TgemmStatus tgemm_database_rows(const struct TgemmDatabase *database, size_t *rows);

/**
 * Reads the files again if one of them changed, and replaces the whole table or nothing; changed (NULL if not wanted) says
 * whether it did. Files that cannot be read whole leave the old table in place: TGEMM_STATUS_IO.
 *
 * Other threads may ask meanwhile. Answers from before stay valid, as tables that were replaced are kept until
 * tgemm_database_trim. Nothing is watched: the engine calls this when it has a moment to spare.
 */
TgemmStatus tgemm_database_reload(struct TgemmDatabase *database,
                                  uint32_t *changed);

/**
 * Frees the tables that reloads replaced. The caller vouches that no other thread is in a function of this database or of
 * its sites, and that no answer from before the last reload is looked at any more.
 */
TgemmStatus tgemm_database_trim(struct TgemmDatabase *database);

/**
 * Runs what a database chose on a backend: the table as it is now. After tgemm_database_reload, open another dispatch. An
 * empty database runs baselines throughout. Options may be NULL.
 *
 * A dispatch holds what it needs of both: they may be closed. It frees its memory when it and all its plans are closed, which
 * waits for the device.
 */
TgemmStatus tgemm_dispatch_open(const struct TgemmBackend *backend,
                                const struct TgemmDatabase *database,
                                const struct TgemmDispatchOptions *options,
                                struct TgemmDispatch **dispatch);

/**
 * Closes a dispatch; NULL is none. Its plans go on.
 */
void tgemm_dispatch_close(struct TgemmDispatch *dispatch);

/**
 * Fills counters, whose size the caller has set. A run into a graph counts when it is captured, not when it is replayed.
 */
TgemmStatus tgemm_dispatch_counters(const struct TgemmDispatch *dispatch,
                                    struct TgemmCounters *counters);

/**
 * Writes what became of each problem so far: a line each, with what runs and why the choice does not, if it does not.
 */
TgemmStatus tgemm_dispatch_report(const struct TgemmDispatch *dispatch,
                                  char *buffer,
                                  size_t bytes,
                                  size_t *needed);

/**
 * What to run for a problem under constraints. Takes no lock and allocates nothing; no lookup fails but for a problem that
 * cannot be: the worst answer is TGEMM_KIND_DEFAULT.
 *
 * What hit points to is valid until the database is closed, or trimmed after a reload.
 */
TgemmStatus tgemm_lookup(const struct TgemmDatabase *database,
                         const struct TgemmProblem *problem,
                         const struct TgemmConstraints *constraints,
                         struct TgemmHit *hit);

/**
 * Writes how a lookup is answered and why no better answer was given: some lines for a person. Not for the hit path, and
 * not counted.
 */
TgemmStatus tgemm_explain(const struct TgemmDatabase *database,
                          const struct TgemmProblem *problem,
                          const struct TgemmConstraints *constraints,
                          char *buffer,
                          size_t bytes,
                          size_t *needed);

/**
 * Finds the site of a problem, whose m may be 0: once a layer, so that a call costs less. Where x is stored transposed, its
 * row length depends on m and is best left 0.
 *
 * A site shares the database: what its answers point to is valid until the site is closed or the database is trimmed after
 * a reload. After a reload it answers from the new table, somewhat slower; opening it again makes it fast again.
 */
TgemmStatus tgemm_site_open(const struct TgemmDatabase *database,
                            const struct TgemmProblem *problem,
                            struct TgemmSite **site);

/**
 * Closes a site; NULL is none.
 */
void tgemm_site_close(struct TgemmSite *site);

/**
 * What to run at m tokens under constraints; as tgemm_lookup for everything else.
 */
TgemmStatus tgemm_site_lookup(const struct TgemmSite *site,
                              uint32_t m,
                              const struct TgemmConstraints *constraints,
                              struct TgemmHit *hit);

/**
 * Opens the plan of one weight matrix for a problem, whose m may be 0. Cheap: what it takes is looked up, prepared and packed
 * when an M is first warmed or run.
 */
TgemmStatus tgemm_plan_open(const struct TgemmDispatch *dispatch,
                            const struct TgemmProblem *problem,
                            struct TgemmPlan **plan);

/**
 * Closes a plan; NULL is none. Launches of packed weights must have finished.
 */
void tgemm_plan_close(struct TgemmPlan *plan);

/**
 * Makes a plan ready for m tokens on a stream: looks the problem up, prepares what runs, packs the weights w if that may be
 * and pays, and sees to the stream's workspace. After it, runs at that m into that stream allocate nothing and may be captured
 * into a graph. The device must be current on this thread.
 */
TgemmStatus tgemm_plan_warm(struct TgemmPlan *plan,
                            uint32_t m,
                            const void *w,
                            void *stream);

/**
 * Enqueues one product of m tokens on a stream (a hipStream_t, cudaStream_t or CUstream of any binding; on a CPU NULL, and it
 * is over on return): by the tuned choice, or by the baseline where there is none or it refuses. After the first run at an m
 * it allocates nothing.
 *
 * The device must be current on this thread, and the operands valid until the product has finished. Products on one stream
 * share its workspace: replay a graph that was captured on it while nothing else of it is under way, or give the runs of a
 * graph a workspace of their own.
 */
TgemmStatus tgemm_plan_run(struct TgemmPlan *plan,
                           uint32_t m,
                           const struct TgemmOperands *operands,
                           void *stream);

/**
 * Writes the default of every field, but for size, which the caller has set before. With it, m, n, k and x are all that
 * a plain linear layer needs. A structure that is zero but for its size is as good.
 */
TgemmStatus tgemm_problem_init(struct TgemmProblem *problem);

/**
 * Reads a key such as "gemm,m=4,n=1024,k=3072,x=bf16,w=bf16,out=bf16,compute=f32" into problem, whose size the caller has
 * set. A key of another operation than a GEMM is right, but no TgemmProblem: TGEMM_STATUS_UNSUPPORTED.
 */
TgemmStatus tgemm_problem_from_key(const char *key,
                                   struct TgemmProblem *problem);

/**
 * Writes the one key of a problem: two problems are equal if and only if their keys are.
 */
TgemmStatus tgemm_problem_key(const struct TgemmProblem *problem,
                              char *buffer,
                              size_t bytes,
                              size_t *needed);

/**
 * The recorder of this process, or NULL if the environment asks for none: ask once, and record where it is not NULL.
 *
 * TGEMM_TUNE=1 switches it on, TGEMM_UNTUNED says where to. It writes what is left at a normal exit, and is not closed.
 */
struct TgemmRecorder *tgemm_recorder_global(void);

/**
 * Opens a recorder that writes to path: a name that ends in .csv is one file, which several processes may share, any other a
 * folder with a file for each process. It touches no file before the first problem, and never fails for want of one: what
 * cannot be written is kept in memory and tried again.
 */
TgemmStatus tgemm_recorder_open(const char *path,
                                struct TgemmRecorder **recorder);

/**
 * Writes what is left and closes a recorder; NULL and that of the process are left alone.
 */
void tgemm_recorder_close(struct TgemmRecorder *recorder);

/**
 * Counts a call of a problem; call may be NULL: one call, of which nothing more is known. A problem that was seen before
 * takes no lock, no allocation and no system call. TGEMM_STATUS_FULL: there are too many different ones.
 */
TgemmStatus tgemm_record(const struct TgemmRecorder *recorder,
                         const struct TgemmProblem *problem,
                         const struct TgemmCall *call);

/**
 * Writes every count that is not in the file yet. TGEMM_STATUS_IO: some could not be written; they are kept.
 */
TgemmStatus tgemm_recorder_flush(const struct TgemmRecorder *recorder);

/**
 * Why the last call on this thread that failed did so: one text for a person, never NULL, empty if none failed. It is
 * valid until the next call on this thread fails or the thread ends; calls that succeed leave it alone.
 */
const char *tgemm_last_error(void);

/**
 * Reads the counters of a database and its sites.
 */
TgemmStatus tgemm_tally(const struct TgemmDatabase *database, struct TgemmTally *tally);

/**
 * Replaces the file at path by the misses that were kept (TgemmOptions.misses_max), with their counts: an untuned CSV, to be
 * tuned next. The file changes whole or not at all.
 */
TgemmStatus tgemm_tally_write(const struct TgemmDatabase *database,
                              const char *path);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TGEMM_H */
