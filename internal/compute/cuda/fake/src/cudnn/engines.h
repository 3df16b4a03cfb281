// The engines of the fake cuDNN. They differ in what they can do, in their notes, in how they add and in the time they take on the fake
// clock; some are only there to be refused.
#pragma once
#include "graph.h"
#include "../fakecuda.h"

namespace fakecudnn {

struct Engine {
  int64_t index;
  std::vector<int> notes;
  int64_t workspace;
  double microseconds;
  bool alternates; // adds in another order at every second run
  bool tf32;
  int (*check)(const Descriptor* graph); // at Finalize of a plan
  bool compiled = false;                 // when a plan is finalised
  int bad = 0;                           // one of the faults below, when it runs
};

// Faults that show when an engine runs. The setting cudnn_bad has the bits of the engines with them that the heuristics propose first.
enum { WRONG = 1, UNWRITTEN = 2, REFUSES = 4, REFUSES_CAPTURE = 8, KILLS = 16 };

inline std::vector<Operation> operations(const Descriptor* graph) {
  std::vector<Operation> all;
  for (Descriptor* d : graph->all<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) all.push_back(operation(d));
  return all;
}

inline bool half(number::Type t) { return t == number::Type::f16 || t == number::Type::bf16; }

// What no engine for convolutions does.
inline int conv_basics(const Descriptor* graph) {
  Operation o = operations(graph)[0];
  Pass pass;
  Tensor x, w, y;
  Window d = window(o, &pass, &x, &w, &y);
  for (const Tensor* t : {&x, &w, &y}) {
    if (!packed(*t)) return fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "tensor " + text(t->uid) + " is not packed channel-last");
    if (t->is_virtual) return fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "tensor " + text(t->uid) + " is virtual");
  }
  if (d.dilation[0] != 1 || d.dilation[1] != 1) return fail(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "dilation");
  bool wide = pass == Pass::weight && half(x.type) && y.type == x.type && w.type == number::Type::f32;
  if (wide && fakecuda::setting("cudnn_wgrad_float32", 1)) return 0;
  if (x.type != w.type || x.type != y.type || x.type == number::Type::bit) return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "the tensors' types differ");
  return 0;
}

inline int conv_tensor_core(const Descriptor* graph) {
  if (int status = conv_basics(graph)) return status;
  Operation o = operations(graph)[0];
  Pass pass;
  Tensor x, w, y;
  Window d = window(o, &pass, &x, &w, &y);
  if (!half(x.type)) return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "float32");
  if (d.c % 8 || d.k % 8) return fail(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "channels are no multiple of 8");
  return 0;
}

inline int conv_winograd(const Descriptor* graph) {
  if (int status = conv_tensor_core(graph)) return status;
  Operation o = operations(graph)[0];
  if (adds(o.d)) return fail(CUDNN_STATUS_NOT_SUPPORTED, "beta is not 0");
  Pass pass;
  Tensor x, w, y;
  Window d = window(o, &pass, &x, &w, &y);
  if (d.r != 3 || d.s != 3 || d.stride[0] != 1 || d.stride[1] != 1) return fail(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "not 3x3 of stride 1");
  return 0;
}

inline int conv_float(const Descriptor* graph) {
  if (int status = conv_basics(graph)) return status;
  Operation o = operations(graph)[0];
  for (const Tensor& t : o.in)
    if (t.type != number::Type::f32) return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "not float32");
  return 0;
}

// An engine that compiles never.
inline int refuse(const Descriptor*) {
  return fail(int(fakecuda::setting("cudnn_refusal", CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT)), "too much shared memory");
}

// The shapes and types that the patterns with a normalisation are for.
inline int norm_basics(const Tensor& x) {
  if (!packed(x)) return fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "x is not packed channel-last");
  int64_t c = x.dims[1];
  if (half(x.type) ? c % 8 : c % 4) return fail(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, text(c) + " channels");
  return 0;
}

// norm [, add] [, relu [, greater than 0]], with virtual tensors between.
inline int norm_add_relu(const Descriptor* graph) {
  auto ops = operations(graph);
  const Tensor& x = ops[0].in[0];
  if (int status = norm_basics(x)) return status;
  Tensor last = ops[0].out[0];
  size_t i = 1;
  auto mode = [&](size_t k) {
    if (k >= ops.size() || ops[k].d->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return -1;
    return ops[k].d->to(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)->one<int32_t>(CUDNN_ATTR_POINTWISE_MODE);
  };
  auto pattern = [](const char* why) { return fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, why); };
  for (int wanted : {CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_RELU_FWD}) {
    if (mode(i) != wanted) continue;
    if (ops[i].in[0].uid != last.uid || !last.is_virtual) return pattern("the chain after the normalisation is broken");
    if (last.type != number::Type::f32) return pattern("a virtual tensor is not float");
    if (wanted == CUDNN_POINTWISE_ADD && (ops[i].in[1].type != x.type || ops[i].in[1].dims != x.dims)) return pattern("what is added is not like x");
    last = ops[i].out[0];
    i++;
  }
  if (last.is_virtual || last.type != x.type) return pattern("y is not like x");
  if (mode(i) == CUDNN_POINTWISE_CMP_GT) {
    const Tensor& with = ops[i].in[1];
    if (mode(i - 1) != CUDNN_POINTWISE_RELU_FWD || ops[i].in[0].uid != last.uid) return pattern("the mask is not one of ReLU's result");
    if (ops[i].out[0].type != number::Type::bit || ops[i].out[0].is_virtual) return pattern("the mask is not one of bits");
    if (with.by_value ? !fakecuda::setting("cudnn_mask_scalar", 1) : with.dims != x.dims) return pattern("the mask compares with something else");
    i++;
  }
  return i == ops.size() ? 0 : pattern("there are other operations");
}

// [mask times dy,] gradient of norm.
inline int relu_fork_norm(const Descriptor* graph) {
  auto ops = operations(graph);
  const Operation& norm = ops.back();
  if (int status = norm_basics(norm.in[0])) return status;
  auto pattern = [](const char* why) { return fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, why); };
  if (norm.in[1].type != norm.in[0].type || norm.out[0].type != norm.in[0].type) return pattern("dy or dx is not like x");
  if (ops.size() == 1) return 0;
  if (ops.size() != 2 || ops[0].d->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
      ops[0].d->to(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)->one<int32_t>(CUDNN_ATTR_POINTWISE_MODE) != CUDNN_POINTWISE_MUL)
    return pattern("there are other operations");
  if (ops[0].in[1].type != number::Type::bit) return pattern("the mask is not one of bits");
  if (ops[0].out[0].uid != norm.in[1].uid) return pattern("the masked gradient is not the normalisation's");
  return 0;
}

inline const std::map<int64_t, Engine>& engines() {
  static const std::map<int64_t, Engine> all = {
      {0, {0, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 4096, 30, false, false, conv_tensor_core}},
      {1, {1, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_WINOGRAD}, 1 << 14, 25, false, false, conv_winograd}},
      {3, {3, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, 0, 15, false, true, conv_float}},
      {5, {5, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 512, 10, true, false, conv_basics}},
      {7, {7, {}, 0, 1, false, false, refuse}},
      {9, {9, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, 0, 5, false, false, conv_tensor_core}},
      {11, {11, {}, 0, 50, false, false, conv_basics}},
      {13, {13, {}, int64_t(3) << 30, 1, false, false, conv_basics}},
      {20, {20, {}, 8192, 12, false, false, norm_add_relu}},
      {22, {22, {}, 0, 1, false, false, refuse}},
      {24, {24, {}, 0, 40, false, false, norm_add_relu}},
      {30, {30, {}, 8192, 14, false, false, relu_fork_norm}},
      {34, {34, {}, 0, 45, false, false, relu_fork_norm}},
      {41, {41, {}, 0, 1, false, false, conv_basics, false, WRONG}},
      {42, {42, {}, 0, 2, false, false, conv_basics, false, UNWRITTEN}},
      {43, {43, {}, 0, 3, false, false, conv_basics, false, REFUSES}},
      {44, {44, {}, 0, 4, false, false, conv_basics, false, REFUSES_CAPTURE}},
      {45, {45, {}, 0, 5, false, false, conv_basics, false, KILLS}},
      // Compiled ones: hardly faster than the fastest of the others, and clearly.
      {46, {46, {}, 0, 19.8, false, false, conv_basics, true}},
      {47, {47, {}, 0, 8, false, false, conv_basics, true}},
  };
  return all;
}

struct Config {
  int64_t engine;
  std::vector<std::pair<int, int64_t>> knobs;
};

// heuristics lists the configurations of a mode, or refuses.
inline int heuristics(const Descriptor* graph, int mode, std::vector<Config>* out) {
  auto ops = operations(graph);
  auto has = [&](int type) { return std::any_of(ops.begin(), ops.end(), [&](const Operation& o) { return o.d->type == type; }); };
  if (mode == CUDNN_HEUR_MODE_B && !fakecuda::setting("cudnn_heuristics_b", 1)) return fail(int(fakecuda::setting("cudnn_refusal", CUDNN_STATUS_NOT_SUPPORTED)), "mode B");
  if (fakecuda::setting("cudnn_no_engines", 0)) return 0;
  if (ops.size() == 1 && is_conv(ops[0].d->type)) {
    if (mode == CUDNN_HEUR_MODE_A) *out = {{0, {{24, 3}, {2, 17}}}, {0, {{24, 3}, {2, 18}}}, {7, {}}, {5, {}}, {3, {}}, {9, {}}, {13, {}}};
    if (mode == CUDNN_HEUR_MODE_A) {
      auto bad = fakecuda::setting("cudnn_bad", 0);
      for (int i = 4; i >= 0; i--)
        if (bad >> i & 1) out->insert(out->begin(), {41 + i, {}});
      for (int64_t i = 0; i < fakecuda::setting("cudnn_compiled", 0); i++) out->insert(out->begin(), {i == 0 ? 46 : 47, {{2, i}}});
    }
    if (mode == CUDNN_HEUR_MODE_B) *out = {{0, {{24, 3}, {2, 18}}}, {1, {}}, {11, {}}};
    if (mode == CUDNN_HEUR_MODE_FALLBACK) *out = {{11, {}}};
    return 0;
  }
  if (mode == CUDNN_HEUR_MODE_B) return fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "mode B knows convolutions alone");
  if (ops[0].d->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR) {
    if (mode == CUDNN_HEUR_MODE_A) *out = {{22, {}}, {20, {{2, 4}}}};
    else *out = {{24, {}}};
    return 0;
  }
  if (has(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)) {
    if (mode == CUDNN_HEUR_MODE_A) *out = {{22, {}}, {30, {}}};
    else *out = {{34, {}}};
    return 0;
  }
  return fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "a graph of another kind");
}

} // namespace fakecudnn
