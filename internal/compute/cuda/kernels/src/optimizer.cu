// Update rules over flat float32 arrays, element by element, as internal/compute/f32 has them.

// Update is optimizer.go's.
struct Update {
  float scale, clip, shrink, rate, decay, momentum, epsilon, keep, beta1, rest1, beta2, rest2, root, unused[3];
};
static_assert(sizeof(Update) == 64, "optimizer.go knows the layout");

// decayed is g + Decay·w.
DEVICE float decayed(const Update &u, float grad, float w) {
  float g = grad * u.scale;
  if (g > u.clip) g = u.clip;
  if (g < -u.clip) g = -u.clip;
  return g * u.shrink + u.decay * w;
}

struct Sgd {
  static constexpr int slots = 0;
};
struct Momentum {
  static constexpr int slots = 1;
};
struct Nesterov {
  static constexpr int slots = 1;
};
struct Adam {
  static constexpr int slots = 2;
};

DEVICE void rule(Sgd, const Update &u, float &w, float grad, float &, float &) { w -= u.rate * decayed(u, grad, w); }
DEVICE void rule(Momentum, const Update &u, float &w, float grad, float &m, float &) {
  m = u.momentum * m - u.rate * decayed(u, grad, w);
  w += m;
}
DEVICE void rule(Nesterov, const Update &u, float &w, float grad, float &m, float &) {
  float d = u.rate * decayed(u, grad, w);
  m = u.momentum * m - d;
  w += u.momentum * m - d;
}
DEVICE void rule(Adam, const Update &u, float &w, float grad, float &m, float &v) {
  float g = decayed(u, grad, w);
  m = u.beta1 * m + u.rest1 * g;
  v = u.beta2 * v + u.rest2 * (g * g);
  w = u.keep * w - u.rate * m / (sqrt1(v) * u.root + u.epsilon);
}

template <class R> DEVICE void optimize(float *w, const float *g, float *a, float *b, const Update *update, const u32 *skip, i64 n, int vec) {
  if (skip && *skip) return;
  Update u = *update;
  if (vec)
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, count = n / 8; i < count; i += scalar_step()) {
      float pw[8], pg[8], pa[8], pb[8];
      raw<float, 8> rw = fetch<8>(w + i * 8), rg = fetch<8>(g + i * 8), ra, rb;
      if constexpr (R::slots > 0) ra = fetch<8>(a + i * 8);
      if constexpr (R::slots > 1) rb = fetch<8>(b + i * 8);
      open(rw, pw);
      open(rg, pg);
      if constexpr (R::slots > 0) open(ra, pa);
      if constexpr (R::slots > 1) open(rb, pb);
#pragma unroll
      for (int k = 0; k < 8; k++) rule(R(), u, pw[k], pg[k], pa[k], pb[k]);
      store(w + i * 8, pw);
      if constexpr (R::slots > 0) store(a + i * 8, pa);
      if constexpr (R::slots > 1) store(b + i * 8, pb);
    }
  for (i64 i = scalar_first(n, vec); i < n; i += scalar_step()) {
    float none = 0;
    rule(R(), u, w[i], g[i], R::slots > 0 ? a[i] : none, R::slots > 1 ? b[i] : none);
  }
}

KERNEL sgd(float *w, const float *g, const Update *u, const u32 *skip, i64 n, int vec) { optimize<Sgd>(w, g, nullptr, nullptr, u, skip, n, vec); }
EXPORT(sgd);
KERNEL momentum_sgd(float *w, const float *g, float *m, const Update *u, const u32 *skip, i64 n, int vec) { optimize<Momentum>(w, g, m, nullptr, u, skip, n, vec); }
EXPORT(momentum_sgd);
KERNEL nesterov(float *w, const float *g, float *m, const Update *u, const u32 *skip, i64 n, int vec) { optimize<Nesterov>(w, g, m, nullptr, u, skip, n, vec); }
EXPORT(nesterov);
KERNEL adam(float *w, const float *g, float *m, float *v, const Update *u, const u32 *skip, i64 n, int vec) { optimize<Adam>(w, g, m, v, u, skip, n, vec); }
EXPORT(adam);
