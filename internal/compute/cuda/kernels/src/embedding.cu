// Rows of a table by their numbers. A warp has one id at a time.

template <class S, class T> DEVICE void embedding(T *y, const S *w, const int *ids, u32 *bad, int n, int rows, int dim, int vec) {
  for (int i = warp_row(); i < n; i += warp_rows()) {
    int id = ids[i];
    bool there = id >= 0 && id < rows;
    if (!there && bad) *bad = 1;
    const S *from = w + (i64)(there ? id : 0) * dim;
    T *to = y + (i64)i * dim;
    if (vec) {
      for (int k = warp_lane() * 8; k < dim; k += 256) {
        float v[8];
        load<8>(from + k, v);
        if (!there)
          for (int j = 0; j < 8; j++) v[j] = 0;
        store(to + k, v);
      }
    } else {
      for (int k = warp_lane(); k < dim; k += 32) put(to[k], there ? get(from[k]) : 0);
    }
  }
}

// embedding_grad: the warp at the first place of an id adds up the rows of dy at all places of that id, in their order. Other
// warps with the same id see that they are not first and leave. dw was set to zero.
template <class T> DEVICE void embedding_grad(float *dw, const int *ids, const T *dy, int n, int rows, int dim) {
  for (int i = warp_row(); i < n; i += warp_rows()) {
    int id = ids[i];
    if (id < 0 || id >= rows) continue;
    bool first = true;
    for (int j = 0; j < i && first; j += 32) {
      int at = j + warp_lane();
      first = ballot(at < i && ids[at < i ? at : i] == id) == 0;
    }
    if (!first) continue;
    float *to = dw + (i64)id * dim;
    for (int j = i; j < n; j += 32) {
      int at = j + warp_lane();
      u32 found = ballot(at < n && ids[at < n ? at : i] == id);
      for (; found; found &= found - 1) {
        int bit = 0;
        while (!(found >> bit & 1)) bit++;
        const T *from = dy + (i64)(j + bit) * dim;
        for (int k = warp_lane(); k < dim; k += 32) to[k] += get(from[k]);
      }
    }
  }
}

#define EMBEDDING(s, S, t, T)                                                                                                   \
  KERNEL embedding_##s##_##t(T *y, const S *w, const int *ids, u32 *bad, int n, int rows, int dim, int vec) {                   \
    embedding(y, w, ids, bad, n, rows, dim, vec);                                                                               \
  }                                                                                                                             \
  EXPORT(embedding_##s##_##t);
EMBEDDING(f32, float, f32, float)
EMBEDDING(f32, float, bf16, bf16)
EMBEDDING(f32, float, f16, f16)
EMBEDDING(bf16, bf16, bf16, bf16)
EMBEDDING(f16, f16, f16, f16)

#define EMBEDDING_GRAD(t, T)                                                                                                    \
  KERNEL embedding_grad_##t(float *dw, const int *ids, const T *dy, int n, int rows, int dim) {                                 \
    embedding_grad(dw, ids, dy, n, rows, dim);                                                                                  \
  }                                                                                                                             \
  EXPORT(embedding_grad_##t);
FOR_TYPES(EMBEDDING_GRAD)
