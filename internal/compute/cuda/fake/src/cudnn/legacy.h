// The older interface of the fake cuDNN, for convolutions of channel-last images.
#pragma once
#include <array>

#include "graph.h"
#include "../fakecuda.h"

namespace fakecudnn::legacy {

struct Image {
  int type = -1;
  std::array<int, 4> dims{}, strides{};
};

struct Filter {
  int type = -1;
  std::array<int, 4> dims{};
};

struct Conv {
  int math = -1; // a caller that forgets to set it is told
  bool set = false;
  std::array<int, 2> pad{}, stride{};
};

template <class T> std::set<T*>& live() {
  static std::set<T*> all;
  return all;
}

template <class T> T* known(void* p) { return live<T>().count(static_cast<T*>(p)) ? static_cast<T*>(p) : nullptr; }

template <class T> int create(void** d) {
  if (!d) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for a descriptor");
  auto* made = new T;
  live<T>().insert(made);
  fakecuda::count("cudnn_descriptors");
  *d = made;
  return 0;
}

template <class T> int destroy(void* d) {
  T* known_d = known<T>(d);
  if (!known_d) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such descriptor");
  live<T>().erase(known_d);
  delete known_d;
  fakecuda::count("cudnn_descriptors", -1);
  return 0;
}

inline int no_handle() { return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such handle"); }

inline bool positive(std::initializer_list<int> values) {
  return std::all_of(values.begin(), values.end(), [](int v) { return v > 0; });
}

inline int set_image(void* d, int type, std::array<int, 4> dims, std::array<int, 4> strides) {
  auto* t = known<Image>(d);
  number::Type numbers;
  if (!t || !type_of(type, &numbers) || !positive({dims[0], dims[1], dims[2], dims[3], strides[0], strides[1], strides[2], strides[3]}))
    return fail(CUDNN_STATUS_BAD_PARAM, "a tensor of the older interface");
  t->type = type, t->dims = dims, t->strides = strides;
  return 0;
}

inline int set_filter(void* d, int type, int format, std::array<int, 4> dims) {
  auto* t = known<Filter>(d);
  number::Type numbers;
  if (!t || !type_of(type, &numbers) || !positive({dims[0], dims[1], dims[2], dims[3]})) return fail(CUDNN_STATUS_BAD_PARAM, "a filter of the older interface");
  if (format != CUDNN_TENSOR_NHWC) return fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "a filter that is not channel-last");
  t->type = type, t->dims = dims;
  return 0;
}

inline int set_conv(void* d, std::array<int, 2> pad, std::array<int, 2> stride, std::array<int, 2> dilation, int mode, int type) {
  auto* t = known<Conv>(d);
  if (!t || pad[0] < 0 || pad[1] < 0 || !positive({stride[0], stride[1]}) || dilation != std::array<int, 2>{1, 1} || mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT)
    return fail(CUDNN_STATUS_BAD_PARAM, "a convolution of the older interface");
  t->pad = pad, t->stride = stride, t->set = true;
  return 0;
}

inline int set_math(void* d, int math) {
  auto* t = known<Conv>(d);
  if (!t || math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) return fail(CUDNN_STATUS_BAD_PARAM, "a math type");
  t->math = math;
  return 0;
}

// What a call is about, once its descriptors are found good.
struct Question {
  Window window;
  number::Type type, weight; // of the images, of the filter
  int math;
};

inline int look(void* xd, void* wd, void* yd, void* conv, Question* q) {
  auto *x = known<Image>(xd), *y = known<Image>(yd);
  auto* w = known<Filter>(wd);
  auto* c = known<Conv>(conv);
  if (!x || !y || !w || !c || x->type < 0 || y->type < 0 || w->type < 0 || !c->set || c->math < 0) return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor of the older interface is missing or not set");
  number::Type out = number::Type::bit;
  type_of(x->type, &q->type), type_of(y->type, &out), type_of(w->type, &q->weight);
  for (auto* t : {x, y}) {
    auto [n, ch, h, wi] = t->dims;
    if (t->strides != std::array<int, 4>{h * wi * ch, 1, wi * ch, ch}) return fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "an image is not packed channel-last");
  }
  if (q->type != out || q->type != q->weight) return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "the tensors' types differ");
  q->window = {x->dims[0], x->dims[1], x->dims[2], x->dims[3], w->dims[0], w->dims[2], w->dims[3], y->dims[2], y->dims[3],
               {c->pad[0], c->pad[1]}, {c->stride[0], c->stride[1]}, {1, 1}};
  const Window& d = q->window;
  if (w->dims[1] != d.c || y->dims[0] != d.n || y->dims[1] != d.k || (d.h + 2 * d.pad[0] - d.r) / d.stride[0] + 1 != d.p ||
      (d.w + 2 * d.pad[1] - d.s) / d.stride[1] + 1 != d.q)
    return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the shapes of a convolution");
  q->math = c->math;
  return 0;
}

// Channel-last images go with algorithm 1; that without tensor cores, 0, takes float32 alone.
inline int size(Pass pass, void* x, void* w, void* y, void* conv, int algorithm, size_t* bytes) {
  Question q;
  if (int status = look(x, w, y, conv, &q)) return status;
  if (!bytes) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for a size");
  // The library finds fault with a parameter for some algorithms, and says of others that they are not supported.
  if (algorithm != 1 && !(algorithm == 0 && (q.type == number::Type::f32 || pass != Pass::forward)))
    return fail(algorithm % 2 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_NOT_SUPPORTED, "algorithm " + text(algorithm));
  *bytes = algorithm == 1 ? 2048 : 0;
  return 0;
}

struct Tensor {
  void *descriptor, *memory;
};

inline int run(Pass pass, void* stream, const float* alpha, const float* beta, Tensor x, Tensor w, Tensor y, void* conv, int algorithm, void* workspace, size_t bytes) {
  size_t wanted;
  if (int status = size(pass, x.descriptor, w.descriptor, y.descriptor, conv, algorithm, &wanted)) return status;
  if (!alpha || !beta || *alpha != 1 || (*beta != 0 && *beta != 1)) return fail(CUDNN_STATUS_BAD_PARAM, "alpha is not 1 or beta neither 0 nor 1");
  bool add = *beta == 1;
  if (bytes < wanted || (wanted > 0 && !workspace)) return fail(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "workspace of " + text(int64_t(bytes)) + " bytes");
  Question q;
  look(x.descriptor, w.descriptor, y.descriptor, conv, &q);
  const Window& d = q.window;
  int64_t sizes[] = {d.n * d.h * d.w * d.c, d.k * d.r * d.s * d.c, d.n * d.p * d.q * d.k};
  void* memory[] = {x.memory, w.memory, y.memory};
  int result = pass == Pass::forward ? 2 : pass == Pass::data ? 0 : 1;
  std::vector<fakecuda::Range> ranges;
  for (int i = 0; i < 3; i++) ranges.push_back({uint64_t(memory[i]), number::bytes(q.type, sizes[i]), i == result});
  if (add) ranges.push_back({uint64_t(memory[result]), number::bytes(q.type, sizes[result]), false});
  if (wanted > 0) ranges.push_back({uint64_t(workspace), wanted, true});
  static std::map<int, int64_t> runs; // algorithm 0 adds in another order at every second run, backward
  bool backwards = pass != Pass::forward && algorithm == 0 && runs[int(pass)]++ % 2 == 1;
  bool tf32 = q.type == number::Type::f32 && q.math != CUDNN_FMA_MATH;
  int status = fakecuda::enqueue(stream, "cudnn legacy algo " + text(algorithm), ranges,
      [=, a0 = memory[0], a1 = memory[1], a2 = memory[2], s0 = sizes[0], s1 = sizes[1], s2 = sizes[2]]() {
        void* at[] = {a0, a1, a2};
        int64_t n[] = {s0, s1, s2};
        auto read = [&](int i) {
          Numbers v(static_cast<size_t>(n[i]));
          for (size_t k = 0; k < v.size(); k++) v[k] = number::load(q.type, at[i], int64_t(k));
          return v;
        };
        Numbers out = pass == Pass::forward ? convolve(pass, q.window, read(0), read(1), {false, tf32})
                      : pass == Pass::data  ? convolve(pass, q.window, read(1), read(2), {backwards, tf32})
                                            : convolve(pass, q.window, read(0), read(2), {backwards, tf32});
        if (add) {
          Numbers before = read(result);
          for (size_t k = 0; k < out.size(); k++) out[k] += before[k];
        }
        if (wanted > 0) memset(workspace, 0xcd, wanted);
        for (size_t k = 0; k < out.size(); k++) number::store(q.type, at[result], int64_t(k), out[k]);
        return 0;
      },
      algorithm == 1 ? 35 : 60);
  if (status != 0) return fail(CUDNN_STATUS_EXECUTION_FAILED, "the driver says " + text(status));
  return 0;
}

} // namespace fakecudnn::legacy
