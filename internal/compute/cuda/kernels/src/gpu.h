// One kernel source for three compilers: clang -x cuda without any CUDA package (PTX), NVRTC (a machine whose driver refuses the
// PTX), and g++ -DGPU_EMU (emu.h: tests and the fake driver). This file hides what differs. No header of the host is included.
//
// Kernels have blocks of THREADS threads. Of one that is KERNEL_BY(n) a multiprocessor has room for n blocks at a time, which limits
// its registers; resident in set.go knows the same n. Shared memory is declared by SHARED, and each kernel is EXPORTed, by which the emulator
// knows it.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#if defined(GPU_EMU)
#include "emu.h"
#define DEVICE static inline
#define KERNEL extern "C" void
#define KERNEL_BY(blocks) KERNEL
#define SHARED(type, name, n) static emu::shared<type, n> name(#name)
#define EXPORT(name) static emu::kernel export_##name(#name, name)
#else
#if defined(__CUDACC_RTC__)
#define DEVICE __device__ __forceinline__
#else
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define DEVICE __attribute__((device)) __attribute__((always_inline)) static inline
#include <__clang_cuda_builtin_vars.h>
#endif
#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define KERNEL_BY(blocks) extern "C" __global__ void __launch_bounds__(256, blocks)
#define SHARED(type, name, n) alignas(16) __shared__ type name[n]
#define EXPORT(name) static_assert(true, #name)
#endif

enum { THREADS = 256 };

#if defined(GPU_EMU)
DEVICE u32 float_bits(float x) { return __builtin_bit_cast(u32, x); }
DEVICE float bits_float(u32 u) { return __builtin_bit_cast(float, u); }
DEVICE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float sqrt1(float x) { return __builtin_sqrtf(x); }
DEVICE double sqrt1(double x) { return __builtin_sqrt(x); }
DEVICE float exp2_approx(float x) { return __builtin_exp2f(x); }
DEVICE float log2_approx(float x) { return __builtin_log2f(x); }
DEVICE float half_float(u16 h) { return emu::half_float(h); }
DEVICE u32 two_bf16(float lo, float hi) { return emu::float_bf16(lo) | (u32)emu::float_bf16(hi) << 16; }
DEVICE u32 two_f16(float lo, float hi) { return emu::float_half(lo) | (u32)emu::float_half(hi) << 16; }
#else
#if defined(__CUDACC_RTC__)
DEVICE u32 float_bits(float x) { return __float_as_uint(x); }
DEVICE float bits_float(u32 u) { return __uint_as_float(u); }
DEVICE float fma1(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE float shuffle_xor(float x, int m) { return __shfl_xor_sync(0xffffffffu, x, m); }
DEVICE u32 ballot(bool x) { return __ballot_sync(0xffffffffu, x); }
#else
DEVICE u32 float_bits(float x) { return __builtin_bit_cast(u32, x); }
DEVICE float bits_float(u32 u) { return __builtin_bit_cast(float, u); }
DEVICE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float shuffle_xor(float x, int m) { return __nvvm_shfl_sync_bfly_f32(0xffffffffu, x, m, 31); }
DEVICE u32 ballot(bool x) { return __nvvm_vote_ballot_sync(0xffffffffu, x); }
#endif
DEVICE float sqrt1(float x) { float r; asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE double sqrt1(double x) { double r; asm("sqrt.rn.f64 %0, %1;" : "=d"(r) : "d"(x)); return r; }
DEVICE float exp2_approx(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float log2_approx(float x) { float r; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float half_float(u16 h) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h)); return r; }
DEVICE u32 two_bf16(float lo, float hi) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEVICE u32 two_f16(float lo, float hi) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
#endif

// exp_ and log_ are right to about two units in the last place. The exponent of exp_ is cut in a whole and a small part, so that
// the product with log2(e) loses nothing.
DEVICE float exp_(float x) {
  if (x < -104.0f) return 0;
  float n = (float)(int)(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
  float r = fma1(n, -0.693359375f, x);
  r = fma1(n, 2.12194440e-4f, r);
  // Two steps, as ex2.approx.ftz has no subnormal results and n may be less than -126.
  float half = (float)(int)(n * 0.5f);
  return exp2_approx(r * 1.44269504f) * exp2_approx(half) * exp2_approx(n - half);
}
DEVICE float log_(float x) { return log2_approx(x) * 0.693147181f; }

// relu keeps a NaN.
DEVICE float relu(float x) { return x <= 0 ? 0 : x; }
// through_relu is the gradient of relu, whose result is y: dy where y > 0, else 0, and a NaN where one of them is.
DEVICE float through_relu(float dy, float y) { return y > 0 ? dy : y <= 0 && dy == dy ? 0 : dy + y; }
DEVICE bool is_finite(float x) { return (float_bits(x) & 0x7f800000u) != 0x7f800000u; }

struct bf16 { u16 bits; };
struct f16 { u16 bits; };

DEVICE float get(float x) { return x; }
DEVICE float get(bf16 x) { return bits_float((u32)x.bits << 16); }
DEVICE float get(f16 x) { return half_float(x.bits); }
DEVICE void put(float &d, float x) { d = x; }
DEVICE void put(bf16 &d, float x) { d.bits = (u16)two_bf16(x, 0); }
DEVICE void put(f16 &d, float x) { d.bits = (u16)two_f16(x, 0); }

// passes tells whether x is above zero, or a NaN, after it was stored as T, which rounds the smallest numbers to zero.
template <class T> struct smallest;
template <> struct smallest<float> { static constexpr float half = 0; };
template <> struct smallest<bf16> { static constexpr float half = 4.591774807899561e-41f; };  // 2^-134
template <> struct smallest<f16> { static constexpr float half = 2.98023223876953125e-08f; }; // 2^-25
template <class T> DEVICE bool passes(float x) { return !(x <= smallest<T>::half); }

// quad and pair are sixteen and eight bytes of anything.
#if defined(__CUDACC_RTC__)
#define OF_ANYTHING
#else
#define OF_ANYTHING __attribute__((may_alias))
#endif
struct alignas(16) quad { u32 x, y, z, w; } OF_ANYTHING;
struct alignas(8) pair { u32 x, y; } OF_ANYTHING;

// raw is V numbers as they lie in memory, V 8 or 1; at V 8 they are moved by 16 bytes.
template <class T, int V> struct raw { T a; };
template <> struct raw<float, 8> { quad a, b; };
template <> struct raw<bf16, 8> { quad a; };
template <> struct raw<f16, 8> { quad a; };

DEVICE float low(bf16, u32 w) { return bits_float(w << 16); }
DEVICE float high(bf16, u32 w) { return bits_float(w & 0xffff0000u); }
DEVICE float low(f16, u32 w) { return half_float((u16)w); }
DEVICE float high(f16, u32 w) { return half_float((u16)(w >> 16)); }
DEVICE u32 two(bf16, float lo, float hi) { return two_bf16(lo, hi); }
DEVICE u32 two(f16, float lo, float hi) { return two_f16(lo, hi); }

#if defined(GPU_EMU)
#define CHECK_ALIGNED(p) emu::check_aligned(p)
#else
#define CHECK_ALIGNED(p)
#endif

template <int V, class T> DEVICE raw<T, V> fetch(const T *p) {
  raw<T, V> r;
  if constexpr (V == 1) {
    r.a = *p;
  } else {
    CHECK_ALIGNED(p);
    const quad *q = (const quad *)p;
    r.a = q[0];
    if constexpr (sizeof(T) == 4) r.b = q[1];
  }
  return r;
}

template <class T, int V> DEVICE void open(const raw<T, V> &r, float (&v)[V]) {
  if constexpr (V == 1) {
    v[0] = get(r.a);
  } else if constexpr (sizeof(T) == 4) {
    v[0] = bits_float(r.a.x), v[1] = bits_float(r.a.y), v[2] = bits_float(r.a.z), v[3] = bits_float(r.a.w);
    v[4] = bits_float(r.b.x), v[5] = bits_float(r.b.y), v[6] = bits_float(r.b.z), v[7] = bits_float(r.b.w);
  } else {
    const T t{};
    v[0] = low(t, r.a.x), v[1] = high(t, r.a.x), v[2] = low(t, r.a.y), v[3] = high(t, r.a.y);
    v[4] = low(t, r.a.z), v[5] = high(t, r.a.z), v[6] = low(t, r.a.w), v[7] = high(t, r.a.w);
  }
}

template <class T, int V> DEVICE void store(T *p, const float (&v)[V]) {
  if constexpr (V == 1) {
    put(*p, v[0]);
  } else {
    CHECK_ALIGNED(p);
    quad *q = (quad *)p;
    if constexpr (sizeof(T) == 4) {
      q[0] = quad{float_bits(v[0]), float_bits(v[1]), float_bits(v[2]), float_bits(v[3])};
      q[1] = quad{float_bits(v[4]), float_bits(v[5]), float_bits(v[6]), float_bits(v[7])};
    } else {
      const T t{};
      q[0] = quad{two(t, v[0], v[1]), two(t, v[2], v[3]), two(t, v[4], v[5]), two(t, v[6], v[7])};
    }
  }
}

template <int V, class T> DEVICE void load(const T *p, float (&v)[V]) { open(fetch<V>(p), v); }

// A walk over n numbers, eight at a time where vec says that all addresses are aligned, and the rest one at a time. A thread
// has FLAT vectors on their way at a time, and a block goes over FLAT*THREADS in a row.
enum { FLAT = 4 };
DEVICE i64 flat_first() { return (i64)blockIdx.x * (THREADS * FLAT) + threadIdx.x; }
DEVICE i64 flat_step() { return (i64)gridDim.x * (THREADS * FLAT); }
DEVICE i64 scalar_first(i64 n, int vec) { return (vec ? n / 8 * 8 : 0) + (i64)blockIdx.x * THREADS + threadIdx.x; }
DEVICE i64 scalar_step() { return (i64)gridDim.x * THREADS; }

// fetch_flat reads vectors i, i+THREADS, ... of the count that exist.
template <class T> DEVICE void fetch_flat(raw<T, 8> (&r)[FLAT], const T *p, i64 i, i64 count) {
  if (i + (FLAT - 1) * THREADS < count) {
#pragma unroll
    for (int u = 0; u < FLAT; u++) r[u] = fetch<8>(p + (i + u * THREADS) * 8);
  } else {
#pragma unroll
    for (int u = 0; u < FLAT; u++)
      if (i + u * THREADS < count) r[u] = fetch<8>(p + (i + u * THREADS) * 8);
  }
}

// A walk over rows of c numbers. Thread (lane, row) has the V numbers from column col on in rows row, row+high, ... of a tile;
// a tile is U·high rows, and blocks take turns at tiles. Threads that are not on have nothing to read.
template <int V> struct Walk {
  int lanes, lane, row, high, col;
  bool on;
};
template <int V> DEVICE Walk<V> walk(int lanes, int c) {
  Walk<V> w;
  w.lanes = lanes;
  w.lane = (int)threadIdx.x % lanes;
  w.row = (int)threadIdx.x / lanes;
  w.high = THREADS / lanes;
  w.col = ((int)blockIdx.y * lanes + w.lane) * V;
  w.on = w.row < w.high && w.col < c;
  return w;
}
template <class T, int V> struct unroll { static constexpr int rows = sizeof(T) == 4 && V == 8 ? 2 : 4; };

// even tells whether all threads are on and a block's rows lie one behind the other, so that row u·high of a thread is u·THREADS·V
// numbers on. A thread then has several rows on their way at distances that the compiler knows; elsewhere one.
template <int V> DEVICE bool even(const Walk<V> &w, int c) { return w.high * c == THREADS * V; }

// fetch_far reads U vectors that are step numbers apart.
template <class T, int V, int U> DEVICE void fetch_far(raw<T, V> (&r)[U], const T *p, i64 step) {
#pragma unroll
  for (int u = 0; u < U; u++) r[u] = fetch<V>(p + u * step);
}

// fetch_rows reads rows at, at+high, ... of those that exist.
template <class T, int V, int U> DEVICE void fetch_rows(raw<T, V> (&r)[U], const T *x, i64 at, int high, int rows, int c, int col) {
  const T *p = x + at * c + col;
  i64 step = (i64)high * c;
  if (at + (i64)(U - 1) * high < rows) {
    fetch_far(r, p, step);
  } else {
#pragma unroll
    for (int u = 0; u < U; u++)
      if (at + (i64)u * high < rows) r[u] = fetch<V>(p + u * step);
  }
}

// Rows is a thread's way over rows when a block takes U·high rows at a time and blocks take turns: from first on, by step; while
// row+reach exists all U rows of a turn do. What is left then is less than a turn, and goes row by row.
struct Rows {
  u32 first, step, reach;
};
template <int V> DEVICE Rows rows_of(const Walk<V> &w, int u) {
  Rows r;
  r.first = blockIdx.x * (u32)(u * w.high) + (u32)w.row;
  r.step = gridDim.x * (u32)(u * w.high);
  r.reach = (u32)((u - 1) * w.high);
  return r;
}

// pow2_below is the largest power of two less than n, 0 for n = 1: where a tree over n parts begins.
DEVICE int pow2_below(int n) {
  int p = 0;
  for (int q = 1; q < n; q *= 2) p = q;
  return p;
}
DEVICE float warp_sum(float x) {
  for (int m = 16; m; m >>= 1) x += shuffle_xor(x, m);
  return x;
}
DEVICE float warp_max(float x) {
  for (int m = 16; m; m >>= 1) {
    float y = shuffle_xor(x, m);
    x = y > x ? y : x;
  }
  return x;
}

// FOR_TYPES(M) is M for each type of numbers, FOR_VECTORS(M) for each with eight numbers at a time and one.
#define FOR_TYPES(M) M(f32, float) M(bf16, bf16) M(f16, f16)
#define FOR_VECTORS(M) M(f32, float, 8) M(bf16, bf16, 8) M(f16, f16, 8) M(f32_1, float, 1) M(bf16_1, bf16, 1) M(f16_1, f16, 1)
