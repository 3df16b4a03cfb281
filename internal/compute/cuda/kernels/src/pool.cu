// Pooling over channels last. A thread makes V channels of one position at a time.

struct Pool {
  int n, h, w, c, oh, ow, kh, kw, sh, sw, ph, pw;
};

// Place is a position of an image of height by width pixels: number i of its vectors of channels.
struct Place {
  int image, row, column, channel;
};
template <int V> DEVICE Place place(i64 i, int height, int width, int c) {
  int vectors = c / V;
  i64 pixel = i / vectors;
  Place p;
  p.channel = (int)(i - pixel * vectors) * V;
  i64 line = pixel / width;
  p.column = (int)(pixel - line * width);
  p.image = (int)(line / height);
  p.row = (int)(line - (i64)p.image * height);
  return p;
}

// Window is the part of a result's window that lies in x.
struct Window {
  int top, bottom, left, right, h0, w0;
};
DEVICE Window window(const Pool &p, int row, int column) {
  Window w;
  w.h0 = row * p.sh - p.ph;
  w.w0 = column * p.sw - p.pw;
  w.top = w.h0 > 0 ? w.h0 : 0;
  w.left = w.w0 > 0 ? w.w0 : 0;
  w.bottom = w.h0 + p.kh < p.h ? w.h0 + p.kh : p.h;
  w.right = w.w0 + p.kw < p.w ? w.w0 + p.kw : p.w;
  return w;
}

// Covering is the results whose windows hold a position along one dimension: first to last.
struct Covering {
  int first, last;
};
DEVICE Covering covering(int at, int pad, int kernel, int stride, int results) {
  Covering c;
  int low = at + pad - kernel + 1;
  c.first = low > 0 ? (low + stride - 1) / stride : 0;
  c.last = (at + pad) / stride;
  if (c.last > results - 1) c.last = results - 1;
  return c;
}

template <class T, int V> DEVICE void max_pool(T *y, const T *x, u8 *choice, const Pool &p) {
  i64 count = (i64)p.n * p.oh * p.ow * (p.c / V);
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < count; i += scalar_step()) {
    Place o = place<V>(i, p.oh, p.ow, p.c);
    Window w = window(p, o.row, o.column);
    float best[V];
    u32 which[V];
    for (int k = 0; k < V; k++) best[k] = which[k] = 0;
    bool begun = false;
    for (int h = w.top; h < w.bottom; h++)
      for (int v = w.left; v < w.right; v++) {
        float a[V];
        load<V>(x + (((i64)o.image * p.h + h) * p.w + v) * p.c + o.channel, a);
        u32 at = (u32)((h - w.h0) * p.kw + v - w.w0);
#pragma unroll
        for (int k = 0; k < V; k++)
          if (!begun || a[k] > best[k] || a[k] != a[k]) {
            best[k] = a[k];
            which[k] = at;
          }
        begun = true;
      }
    store(y + i * V, best);
    if (choice) {
      if constexpr (V == 8) {
        pair both = {which[0] | which[1] << 8 | which[2] << 16 | which[3] << 24, which[4] | which[5] << 8 | which[6] << 16 | which[7] << 24};
        *(pair *)(choice + i * V) = both;
      } else {
        choice[i] = (u8)which[0];
      }
    }
  }
}

// chosen is the bytes of V results.
template <int V> DEVICE void chosen(const u8 *p, u32 (&which)[V]) {
  if constexpr (V == 8) {
    pair both = *(const pair *)p;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      which[k] = both.x >> 8 * k & 255;
      which[k + 4] = both.y >> 8 * k & 255;
    }
  } else {
    which[0] = *p;
  }
}

template <class T, int V> DEVICE void max_pool_grad(T *dx, const T *dy, const u8 *choice, const Pool &p) {
  i64 count = (i64)p.n * p.h * p.w * (p.c / V);
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < count; i += scalar_step()) {
    Place o = place<V>(i, p.h, p.w, p.c);
    Covering rows = covering(o.row, p.ph, p.kh, p.sh, p.oh), columns = covering(o.column, p.pw, p.kw, p.sw, p.ow);
    float sum[V];
    for (int k = 0; k < V; k++) sum[k] = 0;
    for (int a = rows.first; a <= rows.last; a++)
      for (int b = columns.first; b <= columns.last; b++) {
        i64 at = (((i64)o.image * p.oh + a) * p.ow + b) * p.c + o.channel;
        u32 mine = (u32)((o.row - a * p.sh + p.ph) * p.kw + o.column - b * p.sw + p.pw), which[V];
        float d[V];
        chosen<V>(choice + at, which);
        load<V>(dy + at, d);
#pragma unroll
        for (int k = 0; k < V; k++) sum[k] += which[k] == mine ? d[k] : 0;
      }
    store(dx + i * V, sum);
  }
}

// share is what a mean multiplies the sum over a window by.
DEVICE float share(const Pool &p, const Window &w, int exclude_pad) {
  int n = exclude_pad ? (w.bottom - w.top) * (w.right - w.left) : p.kh * p.kw;
  return 1 / (float)n;
}

template <class T, int V> DEVICE void avg_pool(T *y, const T *x, const Pool &p, int exclude_pad) {
  i64 count = (i64)p.n * p.oh * p.ow * (p.c / V);
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < count; i += scalar_step()) {
    Place o = place<V>(i, p.oh, p.ow, p.c);
    Window w = window(p, o.row, o.column);
    float sum[V];
    for (int k = 0; k < V; k++) sum[k] = 0;
    for (int h = w.top; h < w.bottom; h++)
      for (int v = w.left; v < w.right; v++) {
        float a[V];
        load<V>(x + (((i64)o.image * p.h + h) * p.w + v) * p.c + o.channel, a);
#pragma unroll
        for (int k = 0; k < V; k++) sum[k] += a[k];
      }
    float part = share(p, w, exclude_pad);
#pragma unroll
    for (int k = 0; k < V; k++) sum[k] *= part;
    store(y + i * V, sum);
  }
}

template <class T, int V> DEVICE void avg_pool_grad(T *dx, const T *dy, const Pool &p, int exclude_pad) {
  i64 count = (i64)p.n * p.h * p.w * (p.c / V);
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < count; i += scalar_step()) {
    Place o = place<V>(i, p.h, p.w, p.c);
    Covering rows = covering(o.row, p.ph, p.kh, p.sh, p.oh), columns = covering(o.column, p.pw, p.kw, p.sw, p.ow);
    float sum[V];
    for (int k = 0; k < V; k++) sum[k] = 0;
    for (int a = rows.first; a <= rows.last; a++)
      for (int b = columns.first; b <= columns.last; b++) {
        float part = share(p, window(p, a, b), exclude_pad), d[V];
        load<V>(dy + (((i64)o.image * p.oh + a) * p.ow + b) * p.c + o.channel, d);
#pragma unroll
        for (int k = 0; k < V; k++) sum[k] = fma1(d[k], part, sum[k]);
      }
    store(dx + i * V, sum);
  }
}

// global_avg_pool gives a block to each image and group of channels.
template <class T, int V> DEVICE void global_avg_pool(void *y, const T *x, int n, int pixels, int c, int lanes, int wide) {
  constexpr int U = unroll<T, V>::rows;
  Walk<V> w = walk<V>(lanes, c);
  for (int image = (int)blockIdx.x; image < n; image += gridDim.x) {
    float sum[V], none[V];
    for (int k = 0; k < V; k++) sum[k] = none[k] = 0;
    const T *from = x + (i64)image * pixels * c;
    if (w.on)
      for (i64 at = w.row; at < pixels; at += (i64)U * w.high) {
        raw<T, V> r[U];
        fetch_rows(r, from, at, w.high, pixels, c, w.col);
#pragma unroll
        for (int u = 0; u < U; u++)
          if (at + (i64)u * w.high < pixels) {
            float v[V];
            open(r[u], v);
#pragma unroll
            for (int k = 0; k < V; k++) sum[k] += v[k];
          }
      }
    block_sums(w, sum, none);
    if (w.on && w.row == 0) {
      float part = 1 / (float)pixels;
#pragma unroll
      for (int k = 0; k < V; k++) sum[k] *= part;
      i64 to = (i64)image * c + w.col;
      if (wide)
        store((float *)y + to, sum);
      else
        store((T *)y + to, sum);
    }
  }
}

template <class T, int V> DEVICE void global_avg_pool_grad(T *dx, const void *dy, int n, int pixels, int c, int lanes, int wide) {
  Walk<V> w = walk<V>(lanes, c);
  if (!w.on) return;
  float part = 1 / (float)pixels;
  for (int image = (int)blockIdx.x; image < n; image += gridDim.x) {
    float d[V];
    i64 from = (i64)image * c + w.col;
    if (wide)
      load<V>((const float *)dy + from, d);
    else
      load<V>((const T *)dy + from, d);
#pragma unroll
    for (int k = 0; k < V; k++) d[k] *= part;
    for (int p = w.row; p < pixels; p += w.high) store(dx + ((i64)image * pixels + p) * c + w.col, d);
  }
}

#define POOL_SIZES int n, int h, int w, int c, int oh, int ow, int kh, int kw, int sh, int sw, int ph, int pw
#define POOL_MADE Pool p = {n, h, w, c, oh, ow, kh, kw, sh, sw, ph, pw}
#define POOLS(t, T, V)                                                                                                     \
  KERNEL max_pool_##t(T *y, const T *x, POOL_SIZES, u8 *choice) { POOL_MADE; max_pool<T, V>(y, x, choice, p); }            \
  EXPORT(max_pool_##t);                                                                                                    \
  KERNEL max_pool_grad_##t(T *dx, const T *dy, POOL_SIZES, const u8 *choice) {                                             \
    POOL_MADE;                                                                                                             \
    max_pool_grad<T, V>(dx, dy, choice, p);                                                                                \
  }                                                                                                                        \
  EXPORT(max_pool_grad_##t);                                                                                               \
  KERNEL avg_pool_##t(T *y, const T *x, POOL_SIZES, int exclude_pad) { POOL_MADE; avg_pool<T, V>(y, x, p, exclude_pad); }  \
  EXPORT(avg_pool_##t);                                                                                                    \
  KERNEL avg_pool_grad_##t(T *dx, const T *dy, POOL_SIZES, int exclude_pad) {                                              \
    POOL_MADE;                                                                                                             \
    avg_pool_grad<T, V>(dx, dy, p, exclude_pad);                                                                           \
  }                                                                                                                        \
  EXPORT(avg_pool_grad_##t);                                                                                               \
  KERNEL global_avg_pool_##t(void *y, const T *x, int n, int pixels, int c, int lanes, int wide) {                         \
    global_avg_pool<T, V>(y, x, n, pixels, c, lanes, wide);                                                                \
  }                                                                                                                        \
  EXPORT(global_avg_pool_##t);                                                                                             \
  KERNEL global_avg_pool_grad_##t(T *dx, const void *dy, int n, int pixels, int c, int lanes, int wide) {                  \
    global_avg_pool_grad<T, V>(dx, dy, n, pixels, c, lanes, wide);                                                         \
  }                                                                                                                        \
  EXPORT(global_avg_pool_grad_##t);
FOR_VECTORS(POOLS)
