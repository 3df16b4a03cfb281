// Batch normalisation, backward. dz is dy where the ReLU let through. Where that is known from x alone (MASK_BY_X), which is what most
// normalisations of a network ask, there is a kernel of its own, since a thread then holds other numbers.

enum { MASK_NONE, MASK_BY_Y, MASK_BY_BITS, MASK_BY_X }; // as normgrad.go numbers them

// Where is what tells where the ReLU let through; the Line is MASK_BY_X's.
template <class T, int V, bool BY_X> struct Where {
  const T *y;
  const u8 *bits;
  int mode;
};
template <class T, int V> struct Where<T, V, true> {
  Line<V> line;
};

// at_once is how many rows a thread has on their way at a time: one where the result is read, which is rare, so that the others have
// the registers.
template <int U, class T, int V, bool BY_X> DEVICE int at_once(const Where<T, V, BY_X> &m) {
  if constexpr (!BY_X)
    if (m.mode == MASK_BY_Y) return 1;
  return U;
}

// Seen is what is read of a result of U rows.
template <class T, int V, int U> struct Seen {
  raw<T, V> y[U];
  u32 bits[U];
};
template <class T, int V, int U, bool BY_X> DEVICE void see(Seen<T, V, U> &s, const Where<T, V, BY_X> &m, i64 at, i64 step) {
  if constexpr (!BY_X) {
    if constexpr (U == 1)
      if (m.mode == MASK_BY_Y) fetch_far(s.y, m.y + at, step);
    if constexpr (V == 8)
      if (m.mode == MASK_BY_BITS) {
#pragma unroll
        for (int u = 0; u < U; u++) s.bits[u] = m.bits[(at + u * step) / 8];
      }
  }
}

// masked makes dz of dy, in row u of those seen; x is the same row's. A NaN in dy stays.
template <class T, int V, int U, bool BY_X> DEVICE void masked(float (&dy)[V], const float (&x)[V], const Seen<T, V, U> &s, const Where<T, V, BY_X> &m, int u) {
  if constexpr (BY_X) {
#pragma unroll
    for (int k = 0; k < V; k++) dy[k] = passes<T>(on_line(m.line, x[k], k)) || dy[k] != dy[k] ? dy[k] : 0;
  } else if (U == 1 && m.mode == MASK_BY_Y) {
    float y[V];
    open(s.y[u], y);
#pragma unroll
    for (int k = 0; k < V; k++) dy[k] = through_relu(dy[k], y[k]);
  } else if (m.mode == MASK_BY_BITS) {
#pragma unroll
    for (int k = 0; k < V; k++) dy[k] = s.bits[u] >> k & 1 || dy[k] != dy[k] ? dy[k] : 0;
  }
}

// Sums are Σ dz and Σ dz·(x−mean) of a thread's rows.
template <int V> struct Sums {
  float mean[V], sum[V], product[V];
};
template <int U, class T, int V, bool BY_X> DEVICE void bn_grad_sums_at(Sums<V> &s, T *dadd, const T *x, const T *dy, const Where<T, V, BY_X> &m, i64 at, i64 step) {
  raw<T, V> rx[U], rd[U];
  Seen<T, V, U> seen;
  fetch_far(rx, x + at, step);
  fetch_far(rd, dy + at, step);
  see(seen, m, at, step);
#pragma unroll
  for (int u = 0; u < U; u++) {
    float v[V], d[V];
    open(rx[u], v);
    open(rd[u], d);
    masked(d, v, seen, m, u);
#pragma unroll
    for (int k = 0; k < V; k++) {
      s.sum[k] += d[k];
      s.product[k] = fma1(d[k], v[k] - s.mean[k], s.product[k]);
    }
    if constexpr (!BY_X)
      if (dadd) store(dadd + at + u * step, d);
  }
}

// bn_grad_sums leaves both sums of a block's rows in workspace[0][b][c] and [1][b][c], and writes dz to dadd if that is not null.
template <class T, int V, bool BY_X> DEVICE void bn_grad_sums(float *workspace, T *dadd, const T *x, const T *dy, const Where<T, V, BY_X> &m, const Walk<V> &w, Sums<V> &s, int rows, int c) {
  constexpr int U = unroll<T, V>::rows;
#pragma unroll
  for (int k = 0; k < V; k++) s.sum[k] = s.product[k] = 0;
  if (w.on) {
    int u = at_once<U>(m);
    Rows r = rows_of(w, u);
    u32 at = r.first, next = u == U ? (u32)w.high : r.step;
    if (u == U)
      for (; at + r.reach < (u32)rows; at += r.step) bn_grad_sums_at<U>(s, dadd, x, dy, m, (i64)at * c + w.col, (i64)w.high * c);
    for (; at < (u32)rows; at += next) bn_grad_sums_at<1>(s, dadd, x, dy, m, (i64)at * c + w.col, 0);
  }
  block_sums(w, s.sum, s.product);
  if (!w.on || w.row != 0) return;
  i64 to = (i64)blockIdx.x * c + w.col;
  store(workspace + to, s.sum);
  store(workspace + (i64)gridDim.x * c + to, s.product);
}

// bn_grad_finish adds up the blocks and leaves in coefficients, twice c numbers, the q and r of dx = p·(dz − r − q·(x−mean)) with p =
// gamma·invstd.
KERNEL bn_grad_finish(float *dgamma, float *dbeta, float *coefficients, const float *invstd, const float *workspace, int blocks, int rows, int c) {
  int channel = (int)blockIdx.x * 8 + (int)threadIdx.x % 8;
  double sum = 0, product = 0;
  if (channel < c)
    for (int first = (int)threadIdx.x / 8; first < blocks; first += PARTS * THREADS / 8) {
      float s[PARTS], p[PARTS];
#pragma unroll
      for (int u = 0; u < PARTS; u++) {
        int b = first + u * (THREADS / 8);
        if (b < blocks) s[u] = workspace[(i64)b * c + channel], p[u] = workspace[((i64)blocks + b) * c + channel];
      }
#pragma unroll
      for (int u = 0; u < PARTS; u++)
        if (first + u * (THREADS / 8) < blocks) sum += s[u], product += p[u];
    }
  sum = parts_sum(sum);
  product = parts_sum(product);
  if (threadIdx.x >= 8 || channel >= c) return;
  double s = invstd[channel];
  if (dgamma) dgamma[channel] = (float)(product * s);
  if (dbeta) dbeta[channel] = (float)sum;
  coefficients[channel] = (float)(s * s * product / rows);
  coefficients[c + channel] = (float)(sum / rows);
}
EXPORT(bn_grad_finish);

// Slope is dx = p·(dz − r − q·(x−mean)) of V channels.
template <int V> struct Slope {
  float mean[V], p[V], q[V], r[V];
};
template <int U, class T, int V, bool BY_X> DEVICE void bn_grad_dx_at(T *dx, const T *x, const T *dy, const Where<T, V, BY_X> &m, const Slope<V> &s, i64 at) {
  raw<T, V> rx[U], rd[U];
  Seen<T, V, U> seen;
  fetch_far(rx, x + at, THREADS * V);
  fetch_far(rd, dy + at, THREADS * V);
  see(seen, m, at, THREADS * V);
#pragma unroll
  for (int u = 0; u < U; u++) {
    float v[V], d[V];
    open(rx[u], v);
    open(rd[u], d);
    masked(d, v, seen, m, u);
#pragma unroll
    for (int k = 0; k < V; k++) d[k] = s.p[k] * fma1(-s.q[k], v[k] - s.mean[k], d[k] - s.r[k]);
    store(dx + at + u * THREADS * V, d);
  }
}

// bn_grad_dx goes from the last row to the first: what bn_grad_sums read last is still in the cache.
template <class T, int V, bool BY_X> DEVICE void bn_grad_dx(T *dx, const T *x, const T *dy, const Where<T, V, BY_X> &m, const Slope<V> &s, const Walk<V> &w, int rows, int c) {
  constexpr int U = unroll<T, V>::rows;
  int tile = U * w.high, tiles = even(w, c) && at_once<U>(m) == U ? rows / tile : 0;
  for (i64 row = (i64)tiles * tile + (i64)blockIdx.x * w.high + w.row; row < rows; row += (i64)gridDim.x * w.high)
    bn_grad_dx_at<1>(dx, x, dy, m, s, row * c + w.col);
  for (int t = tiles - 1 - (int)blockIdx.x; t >= 0; t -= (int)gridDim.x)
    bn_grad_dx_at<U>(dx, x, dy, m, s, ((i64)t * tile + w.row) * c + w.col);
}

// The line is that of bn_apply; mean and p are its mean and scale, bit for bit.
template <class T, int V> DEVICE void bn_grad_sums_x(float *workspace, const T *x, const T *dy, const float *gamma, const float *beta, const float *mean, const float *invstd, int rows, int c, int lanes) {
  Walk<V> w = walk<V>(lanes, c);
  Where<T, V, true> m;
  Sums<V> s;
  if (w.on) line(m.line, gamma, beta, mean, invstd, w.col, -1.0f);
#pragma unroll
  for (int k = 0; k < V; k++) s.mean[k] = m.line.mean[k];
  bn_grad_sums<T, V, true>(workspace, nullptr, x, dy, m, w, s, rows, c);
}
template <class T, int V> DEVICE void bn_grad_sums_seen(float *workspace, T *dadd, const T *x, const T *dy, const T *y, const u8 *bits, const float *mean, int rows, int c, int lanes, int mode) {
  Walk<V> w = walk<V>(lanes, c);
  Where<T, V, false> m = {y, bits, mode};
  Sums<V> s;
  if (w.on) load<V>(mean + w.col, s.mean);
  bn_grad_sums<T, V, false>(workspace, dadd, x, dy, m, w, s, rows, c);
}
template <class T, int V> DEVICE void bn_grad_dx_x(T *dx, const T *x, const T *dy, const float *gamma, const float *beta, const float *mean, const float *invstd, const float *coefficients, int rows, int c, int lanes) {
  Walk<V> w = walk<V>(lanes, c);
  if (!w.on) return;
  Where<T, V, true> m;
  Slope<V> s;
  line(m.line, gamma, beta, mean, invstd, w.col, -1.0f);
#pragma unroll
  for (int k = 0; k < V; k++) s.mean[k] = m.line.mean[k], s.p[k] = m.line.scale[k];
  load<V>(coefficients + w.col, s.q);
  load<V>(coefficients + c + w.col, s.r);
  bn_grad_dx<T, V, true>(dx, x, dy, m, s, w, rows, c);
}
template <class T, int V> DEVICE void bn_grad_dx_seen(T *dx, const T *x, const T *dy, const T *y, const u8 *bits, const float *gamma, const float *mean, const float *invstd, const float *coefficients, int rows, int c, int lanes, int mode) {
  Walk<V> w = walk<V>(lanes, c);
  if (!w.on) return;
  Where<T, V, false> m = {y, bits, mode};
  Slope<V> s;
  float invs[V];
  load<V>(mean + w.col, s.mean);
  load<V>(gamma + w.col, s.p);
  load<V>(invstd + w.col, invs);
#pragma unroll
  for (int k = 0; k < V; k++) s.p[k] *= invs[k];
  load<V>(coefficients + w.col, s.q);
  load<V>(coefficients + c + w.col, s.r);
  bn_grad_dx<T, V, false>(dx, x, dy, m, s, w, rows, c);
}

#define BATCH_NORM_GRAD(t, T, V)                                                                                                 \
  KERNEL_BY(2) bn_grad_sums_##t(float *workspace, T *dadd, const T *x, const T *dy, const T *y, const u8 *bits, const float *mean, \
                                int rows, int c, int lanes, int mode) {                                                          \
    bn_grad_sums_seen<T, V>(workspace, dadd, x, dy, y, bits, mean, rows, c, lanes, mode);                                        \
  }                                                                                                                              \
  EXPORT(bn_grad_sums_##t);                                                                                                      \
  KERNEL_BY(2) bn_grad_sums_x_##t(float *workspace, const T *x, const T *dy, const float *gamma, const float *beta,              \
                                  const float *mean, const float *invstd, int rows, int c, int lanes) {                          \
    bn_grad_sums_x<T, V>(workspace, x, dy, gamma, beta, mean, invstd, rows, c, lanes);                                           \
  }                                                                                                                              \
  EXPORT(bn_grad_sums_x_##t);                                                                                                    \
  KERNEL_BY(2) bn_grad_dx_##t(T *dx, const T *x, const T *dy, const T *y, const u8 *bits, const float *gamma, const float *mean, \
                              const float *invstd, const float *coefficients, int rows, int c, int lanes, int mode) {            \
    bn_grad_dx_seen<T, V>(dx, x, dy, y, bits, gamma, mean, invstd, coefficients, rows, c, lanes, mode);                          \
  }                                                                                                                              \
  EXPORT(bn_grad_dx_##t);                                                                                                        \
  KERNEL_BY(2) bn_grad_dx_x_##t(T *dx, const T *x, const T *dy, const float *gamma, const float *beta, const float *mean,        \
                                const float *invstd, const float *coefficients, int rows, int c, int lanes) {                    \
    bn_grad_dx_x<T, V>(dx, x, dy, gamma, beta, mean, invstd, coefficients, rows, c, lanes);                                      \
  }                                                                                                                              \
  EXPORT(bn_grad_dx_x_##t);
FOR_VECTORS(BATCH_NORM_GRAD)
