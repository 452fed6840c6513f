"""Texts of CUDA C++ files: the preamble, the launches of the host, and functions of numbers."""

from __future__ import annotations

_OF_WARP = """\
/* The {task} of x in so many neighbouring threads, at most those of a warp; each of them gets it. */
static __device__ inline real warp_{name}(real x, ptrdiff_t threads) {{
    for (int step = threads < 32 ? (int)threads/2 : 16; step > 0; step /= 2) {{
        const real other = __shfl_xor_sync(0xffffffff, x, step);
        x = {update};
    }}
    return x;
}}"""

LAUNCH_HELPERS = {
    "share": """\
/* An extent, divided into as many equal pieces as it takes for none to be longer than most. */
static inline ptrdiff_t share(ptrdiff_t extent, ptrdiff_t most) {
    const ptrdiff_t pieces = (extent + most - 1)/most;
    return (extent + pieces - 1)/pieces;
}""",
    "block_for": """\
/* The threads of a block for some entries: along the last axis, the one before it, and all others. */
static inline dim3 block_for(ptrdiff_t outer, ptrdiff_t rows, ptrdiff_t columns) {
    const ptrdiff_t x = columns <= 128 ? columns : (share(columns, outer*rows == 1 ? 256 : 128) + 7)/8*8;
    const ptrdiff_t y = share(rows, 256/x);
    return dim3((unsigned)x, (unsigned)y, (unsigned)share(outer, least(256/(x*y), 64)));
}""",
    "grid_for": """\
/* The blocks for some entries. There are at most 65535 along y and z: kernels stride over what is left. */
static inline dim3 grid_for(ptrdiff_t outer, ptrdiff_t rows, ptrdiff_t columns) {
    const dim3 b = block_for(outer, rows, columns);
    const ptrdiff_t x = (columns + b.x - 1)/b.x, y = (rows + b.y - 1)/b.y, z = (outer + b.z - 1)/b.z;
    return dim3((unsigned)x, (unsigned)least(y, 65535), (unsigned)least(z, 65535));
}""",
    "block_of_loop": """\
/* The threads of a block that runs a loop over time: along the entries of a step, and of a batch unless that is 0. */
static inline dim3 block_of_loop(ptrdiff_t entries, ptrdiff_t batch) {
    unsigned x = 1;
    while (x < entries && x < 256) {
        x *= 2;
    }
    return dim3(x, (unsigned)least(256/x, batch < 1 ? 1 : batch));
}""",
    "grid_of_loop": """\
/* The blocks that run a loop over time. */
static inline dim3 grid_of_loop(ptrdiff_t entries, ptrdiff_t batch) {
    const unsigned y = block_of_loop(entries, batch).y;
    return dim3((unsigned)(batch < 1 ? 1 : (batch + y - 1)/y));
}""",
    "copied": """\
/* Copy from the device when it has done its work; 1 if that fails. */
static int copied(void *to, const void *from, size_t bytes, cudaStream_t stream) {
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream);
    return error != cudaSuccess || cudaStreamSynchronize(stream) != cudaSuccess;
}""",
    "add_entries": """\
static __global__ void add_each(real *to, const real *from, ptrdiff_t count) {
    for (ptrdiff_t n = THREAD_X; n < count; n += THREADS_X) {
        to[n] += from[n];
    }
}

/* Add the entries of an array to those of another one. */
static void add_entries(real *to, const real *from, ptrdiff_t count, cudaStream_t stream) {
    LAUNCH(add_each, grid_for(1, 1, count), block_for(1, 1, count), stream, to, from, count);
}""",
    "find_range": """\
static __global__ void extend_range(int64_t *range, const int64_t *values, ptrdiff_t count) {
    for (ptrdiff_t n = THREAD_X; n < count; n += THREADS_X) {
        atomicMin((long long *)range, (long long)values[n]);
        atomicMax((long long *)range + 1, (long long)values[n]);
    }
}

/* Find the least and the greatest of some integers on the device; 1 if that fails. */
static int find_range(int64_t *range, const int64_t *values, ptrdiff_t count, void *scratch, cudaStream_t stream) {
    range[0] = INT64_MAX;
    range[1] = INT64_MIN;
    cudaMemcpyAsync(scratch, range, 2*sizeof(int64_t), cudaMemcpyHostToDevice, stream);
    LAUNCH(extend_range, dim3(256), dim3(256), stream, (int64_t *)scratch, values, count);
    return copied(range, scratch, 2*sizeof(int64_t), stream);
}""",
    "find_asymmetry": """\
static __global__ void note_asymmetry(int64_t *found, const real *a, ptrdiff_t n) {
    for (ptrdiff_t i = THREAD_Y; i < n; i += THREADS_Y) {
        for (ptrdiff_t j = THREAD_X; j < i; j += THREADS_X) {
            if (a[i*n + j] != a[j*n + i] && (a[i*n + j] == a[i*n + j] || a[j*n + i] == a[j*n + i])) {
                *found = 1;
            }
        }
    }
}

/* Find out whether a matrix on the device is not symmetric; 1 if that fails. */
static int find_asymmetry(int64_t *found, const real *a, ptrdiff_t n, void *scratch, cudaStream_t stream) {
    *found = 0;
    cudaMemcpyAsync(scratch, found, sizeof(int64_t), cudaMemcpyHostToDevice, stream);
    LAUNCH(note_asymmetry, grid_for(1, n, n), block_for(1, n, n), stream, (int64_t *)scratch, a, n);
    return copied(found, scratch, sizeof(int64_t), stream);
}""",
}
"""The helpers of the host and the kernels that these launch, each before its callers."""

DEVICE_HELPERS = {
    "sigmoid": """\
/* 1/(1 + exp(-x)) without overflow. */
static inline real sigmoid(real x) {
    const real small = exp(-fabs(x));
    return (x < 0 ? small : (real)1)/(1 + small);
}""",
    "logistic_density": """\
/* The derivative of 1/(1 + exp(-x)). */
static inline real logistic_density(real x) {
    const real small = exp(-fabs(x)), below = 1 + small;
    return small/(below*below);
}""",
    "softplus": """\
/* log(1 + exp(x)) without overflow. */
static inline real softplus(real x) {
    return (x < 0 ? (real)0 : x) + log1p(exp(-fabs(x)));
}""",
    "raise_to": """\
/* Set an entry to the greater one of it and a value while other threads do so, too; nan where one of them is nan.

   The bits of numbers of one sign are integers in the same, or in the opposite order. */
static inline double raise_to(double *at, double value) {
    const long long bits = __double_as_longlong(value == value ? value + 0.0 : (double)NAN);
    return __longlong_as_double(bits < 0 ? (long long)atomicMin((unsigned long long *)at, (unsigned long long)bits)
                                         : atomicMax((long long *)at, bits));
}
static inline float raise_to(float *at, float value) {
    const int bits = __float_as_int(value == value ? value + 0.0f : (float)NAN);
    return __int_as_float(bits < 0 ? (int)atomicMin((unsigned *)at, (unsigned)bits) : atomicMax((int *)at, bits));
}""",
    "lower_to": """\
/* Set an entry to the lesser one of it and a value while other threads do so, too; nan where one of them is nan.

   The bits of numbers of one sign are integers in the same, or in the opposite order. */
static inline double lower_to(double *at, double value) {
    const long long bits = __double_as_longlong(value == value ? value + 0.0 : (double)-NAN);
    return __longlong_as_double(bits < 0 ? (long long)atomicMax((unsigned long long *)at, (unsigned long long)bits)
                                         : atomicMin((long long *)at, bits));
}
static inline float lower_to(float *at, float value) {
    const int bits = __float_as_int(value == value ? value + 0.0f : (float)-NAN);
    return __int_as_float(bits < 0 ? (int)atomicMax((unsigned *)at, (unsigned)bits) : atomicMin((int *)at, bits));
}""",
    "warp_max": _OF_WARP.format(name="max", task="greatest value", update="maximum(x, other)"),
    "warp_min": _OF_WARP.format(name="min", task="least value", update="minimum(x, other)"),
    "warp_sum": _OF_WARP.format(name="sum", task="sum", update="x + other"),
}
"""The functions of numbers that C files translate for vectors and CUDA files need not, and those of several threads."""

_NAMES = """
    stream blockIdx threadIdx blockDim gridDim warpSize dim3 cudaStream_t cudaError_t cudaSuccess cudaGetLastError
    cudaPeekAtLastError cudaMemcpyAsync cudaStreamSynchronize cudaMemcpyDeviceToHost cudaMemcpyHostToDevice LAUNCH
    cudaMemcpyDeviceToDevice cudaMemsetAsync add_each
    THREAD_X THREAD_Y THREAD_Z THREADS_X THREADS_Y THREADS_Z atomicAdd atomicMin atomicMax INT64_MAX INT64_MIN exp10
    norm rnorm norm3d norm4d rsqrt sinpi cospi sincospi rcbrt rhypot erfcx erfcinv erfinv normcdf normcdfinv saturate
    clock extend_range note_asymmetry __double_as_longlong __longlong_as_double __float_as_int __int_as_float
    __shfl_xor_sync
"""
OWN_NAMES = frozenset(_NAMES.split()) | LAUNCH_HELPERS.keys() | DEVICE_HELPERS.keys()
OWN_NAMES |= {f"{name}f" for name in OWN_NAMES}

PREAMBLE = """\
#ifdef __CUDACC_RTC__
typedef long long int64_t;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#else
#include <cuda_runtime.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#endif

typedef {type} real;
#define THREAD_X ((ptrdiff_t)blockIdx.x*blockDim.x + threadIdx.x)
#define THREAD_Y ((ptrdiff_t)blockIdx.y*blockDim.y + threadIdx.y)
#define THREAD_Z ((ptrdiff_t)blockIdx.z*blockDim.z + threadIdx.z)
#define THREADS_X ((ptrdiff_t)gridDim.x*blockDim.x)
#define THREADS_Y ((ptrdiff_t)gridDim.y*blockDim.y)
#define THREADS_Z ((ptrdiff_t)gridDim.z*blockDim.z)"""

LAUNCH = """\
#ifndef LAUNCH
#define LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#endif"""
