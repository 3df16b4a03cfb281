// A stand-in for libcudnn.so.9 with the functions' real signatures. It checks what it is given, and computes with plain loops in the order
// of the fake driver's streams. Settings of the fake driver: cudnn_version, cudnn_wgrad_float32, cudnn_mask_scalar, cudnn_heuristics_b,
// cudnn_no_engines, cudnn_refusal (the status of what is never supported).
#include <mutex>

#include "engines.h"
#include "legacy.h"

using namespace fakecudnn;

namespace {

std::mutex mutex; // guards what the functions below share; work in a stream does not take it

#define LOCK std::lock_guard<std::mutex> lock(mutex)

struct Handle {
  void* stream = nullptr;
};

std::set<Handle*> handles;

Handle* handle_of(void* p) {
  auto* h = static_cast<Handle*>(p);
  return handles.count(h) ? h : nullptr;
}

int finalize_tensor(Descriptor* d) {
  Tensor t = tensor(d);
  number::Type type;
  if (!type_of(d->one<int32_t>(CUDNN_ATTR_TENSOR_DATA_TYPE), &type)) return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "a tensor's type");
  if (t.dims.size() != t.strides.size()) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a tensor's dimensions and strides differ in number");
  for (size_t i = 0; i < t.dims.size(); i++)
    if (t.dims[i] < 1 || t.strides[i] < 1) return fail(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "a tensor's dimension or stride is " + text(std::min(t.dims[i], t.strides[i])));
  if (t.alignment < 1 || t.alignment & (t.alignment - 1)) return fail(CUDNN_STATUS_BAD_PARAM, "alignment " + text(t.alignment));
  if (t.uid == 0) return fail(CUDNN_STATUS_BAD_PARAM, "a tensor's unique ID is 0");
  if (t.is_virtual && t.by_value) return fail(CUDNN_STATUS_BAD_PARAM, "a tensor is virtual and by value");
  if (t.by_value && (t.size() != 1 || t.type != number::Type::f32)) return fail(CUDNN_STATUS_NOT_SUPPORTED, "a tensor by value is not one float");
  return 0;
}

int finalize_window(Descriptor* d) {
  if (d->one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "spatial dimensions");
  if (d->one<int32_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT) return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "compute type");
  if (d->one<int32_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION) return fail(CUDNN_STATUS_NOT_SUPPORTED, "a convolution that is turned over");
  if (d->all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) != d->all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS))
    return fail(CUDNN_STATUS_NOT_SUPPORTED, "padding that differs before and after");
  return 0;
}

int check_factors(const Descriptor* d, int alpha, int beta) {
  if (d->one<float>(alpha) != 1 || (d->one<float>(beta) != 0 && d->one<float>(beta) != 1)) return fail(CUDNN_STATUS_NOT_SUPPORTED, "alpha is not 1 or beta neither 0 nor 1");
  if (d->one<float>(beta) == 1)
    if (int status = int(fakecuda::setting("cudnn_beta", 0))) return fail(status, "beta is not 0");
  return 0;
}

int finalize_graph(Descriptor* d) {
  if (!handle_of(d->one<void*>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE))) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the graph has no handle");
  std::set<int64_t> seen;
  std::map<int64_t, Memory> memory;
  return check_graph(d, &memory);
}

int finalize_engine(Descriptor* d) {
  Descriptor* graph = d->to(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  auto found = engines().find(d->one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  if (!graph->alive) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the operation graph was destroyed");
  if (found == engines().end()) return fail(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "the graph has no engine " + text(d->one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)));
  d->engine = &found->second, d->graph = graph;
  return 0;
}

int finalize_config(Descriptor* d) {
  Descriptor* engine = d->to(CUDNN_ATTR_ENGINECFG_ENGINE);
  if (!engine->graph || !engine->graph->alive) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the engine has no operation graph");
  d->engine = engine->engine, d->graph = engine->graph;
  for (Descriptor* k : d->all<Descriptor*>(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) d->knobs.push_back(k->knobs.at(0));
  return 0;
}

int finalize_plan(Descriptor* d) {
  if (!handle_of(d->one<void*>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE))) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the plan has no handle");
  Descriptor* config = d->to(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!config->graph->alive) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the operation graph was destroyed");
  if (int status = config->engine->check(config->graph)) return status;
  d->engine = config->engine, d->knobs = config->knobs, d->graph = config->graph;
  return 0;
}

int finalize_pack(Descriptor* d) {
  auto ids = d->all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = d->all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != pointers.size()) return fail(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, text(int64_t(ids.size())) + " unique IDs and " + text(int64_t(pointers.size())) + " pointers");
  if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size()) return fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "a unique ID comes twice");
  return 0;
}

int finalize(Descriptor* d) {
  switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return finalize_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return finalize_window(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      if (int status = check_factors(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)) return status;
      return check_conv(operation(d));
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      if (int status = check_factors(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA)) return status;
      return check_conv(operation(d));
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      if (int status = check_factors(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA)) return status;
      return check_conv(operation(d));
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return check_pointwise(operation(d));
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      if (d->one<int32_t>(CUDNN_ATTR_OPERATION_NORM_FWD_MODE) != CUDNN_BATCH_NORM || d->one<int32_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) != CUDNN_NORM_FWD_TRAINING)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "another normalisation than batch normalisation in training");
      return check_norm(operation(d), 1, 1);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      if (d->one<int32_t>(CUDNN_ATTR_OPERATION_NORM_BWD_MODE) != CUDNN_BATCH_NORM) return fail(CUDNN_STATUS_NOT_SUPPORTED, "another normalisation than batch normalisation");
      return check_norm(operation(d), 2, 1);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return finalize_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
      std::vector<Config> configs;
      return heuristics(d->to(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), d->one<int32_t>(CUDNN_ATTR_ENGINEHEUR_MODE), &configs);
    }
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return finalize_engine(d);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return finalize_config(d);
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
      d->knobs = {{d->one<int32_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE), d->one<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)}};
      return 0;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return finalize_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return finalize_pack(d);
  }
  return 0;
}

// give fills descriptors that the caller made, of the given type, and counts all that there are.
template <class F> int give(int type, int attribute_type, size_t there, int64_t requested, int64_t* count, void* array, F fill) {
  if (attribute_type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute holds descriptors");
  *count = int64_t(there);
  for (size_t i = 0; i < there && int64_t(i) < requested; i++) {
    Descriptor* d = known(static_cast<void**>(array)[i]);
    if (!d || d->type != type) return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor to be filled has another type");
    if (d->final) return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor to be filled was filled before");
    fill(d, i);
    d->final = true;
  }
  return 0;
}

template <class T> int put(int type, int got_type, const std::vector<T>& values, int64_t requested, int64_t* count, void* array) {
  if (type != got_type) return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute type " + text(got_type) + ", want " + text(type));
  *count = int64_t(values.size());
  memcpy(array, values.data(), sizeof(T) * std::min(values.size(), size_t(requested)));
  return 0;
}

int get_attribute(Descriptor* d, int attribute, int type, int64_t requested, int64_t* count, void* array) {
  if (!d->final) return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an attribute of a descriptor that is not finalised");
  if (!count || requested < 0 || (requested > 0 && !array)) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for an attribute");
  switch (attribute) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      if (d->type != CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) break;
      std::vector<Config> configs;
      Descriptor* graph = d->to(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      if (int status = heuristics(graph, d->one<int32_t>(CUDNN_ATTR_ENGINEHEUR_MODE), &configs)) return status;
      return give(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, type, configs.size(), requested, count, array, [&](Descriptor* c, size_t i) {
        c->engine = &engines().at(configs[i].engine), c->knobs = configs[i].knobs, c->graph = graph;
      });
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      if (d->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) break;
      return give(CUDNN_BACKEND_ENGINE_DESCRIPTOR, type, 1, requested, count, array, [&](Descriptor* e, size_t) { e->engine = d->engine, e->graph = d->graph; });
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      if (d->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) break;
      return give(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, type, d->knobs.size(), requested, count, array, [&](Descriptor* k, size_t i) { k->knobs = {d->knobs[i]}; });
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      if (d->type != CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR) break;
      return put<int32_t>(CUDNN_TYPE_KNOB_TYPE, type, {d->knobs[0].first}, requested, count, array);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      if (d->type != CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR) break;
      return put<int64_t>(CUDNN_TYPE_INT64, type, {d->knobs[0].second}, requested, count, array);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      if (d->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR) break;
      return put<int64_t>(CUDNN_TYPE_INT64, type, {d->engine->index}, requested, count, array);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      if (d->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR) break;
      return put<int32_t>(CUDNN_TYPE_NUMERICAL_NOTE, type, d->engine->notes, requested, count, array);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      if (d->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR || fakecuda::setting("cudnn_no_behavior", 0)) break;
      return put<int32_t>(CUDNN_TYPE_BEHAVIOR_NOTE, type, d->engine->compiled ? std::vector<int32_t>{CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION} : std::vector<int32_t>{}, requested, count, array);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      if (d->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || fakecuda::setting("cudnn_version", 91900) < 90200) break;
      return put<int64_t>(CUDNN_TYPE_INT64, type, {d->engine->workspace}, requested, count, array);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      if (d->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) break;
      return put<int64_t>(CUDNN_TYPE_INT64, type, {d->engine->workspace}, requested, count, array);
  }
  return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor of type " + text(d->type) + " has no attribute " + text(attribute) + " to get");
}

int execute(Handle* h, Descriptor* plan, Descriptor* pack) {
  std::map<int64_t, Memory> memory;
  if (int status = check_graph(plan->graph, &memory)) return status;
  auto ids = pack->all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = pack->all<char*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, char*> at;
  for (size_t i = 0; i < ids.size(); i++) {
    if (!memory.count(ids[i])) return fail(CUDNN_STATUS_BAD_PARAM, "the graph has no tensor " + text(ids[i]) + " that wants memory");
    at[ids[i]] = pointers[i];
  }
  std::vector<fakecuda::Range> ranges;
  Values values;
  for (auto& [uid, m] : memory) {
    char* p = at[uid];
    if (!p) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "tensor " + text(uid) + " has no memory");
    if (uint64_t(p) % uint64_t(m.tensor.by_value ? 4 : m.tensor.alignment)) return fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "tensor " + text(uid));
    if (m.tensor.by_value) {
      values[uid] = {*reinterpret_cast<float*>(p)}; // the host's, read now
      continue;
    }
    size_t bytes = number::bytes(m.tensor.type, m.tensor.size());
    if (m.read) ranges.push_back({uint64_t(p), bytes, false});
    if (m.written) ranges.push_back({uint64_t(p), bytes, true});
  }
  char* workspace = pack->one<char*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const Engine* engine = plan->engine;
  if (engine->workspace > 0) {
    if (!workspace) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace");
    ranges.push_back({uint64_t(workspace), size_t(engine->workspace), true});
  }
  int bad = engine->bad;
  if (bad == REFUSES) return fail(CUDNN_STATUS_EXECUTION_FAILED, "an engine that never runs");
  if (bad == REFUSES_CAPTURE && fakecuda::break_capture(h->stream)) return fail(CUDNN_STATUS_EXECUTION_FAILED, "an engine that waits for the stream");
  auto ops = operations(plan->graph);
  // Knobs make a difference in time alone.
  double microseconds = engine->microseconds;
  for (auto& [knob, value] : plan->knobs)
    if (knob == 2 && value == 18) microseconds -= 10;
  auto runs = std::make_shared<int64_t>(0);
  if (engine->alternates) runs = std::shared_ptr<int64_t>(&plan->runs, [](int64_t*) {});
  int result = fakecuda::enqueue(h->stream, "cudnn eng" + text(engine->index), ranges,
      [=]() {
        Values v = values;
        for (auto& [uid, m] : memory) {
          if (m.tensor.by_value || !m.read) continue;
          Numbers& n = v[uid];
          n.resize(size_t(m.tensor.size()));
          for (size_t i = 0; i < n.size(); i++) n[i] = number::load(m.tensor.type, at.at(uid), int64_t(i));
        }
        if (engine->workspace > 0) memset(workspace, 0xcd, size_t(engine->workspace));
        Arithmetic how{engine->alternates && (*runs)++ % 2 == 1, engine->tf32};
        if (bad == KILLS) return 700;
        if (bad == UNWRITTEN) return 0;
        for (const Operation& o : ops) perform(o, v, how);
        if (bad == WRONG)
          for (float& f : v[ops.back().out[0].uid]) f *= 1.5f;
        for (auto& [uid, m] : memory)
          if (m.written)
            for (size_t i = 0; i < v[uid].size(); i++) number::store(m.tensor.type, at.at(uid), int64_t(i), v[uid][i]);
        return 0;
      },
      microseconds);
  if (result != 0) return fail(CUDNN_STATUS_EXECUTION_FAILED, "the driver says " + text(result));
  return 0;
}

} // namespace

#pragma GCC visibility push(default)

extern "C" {

size_t cudnnGetCudartVersion() { return size_t(fakecuda::setting("cudnn_cudart", 13000)); }

size_t cudnnGetVersion() { return size_t(fakecuda::setting("cudnn_version", 91900)); }

void cudnnGetLastErrorString(char* message, size_t max) {
  if (message && max > 0) snprintf(message, max, "%s", last_error.c_str());
}

int cudnnCreate(void** handle) {
  LOCK;
  if (!handle) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for a handle");
  if (fakecuda::current_device() < 0) return fail(CUDNN_STATUS_NOT_INITIALIZED, "the thread has no context");
  auto* h = new Handle;
  handles.insert(h);
  *handle = h;
  fakecuda::count("cudnn_handles");
  return 0;
}

int cudnnDestroy(void* handle) {
  LOCK;
  if (!handle_of(handle)) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such handle");
  handles.erase(handle_of(handle));
  fakecuda::count("cudnn_handles", -1);
  return 0;
}

int cudnnSetStream(void* handle, void* stream) {
  LOCK;
  Handle* h = handle_of(handle);
  if (!h) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such handle");
  if (stream && fakecuda::stream_device(stream) != fakecuda::current_device()) return fail(CUDNN_STATUS_BAD_PARAM, "the stream is another device's, or none");
  h->stream = stream;
  return 0;
}

int cudnnBackendCreateDescriptor(int type, void** descriptor) {
  LOCK;
  if (!descriptor) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for a descriptor");
  if (!table().count(type)) return fail(CUDNN_STATUS_NOT_SUPPORTED, "descriptor type " + text(type));
  auto* d = new Descriptor;
  d->type = type;
  made.insert(d);
  *descriptor = d;
  fakecuda::count("cudnn_descriptors");
  return 0;
}

int cudnnBackendDestroyDescriptor(void* descriptor) {
  LOCK;
  Descriptor* d = known(descriptor);
  if (!d) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such descriptor, or it was destroyed before");
  d->alive = false;
  fakecuda::count("cudnn_descriptors", -1);
  return 0;
}

int cudnnBackendSetAttribute(void* descriptor, int name, int type, int64_t count, const void* values) {
  LOCK;
  return set_attribute(descriptor, name, type, count, values);
}

int cudnnBackendGetAttribute(void* descriptor, int name, int type, int64_t requested, int64_t* count, void* values) {
  LOCK;
  Descriptor* d = known(descriptor);
  if (!d) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such descriptor");
  return get_attribute(d, name, type, requested, count, values);
}

int cudnnBackendFinalize(void* descriptor) {
  LOCK;
  Descriptor* d = known(descriptor);
  if (!d) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such descriptor");
  if (d->final) return fail(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalised already");
  for (const Row& r : table().at(d->type))
    if (r.required && !d->has(r.attribute)) return fail(CUDNN_STATUS_BAD_PARAM, "attribute " + text(r.attribute) + " is not set");
  if (int status = finalize(d)) return status;
  d->final = true;
  return 0;
}

int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  LOCK;
  Handle* h = handle_of(handle);
  Descriptor *p = known(plan), *v = known(pack);
  if (!h || !p || !v) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle, plan or variant pack");
  if (p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "not a plan and a variant pack");
  if (!p->final || !v->final) return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan or the variant pack");
  return execute(h, p, v);
}

// The older interface.

int cudnnCreateTensorDescriptor(void** d) {
  LOCK;
  return legacy::create<legacy::Image>(d);
}
int cudnnDestroyTensorDescriptor(void* d) {
  LOCK;
  return legacy::destroy<legacy::Image>(d);
}
int cudnnCreateFilterDescriptor(void** d) {
  LOCK;
  return legacy::create<legacy::Filter>(d);
}
int cudnnDestroyFilterDescriptor(void* d) {
  LOCK;
  return legacy::destroy<legacy::Filter>(d);
}
int cudnnCreateConvolutionDescriptor(void** d) {
  LOCK;
  return legacy::create<legacy::Conv>(d);
}
int cudnnDestroyConvolutionDescriptor(void* d) {
  LOCK;
  return legacy::destroy<legacy::Conv>(d);
}

int cudnnSetTensor4dDescriptorEx(void* d, int type, int n, int c, int h, int w, int ns, int cs, int hs, int ws) {
  LOCK;
  return legacy::set_image(d, type, {n, c, h, w}, {ns, cs, hs, ws});
}

int cudnnSetFilter4dDescriptor(void* d, int type, int format, int k, int c, int r, int s) {
  LOCK;
  return legacy::set_filter(d, type, format, {k, c, r, s});
}

int cudnnSetConvolution2dDescriptor(void* d, int pad_h, int pad_w, int u, int v, int dilation_h, int dilation_w, int mode, int type) {
  LOCK;
  return legacy::set_conv(d, {pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}, mode, type);
}

int cudnnSetConvolutionMathType(void* d, int math) {
  LOCK;
  return legacy::set_math(d, math);
}

int cudnnGetConvolutionForwardWorkspaceSize(void* handle, void* x, void* w, void* conv, void* y, int algorithm, size_t* bytes) {
  LOCK;
  return handle_of(handle) ? legacy::size(Pass::forward, x, w, y, conv, algorithm, bytes) : legacy::no_handle();
}

int cudnnGetConvolutionBackwardDataWorkspaceSize(void* handle, void* w, void* dy, void* conv, void* dx, int algorithm, size_t* bytes) {
  LOCK;
  return handle_of(handle) ? legacy::size(Pass::data, dx, w, dy, conv, algorithm, bytes) : legacy::no_handle();
}

int cudnnGetConvolutionBackwardFilterWorkspaceSize(void* handle, void* x, void* dy, void* conv, void* dw, int algorithm, size_t* bytes) {
  LOCK;
  return handle_of(handle) ? legacy::size(Pass::weight, x, dw, dy, conv, algorithm, bytes) : legacy::no_handle();
}

int cudnnConvolutionForward(void* handle, const float* alpha, void* xd, void* x, void* wd, void* w, void* conv, int algorithm, void* workspace, size_t bytes,
                            const float* beta, void* yd, void* y) {
  LOCK;
  Handle* h = handle_of(handle);
  return h ? legacy::run(Pass::forward, h->stream, alpha, beta, {xd, x}, {wd, w}, {yd, y}, conv, algorithm, workspace, bytes) : legacy::no_handle();
}

int cudnnConvolutionBackwardData(void* handle, const float* alpha, void* wd, void* w, void* dyd, void* dy, void* conv, int algorithm, void* workspace, size_t bytes,
                                 const float* beta, void* dxd, void* dx) {
  LOCK;
  Handle* h = handle_of(handle);
  return h ? legacy::run(Pass::data, h->stream, alpha, beta, {dxd, dx}, {wd, w}, {dyd, dy}, conv, algorithm, workspace, bytes) : legacy::no_handle();
}

int cudnnConvolutionBackwardFilter(void* handle, const float* alpha, void* xd, void* x, void* dyd, void* dy, void* conv, int algorithm, void* workspace, size_t bytes,
                                   const float* beta, void* dwd, void* dw) {
  LOCK;
  Handle* h = handle_of(handle);
  return h ? legacy::run(Pass::weight, h->stream, alpha, beta, {xd, x}, {dwd, dw}, {dyd, dy}, conv, algorithm, workspace, bytes) : legacy::no_handle();
}

} // extern "C"

#pragma GCC visibility pop
