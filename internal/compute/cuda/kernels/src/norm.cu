// Batch normalisation, forward.

// bn_stats leaves mean and sum of squared deviations of a block's rows in workspace[0][b][c] and [1][b][c], and the number of rows
// in workspace[2][b].
//
// A thread sums x−k and (x−k)², k the first number it meets, so that a mean far from zero costs no precision. Threads, and then
// blocks, are joined as in Chan, Golub and LeVeque 1979: with d the difference of two means of n and m numbers,
//
//	mean = mean_n + d·m/(n+m),  squares = squares_n + squares_m + d²·n·m/(n+m)
template <int V> struct Moments {
  float k[V], sum[V], square[V];
  int n;
};
template <int U, class T, int V> DEVICE void moments(Moments<V> &m, const T *x, i64 step) {
  raw<T, V> r[U];
  fetch_far(r, x, step);
#pragma unroll
  for (int u = 0; u < U; u++) {
    float v[V];
    open(r[u], v);
#pragma unroll
    for (int i = 0; i < V; i++) {
      float d = v[i] - m.k[i];
      m.sum[i] += d;
      m.square[i] = fma1(d, d, m.square[i]);
    }
  }
  m.n += U;
}

template <class T, int V> DEVICE void bn_stats(float *workspace, const T *x, int rows, int c, int lanes) {
  SHARED(float, means, 8 * THREADS);
  SHARED(float, squares, 8 * THREADS);
  SHARED(float, counts, THREADS);
  constexpr int U = unroll<T, V>::rows;
  Walk<V> w = walk<V>(lanes, c);
  Moments<V> m;
#pragma unroll
  for (int i = 0; i < V; i++) m.k[i] = m.sum[i] = m.square[i] = 0;
  m.n = 0;
  if (w.on) {
    Rows r = rows_of(w, U);
    u32 at = r.first;
    if (at < (u32)rows) load<V>(x + (i64)at * c + w.col, m.k);
    for (; at + r.reach < (u32)rows; at += r.step) moments<U>(m, x + (i64)at * c + w.col, (i64)w.high * c);
    for (; at < (u32)rows; at += w.high) moments<1>(m, x + (i64)at * c + w.col, 0);
  }
  float mean[V], square[V];
  int n = m.n;
#pragma unroll
  for (int i = 0; i < V; i++) mean[i] = m.sum[i], square[i] = m.square[i];
  float count = (float)n;
  if (n > 0) {
#pragma unroll
    for (int i = 0; i < V; i++) {
      float d = mean[i] / count;
      square[i] = fma1(-mean[i], d, square[i]);
      if (square[i] < 0) square[i] = 0;
      mean[i] = m.k[i] + d;
    }
  }
#pragma unroll
  for (int i = 0; i < V; i++) {
    means[i * THREADS + threadIdx.x] = mean[i];
    squares[i * THREADS + threadIdx.x] = square[i];
  }
  counts[threadIdx.x] = count;
  __syncthreads();
  for (int s = pow2_below(w.high); s > 0; s /= 2) {
    if (w.on && w.row < s && w.row + s < w.high) {
      int other = (int)threadIdx.x + s * lanes;
      float more_rows = counts[other], sum = count + more_rows;
      if (more_rows > 0) {
        float share = more_rows / sum;
#pragma unroll
        for (int i = 0; i < V; i++) {
          float d = means[i * THREADS + other] - mean[i];
          float more = squares[i * THREADS + other];
          square[i] += more + d * d * count * share;
          mean[i] = fma1(d, share, mean[i]);
          means[i * THREADS + threadIdx.x] = mean[i];
          squares[i * THREADS + threadIdx.x] = square[i];
        }
        count = sum;
        counts[threadIdx.x] = count;
      }
    }
    __syncthreads();
  }
  if (!w.on || w.row != 0) return;
  i64 part = (i64)gridDim.x * c;
  store(workspace + (i64)blockIdx.x * c + w.col, mean);
  store(workspace + part + (i64)blockIdx.x * c + w.col, square);
  if (blockIdx.y == 0 && threadIdx.x == 0) workspace[2 * part + blockIdx.x] = count;
}

// bn_finish joins the blocks in double, around the first block's mean.
KERNEL bn_finish(float *mean, float *invstd, float *run_mean, float *run_var, const float *workspace, int blocks, int rows, int c, double eps, double momentum) {
  int channel = (int)blockIdx.x * 8 + (int)threadIdx.x % 8;
  i64 part = (i64)blocks * c;
  double shift = 0, sum = 0, square = 0;
  if (channel < c) {
    shift = workspace[channel];
    for (int first = (int)threadIdx.x / 8; first < blocks; first += PARTS * THREADS / 8) {
      float count[PARTS], m[PARTS], s[PARTS];
#pragma unroll
      for (int u = 0; u < PARTS; u++) {
        int b = first + u * (THREADS / 8);
        if (b < blocks) count[u] = workspace[2 * part + b], m[u] = workspace[(i64)b * c + channel], s[u] = workspace[part + (i64)b * c + channel];
      }
#pragma unroll
      for (int u = 0; u < PARTS; u++)
        if (first + u * (THREADS / 8) < blocks) {
          double n = count[u], d = m[u] - shift;
          sum += n * d;
          square += s[u] + n * d * d;
        }
    }
  }
  sum = parts_sum(sum);
  square = parts_sum(square);
  if (threadIdx.x >= 8 || channel >= c) return;
  double n = rows, d = sum / n, m = shift + d, v = square / n - d * d;
  if (v < 0) v = 0;
  mean[channel] = (float)m;
  invstd[channel] = (float)(1 / sqrt1(v + eps));
  if (run_mean) {
    run_mean[channel] = (float)((1 - momentum) * run_mean[channel] + momentum * m);
    run_var[channel] = (float)((1 - momentum) * run_var[channel] + momentum * v * n / (n > 1 ? n - 1 : 1));
  }
}
EXPORT(bn_finish);

// A Line is y = (x - mean)*scale + shift of V channels. The gradient computes it anew, so it has to give the same bits in both places:
// on_line leaves no compiler a choice between a product and a sum, and one fma.
template <int V> struct Line {
  float mean[V], scale[V], shift[V];
};
template <int V> DEVICE void line(Line<V> &l, const float *gamma, const float *beta, const float *mean, const float *invstd, int col, float eps) {
  float s[V];
  load<V>(mean + col, l.mean);
  load<V>(gamma + col, l.scale);
  load<V>(beta + col, l.shift);
  load<V>(invstd + col, s);
#pragma unroll
  for (int k = 0; k < V; k++) {
    if (eps >= 0) s[k] = 1 / sqrt1(s[k] + eps); // it is a variance
    l.scale[k] *= s[k];
  }
}
template <int V> DEVICE float on_line(const Line<V> &l, float x, int k) { return fma1(x - l.mean[k], l.scale[k], l.shift[k]); }

// bn_apply_at does U vectors of a thread, THREADS·V numbers apart.
template <int U, bool ADD, class T, int V> DEVICE void bn_apply_at(T *y, const T *x, const T *add, u8 *mask, const Line<V> &l, i64 at, int with_relu) {
  raw<T, V> r[U], a[U];
  fetch_far(r, x + at, THREADS * V);
  if constexpr (ADD) fetch_far(a, add + at, THREADS * V);
#pragma unroll
  for (int u = 0; u < U; u++) {
    float v[V];
    open(r[u], v);
#pragma unroll
    for (int k = 0; k < V; k++) v[k] = on_line(l, v[k], k);
    if constexpr (ADD) {
      float more[V];
      open(a[u], more);
#pragma unroll
      for (int k = 0; k < V; k++) v[k] += more[k];
    }
    if constexpr (V == 8)
      if (mask) {
        u32 bits = 0;
#pragma unroll
        for (int k = 0; k < V; k++) bits |= (u32)passes<T>(v[k]) << k;
        mask[at / 8 + u * THREADS] = (u8)bits;
      }
    if (with_relu) {
#pragma unroll
      for (int k = 0; k < V; k++) v[k] = relu(v[k]);
    }
    store(y + at + u * THREADS * V, v);
  }
}

// bn_apply goes from the last row to the first: what bn_stats read last is still in the cache.
template <class T, int V, bool ADD> DEVICE void bn_apply(T *y, const T *x, const T *add, const float *gamma, const float *beta, const float *mean, const float *invstd, u8 *mask, int rows, int c, int lanes, int with_relu, float eps) {
  constexpr int U = unroll<T, V>::rows;
  Walk<V> w = walk<V>(lanes, c);
  if (!w.on) return;
  Line<V> l;
  line(l, gamma, beta, mean, invstd, w.col, eps);
  int tile = U * w.high, tiles = even(w, c) ? rows / tile : 0;
  for (i64 row = (i64)tiles * tile + (i64)blockIdx.x * w.high + w.row; row < rows; row += (i64)gridDim.x * w.high)
    bn_apply_at<1, ADD>(y, x, add, mask, l, row * c + w.col, with_relu);
  for (int t = tiles - 1 - (int)blockIdx.x; t >= 0; t -= (int)gridDim.x)
    bn_apply_at<U, ADD>(y, x, add, mask, l, ((i64)t * tile + w.row) * c + w.col, with_relu);
}

#define BATCH_NORM(t, T, V)                                                                                                      \
  KERNEL_BY(4) bn_stats_##t(float *workspace, const T *x, int rows, int c, int lanes) { bn_stats<T, V>(workspace, x, rows, c, lanes); } \
  EXPORT(bn_stats_##t);                                                                                                          \
  KERNEL_BY(4) bn_apply_##t(T *y, const T *x, const float *gamma, const float *beta, const float *mean, const float *invstd,     \
                            u8 *mask, int rows, int c, int lanes, int with_relu, float eps) {                                    \
    bn_apply<T, V, false>(y, x, nullptr, gamma, beta, mean, invstd, mask, rows, c, lanes, with_relu, eps);                       \
  }                                                                                                                              \
  EXPORT(bn_apply_##t);                                                                                                          \
  KERNEL_BY(3) bn_apply_add_##t(T *y, const T *x, const T *add, const float *gamma, const float *beta, const float *mean,        \
                                const float *invstd, u8 *mask, int rows, int c, int lanes, int with_relu, float eps) {           \
    bn_apply<T, V, true>(y, x, add, gamma, beta, mean, invstd, mask, rows, c, lanes, with_relu, eps);                            \
  }                                                                                                                              \
  EXPORT(bn_apply_add_##t);
FOR_VECTORS(BATCH_NORM)
