// Images between layouts, and from bytes.

enum { SIDE = 32, ROOM = 33 }; // of a square, and of its rows in shared memory, so that columns lie in different banks

// turn goes over squares of SIDE pixels and SIDE channels of n images. To channels last, dst is (n,pixels,padded) and src
// (n,c,pixels); else dst is (n,c,pixels) and src (n,pixels,padded).
template <bool LAST, class S, class T> DEVICE void turn(T *dst, const S *src, int n, int c, int pixels, int padded) {
  SHARED(float, square, SIDE * ROOM);
  int x = (int)threadIdx.x % SIDE, y = (int)threadIdx.x / SIDE;
  int across = (padded + SIDE - 1) / SIDE, down = (pixels + SIDE - 1) / SIDE;
  i64 squares = (i64)n * across * down;
  for (i64 s = blockIdx.x; s < squares; s += gridDim.x) {
    i64 image = s / (across * down);
    int rest = (int)(s - image * (across * down));
    int c0 = rest % across * SIDE, p0 = rest / across * SIDE;
    const S *from = src + image * (LAST ? c : padded) * pixels;
    T *to = dst + image * (LAST ? padded : c) * pixels;
    for (int i = y; i < SIDE; i += THREADS / SIDE) {
      float v = 0;
      if (LAST) { // row i of the square is a channel
        if (c0 + i < c && p0 + x < pixels) v = get(from[(i64)(c0 + i) * pixels + p0 + x]);
      } else {
        if (p0 + i < pixels && c0 + x < c) v = get(from[(i64)(p0 + i) * padded + c0 + x]);
      }
      square[i * ROOM + x] = v;
    }
    __syncthreads();
    for (int i = y; i < SIDE; i += THREADS / SIDE) {
      if (LAST) {
        if (p0 + i < pixels && c0 + x < padded) put(to[(i64)(p0 + i) * padded + c0 + x], square[x * ROOM + i]);
      } else {
        if (c0 + i < c && p0 + x < pixels) put(to[(i64)(c0 + i) * pixels + p0 + x], square[x * ROOM + i]);
      }
    }
    __syncthreads();
  }
}

#define TURN(s, S, t, T)                                                                                                        \
  KERNEL to_channels_last_##s##_##t(T *dst, const S *src, int n, int c, int pixels, int padded) {                               \
    turn<true>(dst, src, n, c, pixels, padded);                                                                                 \
  }                                                                                                                             \
  EXPORT(to_channels_last_##s##_##t);                                                                                           \
  KERNEL to_channels_first_##s##_##t(T *dst, const S *src, int n, int c, int pixels, int padded) {                              \
    turn<false>(dst, src, n, c, pixels, padded);                                                                                \
  }                                                                                                                             \
  EXPORT(to_channels_first_##s##_##t);
TURN(f32, float, f32, float)
TURN(f32, float, bf16, bf16)
TURN(f32, float, f16, f16)
TURN(bf16, bf16, f32, float)
TURN(f16, f16, f32, float)
TURN(bf16, bf16, bf16, bf16)
TURN(f16, f16, f16, f16)

// pixels_ makes one pixel of all channels a thread: (p/255 - mean)/std, rounded as data.Augment rounds.
template <class T> DEVICE void pixels_(T *dst, const u8 *src, const int *indices, const int *draws, int n, int c, int h, int w, int padded, int images, const float (&mean)[4], const float (&std)[4], int vec) {
  i64 count = (i64)n * h * w;
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < count; i += scalar_step()) {
    i64 line = i / w;
    int column = (int)(i - line * w), image = (int)(line / h), row = (int)(line - (i64)image * h);
    int index = indices ? indices[image] : image, draw = draws ? draws[image] : 0;
    if (draw >> 16 & 1) column = w - 1 - column;
    column += (signed char)(draw & 255);
    row += (signed char)(draw >> 8 & 255);
    bool inside = row >= 0 && row < h && column >= 0 && column < w && index >= 0 && index < images;
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (k < c) {
        float p = inside ? (float)src[(((i64)index * c + k) * h + row) * w + column] : 0;
        v[k] = (p / 255.0f - mean[k]) / std[k];
      }
    T *to = dst + i * padded;
    if (vec) {
      store(to, v);
#pragma unroll
      for (int k = 0; k < 4; k++) v[k] = 0;
      for (int k = 8; k < padded; k += 8) store(to + k, v);
    } else {
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (k < padded) put(to[k], v[k]);
      for (int k = 4; k < padded; k++) put(to[k], 0);
    }
  }
}

#define PIXELS(t, T)                                                                                                            \
  KERNEL pixels_##t(T *dst, const u8 *src, const int *indices, const int *draws, int n, int c, int h, int w, int padded,        \
                    int images, float m0, float m1, float m2, float m3, float s0, float s1, float s2, float s3, int vec) {      \
    float mean[4] = {m0, m1, m2, m3}, std[4] = {s0, s1, s2, s3};                                                                \
    pixels_(dst, src, indices, draws, n, c, h, w, padded, images, mean, std, vec);                                              \
  }                                                                                                                             \
  EXPORT(pixels_##t);
FOR_TYPES(PIXELS)
