// The arithmetic of the fake cuDNN: plain loops over channel-last images, in float32.
#pragma once
#include <vector>

#include "../numbers.h"

namespace fakecudnn {

using Numbers = std::vector<float>;

// A window over an image: x (N,H,W,C), w (K,R,S,C), y (N,P,Q,K).
struct Window {
  int64_t n, c, h, w, k, r, s, p, q, pad[2], stride[2], dilation[2];
};

// How an engine adds: in which order, and with what precision of products.
struct Arithmetic {
  bool backwards = false; // adds in the opposite order
  bool tf32 = false;
};

// each calls f for all pairs of an element of y and one of w that meet inside the image: indices of x, w, y.
template <class F> void each(const Window& d, bool backwards, F f) {
  auto turn = [&](int64_t i, int64_t n) { return backwards ? n - 1 - i : i; };
  for (int64_t i = 0; i < d.n * d.p * d.q * d.k * d.r * d.s; i++) {
    int64_t rest = turn(i, d.n * d.p * d.q * d.k * d.r * d.s);
    int64_t s = rest % d.s, r = (rest /= d.s) % d.r, k = (rest /= d.r) % d.k, q = (rest /= d.k) % d.q, p = (rest /= d.q) % d.p, n = rest / d.p;
    int64_t h = p * d.stride[0] - d.pad[0] + r * d.dilation[0], w = q * d.stride[1] - d.pad[1] + s * d.dilation[1];
    if (h < 0 || h >= d.h || w < 0 || w >= d.w) continue;
    int64_t xi = ((n * d.h + h) * d.w + w) * d.c, wi = ((k * d.r + r) * d.s + s) * d.c, yi = ((n * d.p + p) * d.q + q) * d.k + k;
    for (int64_t c = 0; c < d.c; c++) f(xi + turn(c, d.c), wi + turn(c, d.c), yi);
  }
}

enum class Pass { forward, data, weight };

// convolve adds up one pass: a and b are its operands as the calls name them.
inline Numbers convolve(Pass pass, const Window& d, Numbers a, Numbers b, Arithmetic how) {
  if (how.tf32) {
    for (float& v : a) v = number::tf32(v);
    for (float& v : b) v = number::tf32(v);
  }
  switch (pass) {
    case Pass::forward: {
      Numbers y(d.n * d.p * d.q * d.k);
      each(d, how.backwards, [&](int64_t x, int64_t w, int64_t i) { y[i] += a[x] * b[w]; });
      return y;
    }
    case Pass::data: { // a is w, b is dy
      Numbers dx(d.n * d.h * d.w * d.c);
      each(d, how.backwards, [&](int64_t x, int64_t w, int64_t i) { dx[x] += a[w] * b[i]; });
      return dx;
    }
    default: { // a is x, b is dy
      Numbers dw(d.k * d.r * d.s * d.c);
      each(d, how.backwards, [&](int64_t x, int64_t w, int64_t i) { dw[w] += a[x] * b[i]; });
      return dw;
    }
  }
}

// Batch normalisation in training, of m rows of c channels.
struct Norm {
  Numbers y, mean, invstd, var;
};

inline Norm normalise(const Numbers& x, int64_t c, const Numbers& scale, const Numbers& bias, float epsilon) {
  int64_t m = int64_t(x.size()) / c;
  Norm r{Numbers(x.size()), Numbers(c), Numbers(c), Numbers(c)};
  for (int64_t j = 0; j < c; j++) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < m; i++) sum += x[i * c + j];
    double mean = sum / double(m);
    for (int64_t i = 0; i < m; i++) square += (x[i * c + j] - mean) * (x[i * c + j] - mean);
    double var = square / double(m);
    r.mean[j] = float(mean), r.var[j] = float(var), r.invstd[j] = float(1 / std::sqrt(var + double(epsilon)));
    for (int64_t i = 0; i < m; i++) r.y[i * c + j] = scale[j] * (x[i * c + j] - r.mean[j]) * r.invstd[j] + bias[j];
  }
  return r;
}

struct NormGrad {
  Numbers dx, dscale, dbias;
};

inline NormGrad normalise_back(const Numbers& x, const Numbers& dy, int64_t c, const Numbers& scale, const Numbers& mean, const Numbers& invstd) {
  int64_t m = int64_t(x.size()) / c;
  NormGrad r{Numbers(x.size()), Numbers(c), Numbers(c)};
  for (int64_t j = 0; j < c; j++) {
    double db = 0, ds = 0;
    for (int64_t i = 0; i < m; i++) {
      double hat = (x[i * c + j] - mean[j]) * invstd[j];
      db += dy[i * c + j], ds += dy[i * c + j] * hat;
    }
    r.dscale[j] = float(ds), r.dbias[j] = float(db);
    for (int64_t i = 0; i < m; i++) {
      double hat = (x[i * c + j] - mean[j]) * invstd[j];
      r.dx[i * c + j] = float(scale[j] * invstd[j] * (dy[i * c + j] - db / double(m) - hat * ds / double(m)));
    }
  }
  return r;
}

} // namespace fakecudnn
