/* As much of CUDA as the generated files need, on one core of a processor: for tests.

   The threads of a block run one after another, up to the next barrier each, in an order that `threads_in_order` sets:
   1 forwards, -1 backwards. A result that depends on it shows a race. A barrier that some threads of a block do not
   reach, or reach after the others have ended, stops the process. So does an exchange of a warp, which is a barrier
   of the block here: all threads of a block take part in it, and warps are whole. */

#pragma once
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __host__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
typedef struct CUstream_st *cudaStream_t;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };

inline dim3 threadIdx, blockIdx, blockDim, gridDim;
inline cudaError_t last_error = cudaSuccess;

static inline cudaError_t cudaPeekAtLastError() { return last_error; }
static inline cudaError_t cudaGetLastError() {
    const cudaError_t found = last_error;
    last_error = cudaSuccess;
    return found;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
    memset(to, value, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

template <class T> static inline T atomicAdd(T *at, T value) {
    const T old = *at;
    *at += value;
    return old;
}
template <class T> static inline T atomicMin(T *at, T value) {
    const T old = *at;
    *at = value < old ? value : old;
    return old;
}
template <class T> static inline T atomicMax(T *at, T value) {
    const T old = *at;
    *at = value > old ? value : old;
    return old;
}
template <class T, class S> static inline T bits_as(S value) {
    T bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
static inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
static inline int __float_as_int(float x) { return bits_as<int>(x); }
static inline float __int_as_float(int x) { return bits_as<float>(x); }

/* ------------------------------------------------------------------------ blocks */

namespace on_cpu {

const int MOST_THREADS = 1024;
const size_t STACK = 1 << 16;
inline int threads_in_order = 1;

struct Fiber {
    jmp_buf at;
    char *stack = nullptr;
    bool is_at_barrier = false;
};
inline Fiber fibers[MOST_THREADS];
inline jmp_buf scheduler;
inline ucontext_t home;
inline int current = -1;
inline void (*body)(void *) = nullptr;
inline void *captured = nullptr;

static void enter() {
    body(captured);
    fibers[current].is_at_barrier = false;
    _longjmp(scheduler, 1);
}

static void stop(const char *why) {
    fprintf(stderr, "%s\n", why);
    abort();
}

static void place(int number) {
    current = number;
    threadIdx = dim3(number % blockDim.x, number/blockDim.x % blockDim.y, number/(blockDim.x*blockDim.y));
}

static void start(int number) {
    Fiber &fiber = fibers[number];
    place(number);
    fiber.stack = fiber.stack ? fiber.stack : (char *)malloc(STACK);
    if (!_setjmp(scheduler)) {
        ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = fiber.stack;
        context.uc_stack.ss_size = STACK;
        context.uc_link = &home;
        makecontext(&context, enter, 0);
        setcontext(&context);
    }
}

static void resume(int number) {
    place(number);
    if (!_setjmp(scheduler)) {
        _longjmp(fibers[number].at, 1);
    }
}

static void block() {
    const int count = blockDim.x*blockDim.y*blockDim.z;
    const int first = threads_in_order > 0 ? 0 : count - 1, step = threads_in_order > 0 ? 1 : -1;
    start(first);
    const bool has_barriers = fibers[first].is_at_barrier;
    for (int n = first + step; n >= 0 && n < count; n += step) {
        if (has_barriers) {
            start(n);
        } else {
            place(n);
            current = -1;
            body(captured);
        }
    }
    while (has_barriers) {
        int waiting = 0;
        for (int n = 0; n < count; n++) {
            waiting += fibers[n].is_at_barrier;
        }
        if (waiting == 0) {
            return;
        }
        if (waiting < count) {
            stop("a barrier is not reached by all threads of a block");
        }
        for (int n = first; n >= 0 && n < count; n += step) {
            resume(n);
        }
    }
}

template <class Call> static void launch(dim3 grid, dim3 threads, const Call &call) {
    const bool fits = grid.x && grid.y && grid.z && grid.y <= 65535 && grid.z <= 65535 && threads.z <= 64
        && threads.x && threads.y && threads.z && threads.x*threads.y*threads.z <= MOST_THREADS;
    if (!fits) {
        last_error = cudaErrorInvalidConfiguration;
        return;
    }
    gridDim = grid;
    blockDim = threads;
    body = [](void *one) { (*(Call *)one)(); };
    captured = (void *)&call;
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++) {
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
                block();
            }
        }
    }
}

}  // namespace on_cpu

static inline void __syncthreads() {
    if (on_cpu::current < 0) {
        on_cpu::stop("a barrier is not reached by the first thread of a block");
    }
    on_cpu::fibers[on_cpu::current].is_at_barrier = true;
    if (!_setjmp(on_cpu::fibers[on_cpu::current].at)) {
        _longjmp(on_cpu::scheduler, 1);
    }
    on_cpu::fibers[on_cpu::current].is_at_barrier = false;
}

inline double lanes[on_cpu::MOST_THREADS];
template <class T> static inline T __shfl_xor_sync(unsigned lanes_in, T value, int distance) {
    const unsigned number = threadIdx.x + blockDim.x*(threadIdx.y + blockDim.y*threadIdx.z);
    if (lanes_in != 0xffffffff || blockDim.x*blockDim.y*blockDim.z % 32 || distance < 1 || distance > 31) {
        on_cpu::stop("an exchange in a warp of which threads are missing");
    }
    lanes[number] = value;
    __syncthreads();
    const T other = (T)lanes[number ^ distance];
    __syncthreads();
    return other;
}

extern "C" __attribute__((weak)) void set_order_of_threads(int order) { on_cpu::threads_in_order = order; }

#define LAUNCH(kernel, grid, block, stream, ...) (void)(stream), on_cpu::launch(grid, block, [&] { kernel(__VA_ARGS__); })
