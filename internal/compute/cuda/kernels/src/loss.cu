// Softmax and losses. A warp has a row; its 32 lanes stride over the classes.

DEVICE int warp_row() { return (int)((blockIdx.x * THREADS + threadIdx.x) / 32); }
DEVICE int warp_rows() { return (int)(gridDim.x * (THREADS / 32)); }
DEVICE int warp_lane() { return (int)threadIdx.x % 32; }

// row_max and row_sum are over a row: its largest number, and Σ exp(x−top).
template <class T> DEVICE float row_max(const T *x, int classes) {
  float top = bits_float(0xff800000u); // -inf
  for (int k = warp_lane(); k < classes; k += 32) {
    float v = get(x[k]);
    top = v > top ? v : top;
  }
  return warp_max(top);
}
template <class T> DEVICE float row_sum(const T *x, int classes, float top) {
  float sum = 0;
  for (int k = warp_lane(); k < classes; k += 32) sum += exp_(get(x[k]) - top);
  return warp_sum(sum);
}

template <class T> DEVICE void softmax(T *y, const T *x, int rows, int classes) {
  for (int r = warp_row(); r < rows; r += warp_rows()) {
    const T *from = x + (i64)r * classes;
    T *to = y + (i64)r * classes;
    float top = row_max(from, classes), sum = row_sum(from, classes, top);
    for (int k = warp_lane(); k < classes; k += 32) put(to[k], exp_(get(from[k]) - top) / sum);
  }
}

template <class T> DEVICE void softmax_grad(T *dx, const T *y, const T *dy, int rows, int classes) {
  for (int r = warp_row(); r < rows; r += warp_rows()) {
    i64 at = (i64)r * classes;
    float dot = 0;
    for (int k = warp_lane(); k < classes; k += 32) dot = fma1(get(dy[at + k]), get(y[at + k]), dot);
    dot = warp_sum(dot);
    for (int k = warp_lane(); k < classes; k += 32) put(dx[at + k], get(y[at + k]) * (get(dy[at + k]) - dot));
  }
}

DEVICE bool is_label(int l, int classes) { return l >= 0 && l < classes; }

// label_count is the number of labels that name a class; all threads of the block come here and get it.
DEVICE int label_count(const int *labels, int rows, int classes) {
  SHARED(int, counts, THREADS);
  int n = 0;
  for (int i = (int)threadIdx.x; i < rows; i += THREADS) n += is_label(labels[i], classes);
  counts[threadIdx.x] = n;
  __syncthreads();
  for (int s = THREADS / 2; s > 0; s /= 2) {
    if ((int)threadIdx.x < s) counts[threadIdx.x] = n += counts[threadIdx.x + s];
    __syncthreads();
  }
  return counts[0];
}

// cross_entropy leaves the loss of each row in losses, if that is not null, and the gradient in dx, if that is not null.
template <class T> DEVICE void cross_entropy(T *dx, float *losses, const T *x, const int *labels, const float *dloss, u32 *bad, int rows, int classes, float scale, float smoothing) {
  float part = 0, share = smoothing / (float)classes;
  if (dx) {
    int count = label_count(labels, rows, classes);
    part = scale * (dloss ? *dloss : 1) / (float)(count > 1 ? count : 1);
  }
  for (int r = warp_row(); r < rows; r += warp_rows()) {
    const T *from = x + (i64)r * classes;
    int label = labels[r];
    bool counts = is_label(label, classes);
    if (!counts && label != -1 && bad) *bad = 1;
    float top = 0, sum = 1, picked = 0, all = 0;
    if (counts) {
      top = row_max(from, classes);
      sum = row_sum(from, classes, top);
      picked = get(from[label]);
      if (losses && smoothing != 0) {
        for (int k = warp_lane(); k < classes; k += 32) all += get(from[k]) - top;
        all = warp_sum(all);
      }
    }
    if (losses && warp_lane() == 0) losses[r] = counts ? log_(sum) + (1 - smoothing) * (top - picked) - share * all : 0;
    if (dx) {
      // Nobody reads x[label] for the loss any more.
      T *to = dx + (i64)r * classes;
      for (int k = warp_lane(); k < classes; k += 32) put(to[k], counts ? part * (exp_(get(from[k]) - top) / sum - (k == label ? 1 - smoothing + share : share)) : 0);
    }
  }
}

// block_double is the sum of a number of each thread, in thread 0.
DEVICE double block_double(double x) {
  SHARED(double, numbers, THREADS);
  numbers[threadIdx.x] = x;
  __syncthreads();
  for (int s = THREADS / 2; s > 0; s /= 2) {
    if ((int)threadIdx.x < s) numbers[threadIdx.x] = x += numbers[threadIdx.x + s];
    __syncthreads();
  }
  return x;
}

KERNEL cross_entropy_finish(float *loss, const float *losses, const int *labels, int rows, int classes) {
  int count = label_count(labels, rows, classes);
  double sum = 0;
  for (int i = (int)threadIdx.x; i < rows; i += THREADS) sum += losses[i];
  sum = block_double(sum);
  if (threadIdx.x == 0) *loss = (float)(sum / (count > 1 ? count : 1));
}
EXPORT(cross_entropy_finish);

template <class T> DEVICE void mse(float *partial, const T *x, const T *target, i64 n, int vec) {
  float sum = 0;
  if (vec)
    for (i64 i = flat_first(), count = n / 8; i < count; i += flat_step()) {
      raw<T, 8> p[FLAT], q[FLAT];
      fetch_flat(p, x, i, count);
      fetch_flat(q, target, i, count);
#pragma unroll
      for (int u = 0; u < FLAT; u++)
        if (i + u * THREADS < count) {
          float v[8], w[8];
          open(p[u], v);
          open(q[u], w);
#pragma unroll
          for (int k = 0; k < 8; k++) sum = fma1(v[k] - w[k], v[k] - w[k], sum);
        }
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) {
    float d = get(x[i]) - get(target[i]);
    sum = fma1(d, d, sum);
  }
  double total = block_double(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = (float)total;
}

KERNEL mse_finish(float *loss, const float *partial, i64 n, int blocks) {
  double sum = 0;
  for (int b = (int)threadIdx.x; b < blocks; b += THREADS) sum += partial[b];
  sum = block_double(sum);
  if (threadIdx.x == 0) *loss = (float)(sum / (double)n);
}
EXPORT(mse_finish);

template <class T> DEVICE void mse_grad(T *dx, const T *x, const T *target, i64 n, float scale, int vec) {
  if (vec)
    for (i64 i = flat_first(), count = n / 8; i < count; i += flat_step()) {
      raw<T, 8> p[FLAT], q[FLAT];
      fetch_flat(p, x, i, count);
      fetch_flat(q, target, i, count);
#pragma unroll
      for (int u = 0; u < FLAT; u++)
        if (i + u * THREADS < count) {
          float v[8], w[8];
          open(p[u], v);
          open(q[u], w);
#pragma unroll
          for (int k = 0; k < 8; k++) v[k] = scale * (v[k] - w[k]);
          store(dx + (i + u * THREADS) * 8, v);
        }
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) put(dx[i], scale * (get(x[i]) - get(target[i])));
}

#define LOSSES(t, T)                                                                                                           \
  KERNEL softmax_##t(T *y, const T *x, int rows, int classes) { softmax(y, x, rows, classes); }                                \
  EXPORT(softmax_##t);                                                                                                         \
  KERNEL softmax_grad_##t(T *dx, const T *y, const T *dy, int rows, int classes) { softmax_grad(dx, y, dy, rows, classes); }   \
  EXPORT(softmax_grad_##t);                                                                                                    \
  KERNEL cross_entropy_##t(T *dx, float *losses, const T *x, const int *labels, const float *dloss, u32 *bad, int rows,        \
                           int classes, float scale, float smoothing) {                                                        \
    cross_entropy(dx, losses, x, labels, dloss, bad, rows, classes, scale, smoothing);                                         \
  }                                                                                                                            \
  EXPORT(cross_entropy_##t);                                                                                                   \
  KERNEL mse_##t(float *partial, const T *x, const T *target, i64 n, int vec) { mse(partial, x, target, n, vec); }             \
  EXPORT(mse_##t);                                                                                                             \
  KERNEL mse_grad_##t(T *dx, const T *x, const T *target, const float *dloss, i64 n, float scale, int vec) {                   \
    mse_grad(dx, x, target, n, (dloss ? *dloss : 1) * (2 * scale / (float)n), vec);                                            \
  }                                                                                                                            \
  EXPORT(mse_grad_##t);
FOR_TYPES(LOSSES)
