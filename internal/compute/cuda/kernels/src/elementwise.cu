// Kernels that go over numbers one by one: the same index in all arrays.

template <class S, class T> DEVICE void cast_(T *dst, const S *src, i64 n, int vec) {
  if (vec)
    for (i64 i = flat_first(), count = n / 8; i < count; i += flat_step()) {
      raw<S, 8> r[FLAT];
      fetch_flat(r, src, i, count);
#pragma unroll
      for (int u = 0; u < FLAT; u++)
        if (i + u * THREADS < count) {
          float v[8];
          open(r[u], v);
          store(dst + (i + u * THREADS) * 8, v);
        }
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) put(dst[i], get(src[i]));
}

template <class T> DEVICE void fill(T *dst, i64 n, float value, int vec) {
  float v[8];
  for (int k = 0; k < 8; k++) v[k] = value;
  if (vec)
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, count = n / 8; i < count; i += scalar_step()) store(dst + i * 8, v);
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) put(dst[i], value);
}

// scaled writes src·factor as D. It is true if one of the results is not finite.
template <class D, class S> DEVICE bool scaled(D *dst, const S *src, i64 n, float factor, int vec) {
  bool bad = false;
  if (vec)
    for (i64 i = flat_first(), count = n / 8; i < count; i += flat_step()) {
      raw<S, 8> r[FLAT];
      fetch_flat(r, src, i, count);
#pragma unroll
      for (int u = 0; u < FLAT; u++)
        if (i + u * THREADS < count) {
          float v[8];
          open(r[u], v);
#pragma unroll
          for (int k = 0; k < 8; k++) {
            v[k] *= factor;
            bad |= !is_finite(v[k]);
          }
          store(dst + (i + u * THREADS) * 8, v);
        }
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) {
    float v = get(src[i]) * factor;
    bad |= !is_finite(v);
    put(dst[i], v);
  }
  return bad;
}

template <class T> DEVICE void add(T *y, const T *a, const T *b, i64 n, int with_relu, int vec) {
  if (vec)
    for (i64 i = flat_first(), count = n / 8; i < count; i += flat_step()) {
      raw<T, 8> p[FLAT], q[FLAT];
      fetch_flat(p, a, i, count);
      fetch_flat(q, b, i, count);
#pragma unroll
      for (int u = 0; u < FLAT; u++)
        if (i + u * THREADS < count) {
          float v[8], w[8];
          open(p[u], v);
          open(q[u], w);
#pragma unroll
          for (int k = 0; k < 8; k++) {
            v[k] += w[k];
            if (with_relu) v[k] = relu(v[k]);
          }
          store(y + (i + u * THREADS) * 8, v);
        }
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) {
    float v = get(a[i]) + get(b[i]);
    put(y[i], with_relu ? relu(v) : v);
  }
}

template <class T> DEVICE void relu_(T *y, const T *x, i64 n, int vec) {
  if (vec)
    for (i64 i = flat_first(), count = n / 8; i < count; i += flat_step()) {
      raw<T, 8> r[FLAT];
      fetch_flat(r, x, i, count);
#pragma unroll
      for (int u = 0; u < FLAT; u++)
        if (i + u * THREADS < count) {
          float v[8];
          open(r[u], v);
#pragma unroll
          for (int k = 0; k < 8; k++) v[k] = relu(v[k]);
          store(y + (i + u * THREADS) * 8, v);
        }
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) put(y[i], relu(get(x[i])));
}

template <class T> DEVICE void relu_grad(T *dx, const T *y, const T *dy, i64 n, int vec) {
  if (vec)
    for (i64 i = flat_first(), count = n / 8; i < count; i += flat_step()) {
      raw<T, 8> p[FLAT], q[FLAT];
      fetch_flat(p, y, i, count);
      fetch_flat(q, dy, i, count);
#pragma unroll
      for (int u = 0; u < FLAT; u++)
        if (i + u * THREADS < count) {
          float v[8], w[8];
          open(p[u], v);
          open(q[u], w);
#pragma unroll
          for (int k = 0; k < 8; k++) w[k] = through_relu(w[k], v[k]);
          store(dx + (i + u * THREADS) * 8, w);
        }
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) put(dx[i], through_relu(get(dy[i]), get(y[i])));
}

// mix is the finaliser of SplitMix64, as op.Dropout has it.
DEVICE u64 mix(u64 z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

struct Dropping {
  u64 key, threshold;
  float scale;
  int c, hw;
};
// dropped is x, the number at place i, after dropout, which keeps a NaN. With c the memory is (N,hw,c) and elements count in (N,c,hw).
DEVICE float dropped(const Dropping &d, float x, i64 i) {
  i64 e = i;
  if (d.c) {
    i64 pixel = i / d.c, image = pixel / d.hw;
    e = (image * d.c + (i - pixel * d.c)) * d.hw + (pixel - image * d.hw);
  }
  return mix(d.key + (u64)e) >> 32 >= d.threshold ? x * d.scale : x == x ? 0 : x;
}
template <class T> DEVICE void dropout(T *y, const T *x, const Dropping &d, i64 n, int vec) {
  if (vec)
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, count = n / 8; i < count; i += scalar_step()) {
      float v[8];
      load<8>(x + i * 8, v);
#pragma unroll
      for (int k = 0; k < 8; k++) v[k] = dropped(d, v[k], i * 8 + k);
      store(y + i * 8, v);
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) put(y[i], dropped(d, get(x[i]), i));
}

#define CAST(s, S, t, T)                                                                                     \
  KERNEL cast_##s##_##t(T *dst, const S *src, i64 n, int vec) { cast_(dst, src, n, vec); } \
  EXPORT(cast_##s##_##t);
CAST(f32, float, f32, float)
CAST(f32, float, bf16, bf16)
CAST(f32, float, f16, f16)
CAST(bf16, bf16, f32, float)
CAST(bf16, bf16, bf16, bf16)
CAST(bf16, bf16, f16, f16)
CAST(f16, f16, f32, float)
CAST(f16, f16, bf16, bf16)
CAST(f16, f16, f16, f16)

#define ELEMENTWISE(t, T)                                                                                                       \
  KERNEL fill_##t(T *dst, i64 n, float value, int vec) { fill(dst, n, value, vec); }                                            \
  EXPORT(fill_##t);                                                                                                             \
  KERNEL scale_##t(T *dst, const T *src, const float *factor, i64 n, float constant, int vec) {                                 \
    scaled(dst, src, n, factor ? constant * *factor : constant, vec);                                                           \
  }                                                                                                                             \
  EXPORT(scale_##t);                                                                                                            \
  KERNEL unscale_##t(float *dst, const T *src, const float *factor, u32 *found, i64 n, float constant, int vec) {               \
    if (scaled(dst, src, n, factor ? constant * *factor : constant, vec) && found) *found = 1;                                  \
  }                                                                                                                             \
  EXPORT(unscale_##t);                                                                                                          \
  KERNEL add_##t(T *y, const T *a, const T *b, i64 n, int with_relu, int vec) { add(y, a, b, n, with_relu, vec); }              \
  EXPORT(add_##t);                                                                                                              \
  KERNEL relu_##t(T *y, const T *x, i64 n, int vec) { relu_(y, x, n, vec); }                                                    \
  EXPORT(relu_##t);                                                                                                             \
  KERNEL relu_grad_##t(T *dx, const T *y, const T *dy, i64 n, int vec) { relu_grad(dx, y, dy, n, vec); }                        \
  EXPORT(relu_grad_##t);                                                                                                        \
  KERNEL dropout_##t(T *y, const T *x, const u64 *key, i64 n, i64 threshold, int c, int hw, float scale, int vec) {             \
    Dropping d = {*key, (u64)threshold, scale, c, hw};                                                                          \
    dropout(y, x, d, n, vec);                                                                                                   \
  }                                                                                                                             \
  EXPORT(dropout_##t);
FOR_TYPES(ELEMENTWISE)
