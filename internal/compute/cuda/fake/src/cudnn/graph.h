// Operations of the fake cuDNN: what Finalize checks of them, and how they are done.
#pragma once
#include <algorithm>

#include "math.h"
#include "store.h"
#include "../fakecuda.h"

namespace fakecudnn {

// Which attributes of an operation are tensors it reads and writes, in the order of their roles.
struct Roles {
  std::vector<int> in, out;
};

inline Roles roles(int type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W}, {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}, {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX}};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}, {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}};
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC}, {CUDNN_ATTR_OPERATION_POINTWISE_YDESC}};
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC,
               CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC,
               CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC},
              {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
               CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC}};
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC,
               CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC},
              {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC}};
  }
  return {};
}

// An operation with its tensors; those that are not set have uid 0.
struct Operation {
  const Descriptor* d;
  std::vector<Tensor> in, out;
};

inline Operation operation(const Descriptor* d) {
  Operation o{d, {}, {}};
  Roles r = roles(d->type);
  for (int a : r.in) o.in.push_back(d->has(a) ? tensor(d->to(a)) : Tensor{});
  for (int a : r.out) o.out.push_back(d->has(a) ? tensor(d->to(a)) : Tensor{});
  return o;
}

inline bool is_conv(int type) {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR || type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

// conv gives the pass of a convolution and its window, from the tensors in the roles x, w, y.
inline Window window(const Operation& o, Pass* pass, Tensor* x, Tensor* w, Tensor* y) {
  const Descriptor* conv;
  switch (o.d->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      *pass = Pass::forward, *x = o.in[0], *w = o.in[1], *y = o.out[0];
      conv = o.d->to(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      *pass = Pass::data, *x = o.out[0], *w = o.in[0], *y = o.in[1];
      conv = o.d->to(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
      break;
    default:
      *pass = Pass::weight, *x = o.in[0], *w = o.out[0], *y = o.in[1];
      conv = o.d->to(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
  }
  auto pad = conv->all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), stride = conv->all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
       dilation = conv->all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  return {x->dims[0], x->dims[1], x->dims[2], x->dims[3], w->dims[0], w->dims[2], w->dims[3], y->dims[2], y->dims[3],
          {pad[0], pad[1]}, {stride[0], stride[1]}, {dilation[0], dilation[1]}};
}

// adds says whether a convolution adds to what its result's memory holds.
inline bool adds(const Descriptor* d) {
  switch (d->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR: return d->one<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA) != 0;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR: return d->one<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA) != 0;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: return d->one<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA) != 0;
  }
  return false;
}

inline bool packed(const Tensor& t) {
  int64_t c = t.dims[1], h = t.dims[2], w = t.dims[3];
  return t.strides == std::vector<int64_t>{h * w * c, 1, w * c, c};
}

inline int check_conv(const Operation& o) {
  Pass pass;
  Tensor x, w, y;
  for (const auto& side : {o.in, o.out})
    for (const Tensor& t : side)
      if (t.dims.size() != 4) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a convolution's tensor has " + text(int64_t(t.dims.size())) + " dimensions");
  Window d = window(o, &pass, &x, &w, &y);
  if (w.dims[1] != d.c || y.dims[0] != d.n || y.dims[1] != d.k) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a convolution's channels or images differ");
  if (x.type != w.type || x.type != y.type)
    if (int status = int(fakecuda::setting("cudnn_mixed_types", 0))) return fail(status, "the types of a convolution's tensors differ");
  int64_t p = (d.h + 2 * d.pad[0] - ((d.r - 1) * d.dilation[0] + 1)) / d.stride[0] + 1, q = (d.w + 2 * d.pad[1] - ((d.s - 1) * d.dilation[1] + 1)) / d.stride[1] + 1;
  if (p != d.p || q != d.q) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "y is " + text(d.p) + "x" + text(d.q) + ", want " + text(p) + "x" + text(q));
  return 0;
}

inline int check_norm(const Operation& o, size_t images_in, size_t images_out) {
  const Tensor& x = o.in[0];
  if (x.dims.size() != 4) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a normalisation's x has no 4 dimensions");
  std::vector<int64_t> channel = {1, x.dims[1], 1, 1}, one = {1, 1, 1, 1};
  for (size_t side = 0; side < 2; side++) {
    const auto& all = side == 0 ? o.in : o.out;
    for (size_t i = 0; i < all.size(); i++) {
      if (all[i].uid == 0) continue;
      bool image = i < (side == 0 ? images_in : images_out);
      if (all[i].dims != (image ? x.dims : all[i].by_value ? one : channel)) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "tensor " + text(all[i].uid) + " of a normalisation has another shape");
      if (!image && all[i].type != number::Type::f32) return fail(CUDNN_STATUS_BAD_PARAM, "tensor " + text(all[i].uid) + " of a normalisation is not float");
    }
  }
  if (o.d->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR) {
    int running = 0;
    for (size_t i = 4; i < 7; i++) running += o.in[i].uid != 0;
    for (size_t i = 3; i < 5; i++) running += o.out[i].uid != 0;
    if (running != 0 && running != 5) return fail(CUDNN_STATUS_BAD_PARAM, "running statistics are half there");
    if (!o.in[3].by_value) return fail(CUDNN_STATUS_BAD_PARAM, "epsilon is not by value");
  }
  return 0;
}

inline int check_pointwise(const Operation& o) {
  int mode = o.d->to(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)->one<int32_t>(CUDNN_ATTR_POINTWISE_MODE);
  bool two = mode == CUDNN_POINTWISE_ADD || mode == CUDNN_POINTWISE_MUL || mode == CUDNN_POINTWISE_SUB || mode == CUDNN_POINTWISE_CMP_GT;
  if (!two && mode != CUDNN_POINTWISE_RELU_FWD) return fail(CUDNN_STATUS_NOT_SUPPORTED, "pointwise mode " + text(mode));
  if (two != (o.in[1].uid != 0)) return fail(CUDNN_STATUS_BAD_PARAM, "pointwise mode " + text(mode) + " has the wrong number of arguments");
  if (o.in[0].dims != o.out[0].dims) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a pointwise result has another shape");
  for (int alpha : {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2})
    if (o.d->has(alpha) && o.d->one<float>(alpha) != 1) return fail(CUDNN_STATUS_NOT_SUPPORTED, "a pointwise factor is not 1");
  const Descriptor* how = o.d->to(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  if (how->one<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE) != 0) return fail(CUDNN_STATUS_NOT_SUPPORTED, "a leaky ReLU");
  if (two)
    for (size_t i = 0; i < o.out[0].dims.size(); i++)
      if (o.in[1].dims.size() != o.out[0].dims.size() || (o.in[1].dims[i] != 1 && o.in[1].dims[i] != o.out[0].dims[i]))
        return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a pointwise argument has another shape");
  return 0;
}

// A graph's tensors that have memory of the caller: by unique ID, with whether the graph reads and writes them.
struct Memory {
  Tensor tensor;
  bool read = false, written = false;
};

// check_graph goes through the operations in order and collects the caller's memory.
inline int check_graph(const Descriptor* g, std::map<int64_t, Memory>* memory) {
  std::map<int64_t, bool> there; // what exists between operations
  for (Descriptor* d : g->all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    if (!d->alive) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an operation of the graph was destroyed");
    Roles r = roles(d->type);
    for (auto side : {&r.in, &r.out})
      for (int a : *side)
        if (d->has(a) && !d->to(a)->alive) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor of the graph was destroyed");
    Operation o = operation(d);
    for (const Tensor& t : o.in) {
      if (t.uid == 0) continue;
      if (t.is_virtual && !there.count(t.uid)) return fail(CUDNN_STATUS_BAD_PARAM, "virtual tensor " + text(t.uid) + " is read before it is written");
      if (!t.is_virtual && !there.count(t.uid)) (*memory)[t.uid].tensor = t, (*memory)[t.uid].read = true;
    }
    for (const Tensor& t : o.out) {
      if (t.uid == 0) continue;
      if (there.count(t.uid)) return fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "tensor " + text(t.uid) + " is written twice");
      if (t.by_value) return fail(CUDNN_STATUS_BAD_PARAM, "tensor " + text(t.uid) + " is written and by value");
      there[t.uid] = true;
      if (!t.is_virtual) (*memory)[t.uid].tensor = t, (*memory)[t.uid].written = true, (*memory)[t.uid].read |= adds(d);
    }
  }
  return 0;
}

// Values by unique ID while a graph is done.
using Values = std::map<int64_t, Numbers>;

// rounded is what is left of the numbers in the tensor's type.
inline Numbers rounded(const Tensor& t, Numbers v) {
  if (t.type == number::Type::f32) return v;
  for (float& f : v) {
    uint8_t buffer[2] = {};
    number::store(t.type, buffer, 0, f);
    f = number::load(t.type, buffer, 0);
  }
  return v;
}

inline void perform(const Operation& o, Values& v, Arithmetic how) {
  auto put = [&](const Tensor& t, Numbers n) {
    if (t.uid != 0) v[t.uid] = rounded(t, std::move(n));
  };
  if (is_conv(o.d->type)) {
    Pass pass;
    Tensor x, w, y;
    Window d = window(o, &pass, &x, &w, &y);
    Numbers result = convolve(pass, d, v[o.in[0].uid], v[o.in[1].uid], how);
    if (adds(o.d)) {
      const Numbers& before = v[o.out[0].uid];
      for (size_t i = 0; i < result.size(); i++) result[i] += before[i];
    }
    put(o.out[0], result);
    return;
  }
  switch (o.d->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      int mode = o.d->to(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)->one<int32_t>(CUDNN_ATTR_POINTWISE_MODE);
      const Numbers a = v[o.in[0].uid], b = v[o.in[1].uid];
      Numbers y(a.size());
      const Descriptor* how = o.d->to(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      bool nan = how->one<int32_t>(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == 1; // it is not, unless asked for
      float lower = float(how->one<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP));
      float upper = how->has(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP) ? float(how->one<double>(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP)) : INFINITY;
      for (size_t i = 0; i < a.size(); i++) {
        float other = b.empty() ? 0 : b.size() == a.size() ? b[i] : b[i % b.size()]; // all or one of each channel, or one
        switch (mode) {
          case CUDNN_POINTWISE_ADD: y[i] = a[i] + other; break;
          case CUDNN_POINTWISE_SUB: y[i] = a[i] - other; break;
          case CUDNN_POINTWISE_MUL: y[i] = a[i] * other; break;
          case CUDNN_POINTWISE_RELU_FWD: y[i] = a[i] > lower ? std::min(a[i], upper) : std::isnan(a[i]) && nan ? a[i] : lower; break;
          case CUDNN_POINTWISE_CMP_GT: y[i] = a[i] > other; break;
        }
      }
      put(o.out[0], y);
      return;
    }
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: {
      const Numbers& x = v[o.in[0].uid];
      int64_t c = o.in[0].dims[1], m = int64_t(x.size()) / c;
      Norm r = normalise(x, c, v[o.in[1].uid], v[o.in[2].uid], v[o.in[3].uid][0]);
      if (o.in[4].uid != 0) {
        float f = v[o.in[4].uid][0];
        Numbers mean = v[o.in[5].uid], var = v[o.in[6].uid];
        for (int64_t j = 0; j < c; j++) {
          mean[j] = (1 - f) * mean[j] + f * r.mean[j];
          var[j] = (1 - f) * var[j] + f * r.var[j] * (m > 1 ? float(m) / float(m - 1) : 1);
        }
        put(o.out[3], mean);
        put(o.out[4], var);
      }
      put(o.out[0], r.y);
      put(o.out[1], r.mean);
      put(o.out[2], r.invstd);
      return;
    }
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: {
      NormGrad r = normalise_back(v[o.in[0].uid], v[o.in[1].uid], o.in[0].dims[1], v[o.in[2].uid], v[o.in[3].uid], v[o.in[4].uid]);
      put(o.out[0], r.dx);
      put(o.out[1], r.dscale);
      put(o.out[2], r.dbias);
    }
  }
}

} // namespace fakecudnn
