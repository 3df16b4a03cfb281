// Kernels with one fault each, which the emulator has to find; right_one has none.
#include "gpu.h"

KERNEL right_one(float *y, const float *x) {
  SHARED(float, s, THREADS);
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[THREADS - 1 - threadIdx.x] + warp_sum(1.0f);
}
EXPORT(right_one);

KERNEL no_barrier(float *y, const float *x) {
  SHARED(float, s, THREADS);
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[THREADS - 1 - threadIdx.x];
}
EXPORT(no_barrier);

KERNEL no_second_barrier(float *y, const float *x) {
  SHARED(float, s, THREADS);
  for (int i = 0; i < 2; i++) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[THREADS - 1 - threadIdx.x];
  }
}
EXPORT(no_second_barrier);

KERNEL barrier_of_some(float *y, const float *x) {
  if (threadIdx.x < 100) __syncthreads();
  y[threadIdx.x] = x[threadIdx.x];
}
EXPORT(barrier_of_some);

KERNEL shuffle_of_some(float *y, const float *x) {
  y[threadIdx.x] = threadIdx.x % 32 < 20 ? shuffle_xor(x[threadIdx.x], 1) : 0;
}
EXPORT(shuffle_of_some);

KERNEL other_shuffles(float *y, const float *x) {
  y[threadIdx.x] = shuffle_xor(x[threadIdx.x], threadIdx.x % 32 < 20 ? 1 : 2);
}
EXPORT(other_shuffles);

KERNEL index_beyond(float *y, const float *x) {
  SHARED(float, s, THREADS);
  s[threadIdx.x + 1] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x + 1];
}
EXPORT(index_beyond);

KERNEL never_written(float *y, const float *x) {
  SHARED(float, s, THREADS);
  if (threadIdx.x > 0) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}
EXPORT(never_written);

KERNEL crooked(float *y, const float *x) {
  float v[8];
  load<8>(x + 1, v);
  y[threadIdx.x] = v[0];
}
EXPORT(crooked);
