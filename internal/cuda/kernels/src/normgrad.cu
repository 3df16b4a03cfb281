// Batch normalisation, backward. dz is dy where the ReLU let through.

enum { MASK_NONE, MASK_BY_Y, MASK_BY_BITS, MASK_BY_X }; // as normgrad.go numbers them

// Masking is what a thread needs to know where the ReLU let through.
template <class T, int V> struct Masking {
  const T *y;
  const u8 *bits;
  int mode;
  Line<V> line;
};

template <class T, int V> DEVICE Masking<T, V> masking(const T *y, const u8 *bits, const float *gamma, const float *beta, const float *mean, const float *invstd, int col, int mode) {
  Masking<T, V> m;
  m.y = y;
  m.bits = bits;
  m.mode = mode;
  if (mode == MASK_BY_X) {
    line(m.line, gamma, beta, mean, invstd, col, -1.0f);
  } else {
#pragma unroll
    for (int k = 0; k < V; k++) m.line.mean[k] = m.line.scale[k] = m.line.shift[k] = 0;
  }
  return m;
}

// Seen is what is read of a result of U rows.
template <class T, int V, int U> struct Seen {
  raw<T, V> y[U];
  u32 bits[U];
};

template <class T, int V, int U> DEVICE void see(Seen<T, V, U> &s, const Masking<T, V> &m, i64 at, int high, int rows, int c, int col) {
  if (m.mode == MASK_BY_Y) fetch_rows(s.y, m.y, at, high, rows, c, col);
  if constexpr (V == 8)
    if (m.mode == MASK_BY_BITS) {
#pragma unroll
      for (int u = 0; u < U; u++) {
        i64 row = at + (i64)u * high;
        s.bits[u] = row < rows ? m.bits[(row * c + col) / 8] : 0;
      }
    }
}

// masked makes dz of dy, in row u of those seen; x is the same row's.
template <class T, int V, int U> DEVICE void masked(float (&dy)[V], const float (&x)[V], const Seen<T, V, U> &s, const Masking<T, V> &m, int u) {
  if (m.mode == MASK_BY_Y) {
    float y[V];
    open(s.y[u], y);
#pragma unroll
    for (int k = 0; k < V; k++) dy[k] = y[k] > 0 ? dy[k] : 0;
  } else if (m.mode == MASK_BY_X) {
#pragma unroll
    for (int k = 0; k < V; k++) dy[k] = positive<T>(on_line(m.line, x[k], k)) ? dy[k] : 0;
  } else if (m.mode == MASK_BY_BITS) {
#pragma unroll
    for (int k = 0; k < V; k++) dy[k] = s.bits[u] >> k & 1 ? dy[k] : 0;
  }
}

// bn_grad_sums leaves Σ dz and Σ dz·(x−mean) of a block's rows in workspace[0][b][c] and [1][b][c], and writes dz to dadd if that
// is not null.
template <class T, int V> DEVICE void bn_grad_sums(float *workspace, T *dadd, const T *x, const T *dy, const T *y, const u8 *bits, const float *gamma, const float *beta, const float *mean, const float *invstd, int rows, int c, int lanes, int mode) {
  constexpr int U = unroll<T, V>::rows;
  Walk<V> w = walk<V>(lanes, c);
  float sum[V], product[V];
#pragma unroll
  for (int k = 0; k < V; k++) sum[k] = product[k] = 0;
  if (w.on) {
    float m[V];
    load<V>(mean + w.col, m);
    Masking<T, V> mask = masking<T, V>(y, bits, gamma, beta, mean, invstd, w.col, mode);
    for (i64 at = (i64)blockIdx.x * U * w.high + w.row; at < rows; at += (i64)gridDim.x * U * w.high) {
      raw<T, V> rx[U], rd[U];
      Seen<T, V, U> seen;
      fetch_rows(rx, x, at, w.high, rows, c, w.col);
      fetch_rows(rd, dy, at, w.high, rows, c, w.col);
      see(seen, mask, at, w.high, rows, c, w.col);
#pragma unroll
      for (int u = 0; u < U; u++) {
        i64 row = at + (i64)u * w.high;
        if (row < rows) {
          float v[V], d[V];
          open(rx[u], v);
          open(rd[u], d);
          masked(d, v, seen, mask, u);
#pragma unroll
          for (int k = 0; k < V; k++) {
            sum[k] += d[k];
            product[k] = fma1(d[k], v[k] - m[k], product[k]);
          }
          if (dadd) store(dadd + row * c + w.col, d);
        }
      }
    }
  }
  block_sums(w, sum, product);
  if (!w.on || w.row != 0) return;
  i64 at = (i64)blockIdx.x * c + w.col;
  store(workspace + at, sum);
  store(workspace + (i64)gridDim.x * c + at, product);
}

// bn_grad_finish adds up the blocks and leaves in coefficients, three times c numbers, the p, q and r of
// dx = p·(dz − r − q·(x−mean)).
KERNEL bn_grad_finish(float *dgamma, float *dbeta, float *coefficients, const float *gamma, const float *invstd, const float *workspace, int blocks, int rows, int c) {
  int channel = (int)blockIdx.x * 8 + (int)threadIdx.x % 8;
  double sum = 0, product = 0;
  if (channel < c)
    for (int b = (int)threadIdx.x / 8; b < blocks; b += THREADS / 8) {
      sum += workspace[(i64)b * c + channel];
      product += workspace[((i64)blocks + b) * c + channel];
    }
  sum = parts_sum(sum);
  product = parts_sum(product);
  if (threadIdx.x >= 8 || channel >= c) return;
  double s = invstd[channel], p = gamma[channel] * s;
  if (dgamma) dgamma[channel] = (float)(product * s);
  if (dbeta) dbeta[channel] = (float)sum;
  coefficients[channel] = (float)p;
  coefficients[c + channel] = (float)(s * s * product / rows);
  coefficients[2 * c + channel] = (float)(sum / rows);
}
EXPORT(bn_grad_finish);

// bn_grad_dx goes from the last row to the first: what bn_grad_sums read last is still in the cache.
template <class T, int V> DEVICE void bn_grad_dx(T *dx, const T *x, const T *dy, const T *y, const u8 *bits, const float *gamma, const float *beta, const float *mean, const float *invstd, const float *coefficients, int rows, int c, int lanes, int mode) {
  constexpr int U = unroll<T, V>::rows;
  Walk<V> w = walk<V>(lanes, c);
  if (!w.on) return;
  float m[V], p[V], q[V], r[V];
  load<V>(mean + w.col, m);
  load<V>(coefficients + w.col, p);
  load<V>(coefficients + c + w.col, q);
  load<V>(coefficients + 2 * c + w.col, r);
  Masking<T, V> mask = masking<T, V>(y, bits, gamma, beta, mean, invstd, w.col, mode);
  i64 tile = (i64)U * w.high, tiles = (rows + tile - 1) / tile;
  for (i64 t = tiles - 1 - blockIdx.x; t >= 0; t -= gridDim.x) {
    i64 at = t * tile + w.row;
    raw<T, V> rx[U], rd[U];
    Seen<T, V, U> seen;
    fetch_rows(rx, x, at, w.high, rows, c, w.col);
    fetch_rows(rd, dy, at, w.high, rows, c, w.col);
    see(seen, mask, at, w.high, rows, c, w.col);
#pragma unroll
    for (int u = 0; u < U; u++) {
      i64 row = at + (i64)u * w.high;
      if (row < rows) {
        float v[V], d[V];
        open(rx[u], v);
        open(rd[u], d);
        masked(d, v, seen, mask, u);
#pragma unroll
        for (int k = 0; k < V; k++) d[k] = p[k] * fma1(-q[k], v[k] - m[k], d[k] - r[k]);
        store(dx + row * c + w.col, d);
      }
    }
  }
}

#define BATCH_NORM_GRAD(t, T, V)                                                                                                 \
  KERNEL bn_grad_sums_##t(float *workspace, T *dadd, const T *x, const T *dy, const T *y, const u8 *bits, const float *gamma,    \
                          const float *beta, const float *mean, const float *invstd, int rows, int c, int lanes, int mode) {     \
    bn_grad_sums<T, V>(workspace, dadd, x, dy, y, bits, gamma, beta, mean, invstd, rows, c, lanes, mode);                        \
  }                                                                                                                              \
  EXPORT(bn_grad_sums_##t);                                                                                                      \
  KERNEL bn_grad_dx_##t(T *dx, const T *x, const T *dy, const T *y, const u8 *bits, const float *gamma, const float *beta,       \
                        const float *mean, const float *invstd, const float *coefficients, int rows, int c, int lanes, int mode) { \
    bn_grad_dx<T, V>(dx, x, dy, y, bits, gamma, beta, mean, invstd, coefficients, rows, c, lanes, mode);                         \
  }                                                                                                                              \
  EXPORT(bn_grad_dx_##t);
FOR_VECTORS(BATCH_NORM_GRAD)
