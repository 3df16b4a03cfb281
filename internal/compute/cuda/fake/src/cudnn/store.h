// The descriptors of the fake cuDNN's graph interface. Every attribute is checked when it is set: it belongs to the descriptor's type, has
// the right type, number and kind of elements, and is set before Finalize and by nobody else.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "constants.h"
#include "../numbers.h"

namespace fakecudnn {

// The text of the last error, as cudnnGetLastErrorString gives it out.
inline thread_local std::string last_error;

inline std::string text(int64_t v) { return std::to_string(v); }

inline int fail(int status, const std::string& text) {
  last_error = text;
  return status;
}

struct Engine;

struct Descriptor {
  int type;
  bool alive = true, final = false;
  std::map<int, std::vector<uint8_t>> values;

  // What the library itself knows of engines, configurations and plans.
  const Engine* engine = nullptr;
  std::vector<std::pair<int, int64_t>> knobs;
  Descriptor* graph = nullptr;
  int64_t runs = 0;

  bool has(int attribute) const { return values.count(attribute) != 0; }
  template <class T> std::vector<T> all(int attribute) const {
    std::vector<T> out;
    auto it = values.find(attribute);
    if (it == values.end()) return out;
    out.resize(it->second.size() / sizeof(T));
    memcpy(out.data(), it->second.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T> T one(int attribute) const {
    auto v = all<T>(attribute);
    return v.empty() ? T{} : v[0];
  }
  Descriptor* to(int attribute) const { return one<Descriptor*>(attribute); }
};

// All descriptors ever made; those that are destroyed stay as dead ones, so that their use is found out.
inline std::set<Descriptor*> made;

inline Descriptor* known(void* p) {
  auto* d = static_cast<Descriptor*>(p);
  return made.count(d) && d->alive ? d : nullptr;
}

struct Row {
  int attribute, type;
  int64_t least, most; // elements
  bool required;
  std::set<int> kinds = {}; // of descriptors that the elements may be
};

constexpr int64_t many = 1 << 20;

inline const std::map<int, std::vector<Row>>& table() {
  const std::set<int> tensor = {CUDNN_BACKEND_TENSOR_DESCRIPTOR}, window = {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR};
  const int desc = CUDNN_TYPE_BACKEND_DESCRIPTOR, i64 = CUDNN_TYPE_INT64;
  static const std::map<int, std::vector<Row>> rows = {
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
       {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, i64, 1, 8, true},
        {CUDNN_ATTR_TENSOR_STRIDES, i64, 1, 8, true},
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, i64, 1, 1, true},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, i64, 1, 1, true},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, 1, false},
        {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, 1, false}}},
      {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
       {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1, true},
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, i64, 1, 1, true},
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i64, 2, 2, true},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i64, 2, 2, true},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, i64, 2, 2, true},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i64, 2, 2, true}}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, 1, true},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, 1, true},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, desc, 1, 1, true, window},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, desc, 1, 1, true, tensor}}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1, 1, true},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 1, 1, true},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, desc, 1, 1, true, window},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, desc, 1, 1, true, tensor}}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, 1, 1, true},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, 1, 1, true},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, desc, 1, 1, true, window},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, desc, 1, 1, true, tensor}}},
      {CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1, true},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
        {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, 1, false},
        {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 1, 1, false},
        {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, 1, false},
        {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1, 1, false}}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, desc, 1, 1, true, {CUDNN_BACKEND_POINTWISE_DESCRIPTOR}},
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, desc, 1, 1, false, tensor},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, 1, false},
        {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, 1, false}}},
      {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, 1, true},
        {CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, 1, true},
        {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, desc, 1, 1, false, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, desc, 1, 1, false, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, desc, 1, 1, false, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, desc, 1, 1, false, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, desc, 1, 1, false, tensor},
        {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, desc, 1, 1, true, tensor}}},
      {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, 1, true},
        {CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, desc, 1, 1, true, tensor},
        {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, desc, 1, 1, true, tensor}}},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, true},
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, desc, 1, many, true,
         {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
          CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
          CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR}}}},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
       {{CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1, true},
        {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, desc, 1, 1, true, {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}}}},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
       {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, true},
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, desc, 1, 1, true, {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR}}}},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
       {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i64, 1, many, true},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, many, true},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1, true}}},
      // The heuristics fill these too.
      {CUDNN_BACKEND_ENGINE_DESCRIPTOR,
       {{CUDNN_ATTR_ENGINE_OPERATION_GRAPH, desc, 1, 1, true, {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}},
        {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, i64, 1, 1, true}}},
      {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
       {{CUDNN_ATTR_ENGINECFG_ENGINE, desc, 1, 1, true, {CUDNN_BACKEND_ENGINE_DESCRIPTOR}},
        {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, desc, 1, 64, false, {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR}}}},
      {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
       {{CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, 1, true}, {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, i64, 1, 1, true}}},
  };
  return rows;
}

inline size_t element(int type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE: case CUDNN_TYPE_INT64: case CUDNN_TYPE_DOUBLE: case CUDNN_TYPE_VOID_PTR: case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_BOOLEAN: return 1;
    default: return 4;
  }
}

inline int set_attribute(void* p, int attribute, int type, int64_t count, const void* values) {
  Descriptor* d = known(p);
  if (!d) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such descriptor");
  if (d->final) return fail(CUDNN_STATUS_BAD_PARAM, "attribute " + text(attribute) + " of a finalised descriptor of type " + text(d->type));
  for (const Row& r : table().at(d->type)) {
    if (r.attribute != attribute) continue;
    if (r.type != type) return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute " + text(attribute) + " has type " + text(r.type) + ", got " + text(type));
    if (count < r.least || count > r.most) return fail(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "attribute " + text(attribute) + " got " + text(count) + " elements");
    if (!values) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no elements of attribute " + text(attribute));
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
      for (int64_t i = 0; i < count; i++) {
        Descriptor* e = known(static_cast<void* const*>(values)[i]);
        if (!e) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "element of attribute " + text(attribute) + " is no descriptor");
        if (!r.kinds.count(e->type)) return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "element of attribute " + text(attribute) + " has descriptor type " + text(e->type));
        if (!e->final) return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "element of attribute " + text(attribute) + " is not finalised");
      }
    if (type == CUDNN_TYPE_BOOLEAN && *static_cast<const uint8_t*>(values) > 1) return fail(CUDNN_STATUS_BAD_PARAM, "a boolean is neither 0 nor 1");
    auto* bytes = static_cast<const uint8_t*>(values);
    d->values[attribute].assign(bytes, bytes + size_t(count) * element(type));
    return 0;
  }
  return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor of type " + text(d->type) + " has no attribute " + text(attribute) + " that is set");
}

// A tensor in a readable form.
struct Tensor {
  int64_t uid = 0;
  number::Type type = number::Type::f32;
  std::vector<int64_t> dims, strides;
  int64_t alignment = 0;
  bool is_virtual = false, by_value = false;
  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
};

inline bool type_of(int data_type, number::Type* t) {
  switch (data_type) {
    case CUDNN_DATA_FLOAT: *t = number::Type::f32; return true;
    case CUDNN_DATA_HALF: *t = number::Type::f16; return true;
    case CUDNN_DATA_BFLOAT16: *t = number::Type::bf16; return true;
    case CUDNN_DATA_BOOLEAN: *t = number::Type::bit; return true;
  }
  return false;
}

inline Tensor tensor(const Descriptor* d) {
  Tensor t;
  t.uid = d->one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  type_of(d->one<int32_t>(CUDNN_ATTR_TENSOR_DATA_TYPE), &t.type);
  t.dims = d->all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  t.strides = d->all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  t.alignment = d->one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  t.is_virtual = d->one<uint8_t>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  t.by_value = d->one<uint8_t>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  return t;
}

} // namespace fakecudnn
