// One number for each channel: added to all pixels, and the sum over all pixels.

template <class T, int V> DEVICE void bias_add(T *y, const T *x, const float *b, int rows, int c, int lanes, int with_relu) {
  Walk<V> w = walk<V>(lanes, c);
  if (!w.on) return;
  constexpr int U = unroll<T, V>::rows;
  float shift[V];
  load<V>(b + w.col, shift);
  for (i64 at = (i64)blockIdx.x * U * w.high + w.row; at < rows; at += (i64)gridDim.x * U * w.high) {
    raw<T, V> r[U];
    fetch_rows(r, x, at, w.high, rows, c, w.col);
#pragma unroll
    for (int u = 0; u < U; u++)
      if (at + (i64)u * w.high < rows) {
        float v[V];
        open(r[u], v);
#pragma unroll
        for (int k = 0; k < V; k++) {
          v[k] += shift[k];
          if (with_relu) v[k] = relu(v[k]);
        }
        store(y + (at + (i64)u * w.high) * c + w.col, v);
      }
  }
}

// Two sums of V channels of all rows of a block, added up in a tree. sum and more are the thread's own, and in row 0 the block's
// afterwards; all threads of the block must come here.
template <int V> DEVICE void block_sums(const Walk<V> &w, float (&sum)[V], float (&more)[V]) {
  SHARED(float, first, 8 * THREADS);
  SHARED(float, second, 8 * THREADS);
#pragma unroll
  for (int k = 0; k < V; k++) {
    first[k * THREADS + threadIdx.x] = sum[k];
    second[k * THREADS + threadIdx.x] = more[k];
  }
  __syncthreads();
  for (int s = pow2_below(w.high); s > 0; s /= 2) {
    if (w.on && w.row < s && w.row + s < w.high) {
      int other = (int)threadIdx.x + s * w.lanes;
#pragma unroll
      for (int k = 0; k < V; k++) {
        first[k * THREADS + threadIdx.x] = sum[k] += first[k * THREADS + other];
        second[k * THREADS + threadIdx.x] = more[k] += second[k * THREADS + other];
      }
    }
    __syncthreads();
  }
}

// channel_sums leaves the sums of block b in partial[b][c].
template <class T, int V> DEVICE void channel_sums(float *partial, const T *dy, int rows, int c, int lanes) {
  Walk<V> w = walk<V>(lanes, c);
  constexpr int U = unroll<T, V>::rows;
  float sum[V], none[V];
  for (int k = 0; k < V; k++) sum[k] = none[k] = 0;
  if (w.on)
    for (i64 at = (i64)blockIdx.x * U * w.high + w.row; at < rows; at += (i64)gridDim.x * U * w.high) {
      raw<T, V> r[U];
      fetch_rows(r, dy, at, w.high, rows, c, w.col);
#pragma unroll
      for (int u = 0; u < U; u++)
        if (at + (i64)u * w.high < rows) {
          float v[V];
          open(r[u], v);
#pragma unroll
          for (int k = 0; k < V; k++) sum[k] += v[k];
        }
    }
  block_sums(w, sum, none);
  if (w.on && w.row == 0) store(partial + (i64)blockIdx.x * c + w.col, sum);
}

// What combines the partial sums of blocks takes eight channels for each block of threads: thread t has channel t%8 and adds
// up parts t/8, t/8+32, ... in double, of which PARTS are on their way at a time; then a tree adds the 32. A second call needs no barrier before it: the tree ends with one.
enum { PARTS = 9 };
DEVICE double parts_sum(double x) {
  SHARED(double, parts, THREADS);
  parts[threadIdx.x] = x;
  __syncthreads();
  for (int s = THREADS / 2; s >= 8; s /= 2) {
    if ((int)threadIdx.x < s) parts[threadIdx.x] = x += parts[threadIdx.x + s];
    __syncthreads();
  }
  return x;
}

KERNEL channel_sums_finish(float *db, const float *partial, int blocks, int c) {
  int channel = (int)blockIdx.x * 8 + (int)threadIdx.x % 8;
  double sum = 0;
  if (channel < c)
    for (int b = (int)threadIdx.x / 8; b < blocks; b += THREADS / 8) sum += partial[(i64)b * c + channel];
  sum = parts_sum(sum);
  if (threadIdx.x < 8 && channel < c) db[channel] = (float)sum;
}
EXPORT(channel_sums_finish);

// For channels that do not come last.
template <class T> DEVICE void bias_add_planes(T *y, const T *x, const float *b, i64 n, int c, int inner, int with_relu) {
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += scalar_step()) {
    float v = get(x[i]) + b[i / inner % c];
    put(y[i], with_relu ? relu(v) : v);
  }
}
template <class T> DEVICE void plane_sums(float *db, const T *dy, int n, int c, int inner) {
  SHARED(double, parts, THREADS);
  int channel = (int)blockIdx.x;
  double sum = 0;
  for (int image = 0; image < n; image++) {
    const T *p = dy + ((i64)image * c + channel) * inner;
    for (int i = (int)threadIdx.x; i < inner; i += THREADS) sum += get(p[i]);
  }
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int s = THREADS / 2; s > 0; s /= 2) {
    if ((int)threadIdx.x < s) parts[threadIdx.x] = sum += parts[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) db[channel] = (float)sum;
}

#define BIAS(t, T, V)                                                                                                    \
  KERNEL bias_add_##t(T *y, const T *x, const float *b, int rows, int c, int lanes, int with_relu) {                     \
    bias_add<T, V>(y, x, b, rows, c, lanes, with_relu);                                                                  \
  }                                                                                                                      \
  EXPORT(bias_add_##t);                                                                                                  \
  KERNEL channel_sums_##t(float *partial, const T *dy, int rows, int c, int lanes) {                                     \
    channel_sums<T, V>(partial, dy, rows, c, lanes);                                                                     \
  }                                                                                                                      \
  EXPORT(channel_sums_##t);
FOR_VECTORS(BIAS)

#define BIAS_PLANES(t, T)                                                                                                \
  KERNEL bias_add_planes_##t(T *y, const T *x, const float *b, i64 n, int c, int inner, int with_relu) {                 \
    bias_add_planes(y, x, b, n, c, inner, with_relu);                                                                    \
  }                                                                                                                      \
  EXPORT(bias_add_planes_##t);                                                                                           \
  KERNEL plane_sums_##t(float *db, const T *dy, int n, int c, int inner) { plane_sums(db, dy, n, c, inner); }            \
  EXPORT(plane_sums_##t);
FOR_TYPES(BIAS_PLANES)
