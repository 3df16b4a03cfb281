// A stand-in for libcublasLt.so.13 with the functions' real signatures. It checks what it is given, and multiplies with plain loops in the
// order of the fake driver's streams. Settings of the fake driver: cublaslt_version, cublaslt_no_algorithms, cublaslt_bias_float32.
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../fakecuda.h"
#include "../numbers.h"

namespace {

enum {
  SUCCESS = 0,
  NOT_INITIALIZED = 1,
  INVALID_VALUE = 7,
  EXECUTION_FAILED = 13,
  NOT_SUPPORTED = 15,
  COMPUTE_32F = 68,
  COMPUTE_32F_FAST_TF32 = 77,
  DESC_TRANSA = 3,
  DESC_TRANSB = 4,
  DESC_EPILOGUE = 7,
  DESC_BIAS_POINTER = 8,
  DESC_BIAS_DATA_TYPE = 26,
  PREF_MAX_WORKSPACE = 1,
  PREF_REDUCTION_SCHEMES = 3,
  PREF_ALIGNMENT_A = 5,
  PREF_ALIGNMENT_D = 8,
  EPILOGUE_DEFAULT = 1,
  EPILOGUE_RELU = 2,
  EPILOGUE_BIAS = 4,
  EPILOGUE_RELU_BIAS = 6,
  EPILOGUE_BGRADB = 512,
};

std::mutex mutex; // guards what the functions below share; work in a stream does not take it

#define LOCK std::lock_guard<std::mutex> lock(mutex)

int refuse(int status, const char* why) {
  fakecuda::note("cublasLt: %s", why); // the real library would have said so in its log
  return status;
}

bool type_of(int data_type, number::Type* t) {
  switch (data_type) {
    case 0: *t = number::Type::f32; return true;
    case 2: *t = number::Type::f16; return true;
    case 14: *t = number::Type::bf16; return true;
  }
  return false;
}

struct Handle {};

struct Desc {
  int compute = 0;
  int32_t transa = 0, transb = 0, bias_type = -1;
  uint32_t epilogue = EPILOGUE_DEFAULT;
  char* bias = nullptr;
};

struct Layout {
  number::Type type = number::Type::f32;
  int64_t rows = 0, cols = 0, ld = 0;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t schemes = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

template <class T> std::set<T*>& live() {
  static std::set<T*> all;
  return all;
}

template <class T> T* known(void* p) { return live<T>().count(static_cast<T*>(p)) ? static_cast<T*>(p) : nullptr; }

template <class T> int create(void** out, T** made) {
  if (!out) return refuse(INVALID_VALUE, "no place for a result");
  *made = new T;
  live<T>().insert(*made);
  *out = *made;
  fakecuda::count("cublaslt_objects");
  return SUCCESS;
}

template <class T> int destroy(void* p) {
  T* t = known<T>(p);
  if (!t) return refuse(INVALID_VALUE, "what is to be destroyed does not exist");
  live<T>().erase(t);
  delete t;
  fakecuda::count("cublaslt_objects", -1);
  return SUCCESS;
}

// What lies in a cublasLtMatmulAlgo_t here.
struct Algorithm {
  uint64_t magic, index, workspace, alignment[4], unused;
};
static_assert(sizeof(Algorithm) == 64);
constexpr uint64_t magic = 0x70617261676f6e21;

struct Result {
  Algorithm algorithm;
  uint64_t workspace;
  int32_t state;
  float waves;
  int32_t reserved[4];
};
static_assert(sizeof(Result) == 96);

struct Product {
  Desc desc;
  Layout a, b, c, d;
  int64_t m, n, k;
};

// look checks that the descriptors go together: D = op(A)·op(B), by columns.
int look(void* desc, void* a, void* b, void* c, void* d, Product* p) {
  if (!known<Desc>(desc)) return refuse(INVALID_VALUE, "no operation descriptor");
  for (void* l : {a, b, c, d})
    if (!known<Layout>(l)) return refuse(INVALID_VALUE, "no layout");
  *p = {*known<Desc>(desc), *known<Layout>(a), *known<Layout>(b), *known<Layout>(c), *known<Layout>(d), 0, 0, 0};
  p->m = p->desc.transa ? p->a.cols : p->a.rows;
  p->k = p->desc.transa ? p->a.rows : p->a.cols;
  p->n = p->desc.transb ? p->b.rows : p->b.cols;
  if ((p->desc.transb ? p->b.cols : p->b.rows) != p->k || p->d.rows != p->m || p->d.cols != p->n || p->c.rows != p->m || p->c.cols != p->n)
    return refuse(INVALID_VALUE, "the shapes do not fit");
  if (p->a.type != p->b.type || p->c.type != p->d.type || (p->d.type != p->a.type && p->d.type != number::Type::f32)) return refuse(NOT_SUPPORTED, "the types do not go together");
  if (p->desc.compute == COMPUTE_32F_FAST_TF32 && p->a.type != number::Type::f32) return refuse(NOT_SUPPORTED, "tf32 of other numbers than float32");
  bool vector = p->desc.epilogue & (EPILOGUE_BIAS | EPILOGUE_BGRADB);
  if (vector) {
    number::Type bias;
    if (!type_of(p->desc.bias_type < 0 ? 0 : p->desc.bias_type, &bias)) return refuse(INVALID_VALUE, "the bias's type");
    if (bias != p->d.type && !(bias == number::Type::f32 && fakecuda::setting("cublaslt_bias_float32", 0))) return refuse(NOT_SUPPORTED, "the bias's type is not D's");
  }
  return SUCCESS;
}

} // namespace

#pragma GCC visibility push(default)

extern "C" {

size_t cublasLtGetVersion() { return size_t(fakecuda::setting("cublaslt_version", 130001)); }

int cublasLtCreate(void** handle) {
  LOCK;
  if (fakecuda::current_device() < 0) return refuse(NOT_INITIALIZED, "the thread has no context");
  Handle* h;
  return create(handle, &h);
}
int cublasLtDestroy(void* handle) {
  LOCK;
  return destroy<Handle>(handle);
}

int cublasLtMatmulDescCreate(void** desc, int compute, int scale) {
  LOCK;
  if ((compute != COMPUTE_32F && compute != COMPUTE_32F_FAST_TF32) || scale != 0) return refuse(NOT_SUPPORTED, "compute or scale type");
  Desc* d;
  int status = create(desc, &d);
  if (status == SUCCESS) d->compute = compute;
  return status;
}
int cublasLtMatmulDescDestroy(void* desc) {
  LOCK;
  return destroy<Desc>(desc);
}

int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  LOCK;
  Desc* d = known<Desc>(desc);
  if (!d || !value) return refuse(INVALID_VALUE, "no operation descriptor or no value");
  int32_t number = 0;
  if (attribute != DESC_BIAS_POINTER) {
    if (bytes != 4) return refuse(INVALID_VALUE, "an attribute of 4 bytes");
    memcpy(&number, value, 4);
  }
  switch (attribute) {
    case DESC_TRANSA: case DESC_TRANSB:
      if (number != 0 && number != 1) return refuse(INVALID_VALUE, "a transposition");
      (attribute == DESC_TRANSA ? d->transa : d->transb) = number;
      return SUCCESS;
    case DESC_EPILOGUE:
      if (number != EPILOGUE_DEFAULT && number != EPILOGUE_RELU && number != EPILOGUE_BIAS && number != EPILOGUE_RELU_BIAS && number != EPILOGUE_BGRADB) return refuse(NOT_SUPPORTED, "an epilogue");
      d->epilogue = uint32_t(number);
      return SUCCESS;
    case DESC_BIAS_DATA_TYPE: d->bias_type = number; return SUCCESS;
    case DESC_BIAS_POINTER:
      if (bytes != 8) return refuse(INVALID_VALUE, "an attribute of 8 bytes");
      memcpy(&d->bias, value, 8);
      return SUCCESS;
  }
  return refuse(INVALID_VALUE, "an attribute that is not known");
}

int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  LOCK;
  number::Type numbers;
  if (!type_of(type, &numbers) || rows < 1 || cols < 1 || ld < int64_t(rows)) return refuse(INVALID_VALUE, "a layout's type, size or leading dimension");
  Layout* l;
  int status = create(layout, &l);
  if (status == SUCCESS) *l = {numbers, int64_t(rows), int64_t(cols), ld};
  return status;
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  LOCK;
  return destroy<Layout>(layout);
}

int cublasLtMatmulPreferenceCreate(void** preference) {
  LOCK;
  Preference* p;
  return create(preference, &p);
}
int cublasLtMatmulPreferenceDestroy(void* preference) {
  LOCK;
  return destroy<Preference>(preference);
}

int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {
  LOCK;
  Preference* p = known<Preference>(preference);
  if (!p || !value) return refuse(INVALID_VALUE, "no preference or no value");
  if (bytes != (attribute == PREF_MAX_WORKSPACE ? 8 : 4)) return refuse(INVALID_VALUE, "the size of a preference");
  if (attribute == PREF_MAX_WORKSPACE) memcpy(&p->workspace, value, 8);
  else if (attribute == PREF_REDUCTION_SCHEMES) memcpy(&p->schemes, value, 4);
  else if (attribute >= PREF_ALIGNMENT_A && attribute <= PREF_ALIGNMENT_D) memcpy(&p->alignment[attribute - PREF_ALIGNMENT_A], value, 4);
  else return refuse(INVALID_VALUE, "a preference that is not known");
  return SUCCESS;
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int requested, void* results, int* returned) {
  LOCK;
  Preference* pref = known<Preference>(preference);
  Product p;
  if (!known<Handle>(handle) || !pref || !results || !returned || requested < 1) return refuse(INVALID_VALUE, "the heuristics' arguments");
  if (int status = look(desc, a, b, c, d, &p)) return status;
  if ((p.desc.epilogue & (EPILOGUE_BIAS | EPILOGUE_BGRADB)) && !p.desc.bias) return refuse(NOT_SUPPORTED, "the heuristics see no bias");
  // The first wants workspace, the second sums in the result's type, the third is one that does not work, the last always goes.
  struct {
    uint64_t workspace;
    uint32_t scheme;
    int32_t state;
  } all[] = {{1 << 16, 2, SUCCESS}, {1 << 16, 4, SUCCESS}, {0, 0, NOT_SUPPORTED}, {0, 0, SUCCESS}};
  int n = 0;
  for (uint64_t i = 0; i < 4 && n < requested && !fakecuda::setting("cublaslt_no_algorithms", 0); i++) {
    if (all[i].workspace > pref->workspace || (all[i].scheme & ~pref->schemes)) continue;
    Result r = {};
    r.algorithm = {magic, i, all[i].workspace, {pref->alignment[0], pref->alignment[1], pref->alignment[2], pref->alignment[3]}, 0};
    r.workspace = all[i].workspace, r.state = all[i].state, r.waves = 0.5f;
    memcpy(static_cast<Result*>(results) + n++, &r, sizeof r);
  }
  *returned = n;
  return n == 0 ? refuse(NOT_SUPPORTED, "no algorithm") : SUCCESS;
}

int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute, void* value, size_t bytes, size_t* written) {
  if (!algorithm || algorithm->magic != magic || !value || bytes != 4) return INVALID_VALUE;
  uint32_t v = 0;
  switch (attribute) {
    case 0: v = uint32_t(algorithm->index); break;  // ID
    case 1: v = 20; break;                          // TILE_ID
    case 2: v = algorithm->workspace > 0 ? 4 : 1; break; // SPLITK_NUM
    default: return NOT_SUPPORTED;
  }
  memcpy(value, &v, 4);
  if (written) *written = 4;
  return SUCCESS;
}

int cublasLtMatmul(void* handle, void* desc, const float* alpha, void* a, void* ad, void* b, void* bd, const float* beta, void* c, void* cd, void* d, void* dd,
                   const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream) {
  LOCK;
  Product p;
  if (!known<Handle>(handle) || !alpha || !beta || !algorithm || algorithm->magic != magic) return refuse(INVALID_VALUE, "a product's arguments");
  if (int status = look(desc, ad, bd, cd, dd, &p)) return status;
  if (*alpha != 1 || (*beta != 0 && *beta != 1) || c != d) return refuse(NOT_SUPPORTED, "alpha, beta or C");
  void* pointers[] = {a, b, c, d};
  for (int i = 0; i < 4; i++)
    if (uint64_t(pointers[i]) % algorithm->alignment[i]) return refuse(INVALID_VALUE, "an operand is less aligned than the heuristics were told");
  if (workspace_bytes < algorithm->workspace || (algorithm->workspace > 0 && uint64_t(workspace) % 16)) return refuse(INVALID_VALUE, "workspace");
  uint32_t epilogue = p.desc.epilogue;
  bool add_bias = epilogue & EPILOGUE_BIAS, relu = epilogue & EPILOGUE_RELU, gradient = epilogue == EPILOGUE_BGRADB;
  if ((add_bias || gradient) && !p.desc.bias) return refuse(INVALID_VALUE, "no bias");
  auto bytes = [](const Layout& l) { return number::bytes(l.type, l.ld * (l.cols - 1) + l.rows); };
  bool accumulate = *beta == 1;
  std::vector<fakecuda::Range> ranges = {{uint64_t(a), bytes(p.a), false}, {uint64_t(b), bytes(p.b), false}, {uint64_t(d), bytes(p.d), true}};
  if (accumulate) ranges.push_back({uint64_t(d), bytes(p.d), false});
  number::Type bias_type = number::Type::f32;
  if (p.desc.bias_type >= 0) type_of(p.desc.bias_type, &bias_type);
  if (add_bias) ranges.push_back({uint64_t(p.desc.bias), number::bytes(bias_type, p.m), false});
  if (gradient) ranges.push_back({uint64_t(p.desc.bias), number::bytes(bias_type, p.n), true});
  size_t scratch = algorithm->workspace;
  if (scratch > 0) ranges.push_back({uint64_t(workspace), scratch, true});
  int status = fakecuda::enqueue(stream, "cublasLt algo" + std::to_string(algorithm->index), ranges,
      [=]() {
        bool tf32 = p.desc.compute == COMPUTE_32F_FAST_TF32;
        auto at = [&](const Layout& l, void* from, bool trans, int64_t row, int64_t col) {
          float v = number::load(l.type, from, trans ? col + row * l.ld : row + col * l.ld);
          return tf32 ? number::tf32(v) : v;
        };
        if (scratch > 0) memset(workspace, 0xcd, scratch);
        for (int64_t j = 0; j < p.n; j++) {
          for (int64_t i = 0; i < p.m; i++) {
            float sum = 0;
            for (int64_t l = 0; l < p.k; l++) sum += at(p.a, a, p.desc.transa, i, l) * at(p.b, b, p.desc.transb, l, j);
            if (accumulate) sum += number::load(p.d.type, d, i + j * p.d.ld);
            if (add_bias) sum += number::load(bias_type, p.desc.bias, i);
            if (relu && !(sum > 0)) sum = 0;
            number::store(p.d.type, d, i + j * p.d.ld, sum);
          }
          if (gradient) {
            float sum = 0;
            for (int64_t l = 0; l < p.k; l++) sum += number::load(p.b.type, b, p.desc.transb ? j + l * p.b.ld : l + j * p.b.ld);
            number::store(bias_type, p.desc.bias, j, sum);
          }
        }
        return 0;
      },
      scratch > 0 ? 8 : 12);
  return status == 0 ? SUCCESS : EXECUTION_FAILED;
}

} // extern "C"

#pragma GCC visibility pop
