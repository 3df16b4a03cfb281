// The emulator: kernels run on the CPU, a fiber for each thread of a block, one block after the other. Barriers and shuffles are
// real. Threads, and blocks, run in an order that the caller chooses: forward, reversed or shuffled.
//
// What it finds and reports in place of going on: a barrier or shuffle that some threads miss; an index outside of a shared
// array; a shared number that is read before it is written; two threads that meet at a shared number without a barrier between
// them; a vector at an address that is not a multiple of 16; a parameter block of the wrong size.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emu {

struct dim { unsigned x, y, z; };
inline dim threadIdx, blockIdx, blockDim, gridDim;

inline char message[512]; // of the launch that went wrong
inline unsigned epoch = 1; // goes up at each barrier and each block

// --- fibers

enum state { ready, at_barrier, at_warp, done };
constexpr size_t stack_bytes = 64 << 10;

#if defined(__x86_64__)
struct context { void *sp; };
// The callee-saved registers go to the old stack, and come from the new one.
asm(R"(
.text
.p2align 4
.local emu_switch
.type emu_switch, @function
emu_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq (%rsi), %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
.size emu_switch, .-emu_switch
)");
extern "C" __attribute__((visibility("hidden"))) void emu_switch(context *from, context *to);
inline void prepare(context &c, char *stack, void (*entry)()) {
  void **sp = (void **)(stack + stack_bytes);
  *--sp = nullptr; // where a caller's address would be: the stack is aligned as after a call
  *--sp = (void *)entry;
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  c.sp = sp;
}
inline void switch_to(context &from, context &to) { emu_switch(&from, &to); }
#else
struct context { ucontext_t u; };
inline void prepare(context &c, char *stack, void (*entry)()) {
  getcontext(&c.u);
  c.u.uc_stack.ss_sp = stack;
  c.u.uc_stack.ss_size = stack_bytes;
  c.u.uc_link = nullptr;
  makecontext(&c.u, entry, 0);
}
inline void switch_to(context &from, context &to) { swapcontext(&from.u, &to.u); }
#endif

struct fiber {
  context c;
  state st;
  int kind;       // of the warp operation that it waits in
  unsigned count; // of warp operations
  char *stack;
};

inline std::vector<fiber> fibers;
inline context scheduler;
inline unsigned current;
inline const std::function<void()> *body;
inline bool failed;
inline float slots[2][1024];

inline void suspend(state st) {
  fiber &f = fibers[current];
  f.st = st;
  switch_to(f.c, scheduler);
}

// fail ends the launch with a message. It does not return.
__attribute__((format(printf, 1, 2))) inline void fail(const char *format, ...) {
  char text[300];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  snprintf(message, sizeof message, "block (%u,%u,%u) thread %u: %s", blockIdx.x, blockIdx.y, blockIdx.z, current, text);
  failed = true;
  for (;;) suspend(done);
}

inline void entry() {
  (*body)();
  for (;;) suspend(done);
}

// meet is one step of all threads of a warp.
inline void meet(int kind) {
  fibers[current].kind = kind;
  suspend(at_warp);
}

inline float shuffle_xor(float x, int mask) {
  fiber &f = fibers[current];
  float *slot = slots[f.count++ & 1];
  slot[current] = x;
  meet(mask);
  return slot[current ^ (unsigned)mask];
}

inline unsigned ballot(bool x) {
  fiber &f = fibers[current];
  float *slot = slots[f.count++ & 1];
  slot[current] = x;
  meet(-1);
  unsigned bits = 0, first = current / 32 * 32;
  for (unsigned i = 0; i < 32 && first + i < fibers.size(); i++) bits |= (unsigned)(slot[first + i] != 0) << i;
  return bits;
}

inline void barrier() { suspend(at_barrier); }

// --- shared memory

struct shared_base {
  const char *name;
  bool touched = false;
  virtual void forget() = 0;
  virtual ~shared_base() {}
};
inline std::vector<shared_base *> arrays;

template <class T, unsigned N> struct shared : shared_base {
  struct cell {
    T value;
    unsigned written, read; // the epoch in which that was done last
    int writer, reader;     // reader -1: several
  } cells[N];

  struct ref {
    shared &s;
    unsigned i;
    operator T() const { return s.load(i); }
    T operator=(T v) { s.store(i, v); return v; }
    T operator=(const ref &r) { T v = r; s.store(i, v); return v; }
    T operator+=(T v) { T w = s.load(i) + v; s.store(i, w); return w; }
  };

  explicit shared(const char *n) {
    name = n;
    forget();
    arrays.push_back(this);
  }
  void forget() override { memset((void *)cells, 0, sizeof cells); }
  ref operator[](long i) {
    if (i < 0 || i >= (long)N) fail("index %ld of shared %s[%u]", i, name, N);
    touched = true;
    return ref{*this, (unsigned)i};
  }
  T load(unsigned i) {
    cell &c = cells[i];
    if (c.written == 0) fail("shared %s[%u] is read and was not written", name, i);
    if (c.written == epoch && c.writer != (int)current) fail("shared %s[%u] is read while thread %d writes it", name, i, c.writer);
    c.reader = c.read == epoch && c.reader != (int)current ? -1 : (int)current;
    c.read = epoch;
    return c.value;
  }
  void store(unsigned i, T v) {
    cell &c = cells[i];
    if (c.written == epoch && c.writer != (int)current) fail("shared %s[%u] is written while thread %d writes it", name, i, c.writer);
    if (c.read == epoch && c.reader != (int)current) fail("shared %s[%u] is written while another thread reads it", name, i);
    c.value = v;
    c.written = epoch;
    c.writer = (int)current;
  }
};

inline void check_aligned(const void *p) {
  if ((uintptr_t)p % 16) fail("sixteen bytes at %p, which is not a multiple of 16", p);
}

// --- kernels by name

struct kernel {
  const char *name;
  std::vector<int> sizes;
  size_t bytes = 0;
  std::function<void(const char *)> run;

  static std::vector<kernel *> &all() {
    static std::vector<kernel *> list;
    return list;
  }
  static kernel *find(const char *name) {
    for (kernel *k : all())
      if (!strcmp(k->name, name)) return k;
    return nullptr;
  }
  template <class A> static A next(const char *params, size_t &at) {
    at = (at + sizeof(A) - 1) / sizeof(A) * sizeof(A);
    A a;
    memcpy(&a, params + at, sizeof a);
    at += sizeof a;
    return a;
  }
  template <class... A> kernel(const char *n, void (*f)(A...)) : name(n), sizes{(int)sizeof(A)...} {
    for (int s : sizes) bytes = (bytes + s - 1) / s * s + s;
    run = [f](const char *params) {
      size_t at = 0;
      std::tuple<A...> values{next<A>(params, at)...};
      std::apply(f, values);
    };
    all().push_back(this);
  }
};

// --- launches

inline std::vector<unsigned> ordered(unsigned n, int order, unsigned seed) {
  std::vector<unsigned> o(n);
  for (unsigned i = 0; i < n; i++) o[i] = order == 1 ? n - 1 - i : i;
  if (order > 1)
    for (unsigned i = n; i > 1; i--) {
      seed = seed * 1664525u + 1013904223u;
      std::swap(o[i - 1], o[(seed >> 8) % i]);
    }
  return o;
}

// run_block is false if something is wrong.
inline bool run_block(const std::vector<unsigned> &order) {
  unsigned n = (unsigned)fibers.size();
  epoch++;
  for (shared_base *s : arrays)
    if (s->touched) s->forget(), s->touched = false;
  for (fiber &f : fibers) {
    f.st = ready;
    f.count = 0;
    prepare(f.c, f.stack, entry);
  }
  for (;;) {
    for (unsigned i : order) {
      if (fibers[i].st != ready) continue;
      current = i;
      threadIdx = {i, 0, 0};
      switch_to(scheduler, fibers[i].c);
      if (failed) return false;
    }
    unsigned ended = 0, waiting = 0;
    for (fiber &f : fibers) ended += f.st == done, waiting += f.st == at_barrier;
    if (ended == n) return true;
    if (waiting == n) {
      epoch++;
      for (fiber &f : fibers) f.st = ready;
      continue;
    }
    bool going = false;
    for (unsigned w = 0; w < n; w += 32) {
      unsigned last = w + 32 < n ? w + 32 : n, met = 0;
      for (unsigned i = w; i < last; i++) met += fibers[i].st == at_warp && fibers[i].kind == fibers[w].kind;
      if (met != last - w) continue;
      for (unsigned i = w; i < last; i++) fibers[i].st = ready;
      going = true;
    }
    if (!going) {
      snprintf(message, sizeof message, "block (%u,%u,%u): threads part at a barrier or shuffle: %u ended, %u wait at a barrier, %u at a shuffle, of %u",
               blockIdx.x, blockIdx.y, blockIdx.z, ended, waiting, n - ended - waiting, n);
      failed = true;
      return false;
    }
  }
}

inline std::mutex one_at_a_time;

} // namespace emu

using emu::blockDim;
using emu::blockIdx;
using emu::gridDim;
using emu::threadIdx;
static inline void __syncthreads() { emu::barrier(); }
static inline float shuffle_xor(float x, int m) { return emu::shuffle_xor(x, m); }
static inline unsigned ballot(bool x) { return emu::ballot(x); }

namespace emu {
inline uint16_t float_bf16(float x) {
  uint32_t u = __builtin_bit_cast(uint32_t, x);
  if (x != x) return 0x7fff;
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline float half_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
  if (e == 31) return __builtin_bit_cast(float, sign | 0x7f800000u | m << 13);
  if (e == 0) return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, (float)m * 5.9604644775390625e-08f));
  return __builtin_bit_cast(float, sign | (e + 112) << 23 | m << 13);
}
inline uint16_t float_half(float x) {
  uint32_t u = __builtin_bit_cast(uint32_t, x), sign = u >> 16 & 0x8000;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return 0x7fff;
  if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); // 65520 and more
  if (u < 0x38800000u) { // below 2^-14: units of 2^-24, to nearest even as the sum of floats is
    float r = __builtin_bit_cast(float, u) + 0.5f;
    return (uint16_t)(sign | (__builtin_bit_cast(uint32_t, r) - 0x3f000000u));
  }
  u += 0xfff + (u >> 13 & 1);
  return (uint16_t)(sign | ((u - 0x38000000u) >> 13));
}
} // namespace emu

// emu_kernel gives the number of a kernel's parameters and their sizes, -1 if there is no such kernel.
extern "C" __attribute__((visibility("default"))) int emu_kernel(const char *name, int *sizes, int max) {
  emu::kernel *k = emu::kernel::find(name);
  if (!k) return -1;
  for (int i = 0; i < max && i < (int)k->sizes.size(); i++) sizes[i] = k->sizes[i];
  return (int)k->sizes.size();
}

// emu_name is the name of kernel i, null behind the last.
extern "C" __attribute__((visibility("default"))) const char *emu_name(int i) {
  auto &all = emu::kernel::all();
  return i >= 0 && i < (int)all.size() ? all[i]->name : nullptr;
}

// emu_error says what was wrong with the last launch that failed.
extern "C" __attribute__((visibility("default"))) const char *emu_error() { return emu::message; }

// emu_launch runs a kernel to its end: 0 if all is well, else emu_error says what is not. order is 0 for threads and blocks from
// the first to the last, 1 from the last to the first, and else the seed of a shuffled order. params is the packed parameter block.
extern "C" __attribute__((visibility("default"))) int emu_launch(const char *name, const unsigned grid[3], const unsigned block[3], unsigned shared, const void *params, size_t bytes, int order) {
  std::lock_guard<std::mutex> lock(emu::one_at_a_time);
  emu::kernel *k = emu::kernel::find(name);
  if (!k) {
    snprintf(emu::message, sizeof emu::message, "there is no kernel %s", name);
    return 1;
  }
  if (bytes != k->bytes) {
    snprintf(emu::message, sizeof emu::message, "kernel %s: a parameter block of %zu bytes, want %zu", name, bytes, k->bytes);
    return 2;
  }
  unsigned n = block[0];
  if (n < 1 || n > 1024 || block[1] != 1 || block[2] != 1 || grid[0] < 1 || grid[1] < 1 || grid[2] < 1 || shared != 0 ||
      grid[1] > 65535 || grid[2] > 65535) {
    snprintf(emu::message, sizeof emu::message, "kernel %s: grid %u,%u,%u block %u,%u,%u shared %u", name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared);
    return 3;
  }
  while (emu::fibers.size() < n) emu::fibers.push_back({{}, emu::done, 0, 0, (char *)aligned_alloc(64, emu::stack_bytes)});
  while (emu::fibers.size() > n) {
    free(emu::fibers.back().stack);
    emu::fibers.pop_back();
  }
  std::function<void()> run = [&] { k->run((const char *)params); };
  emu::body = &run;
  emu::failed = false;
  emu::blockDim = {n, 1, 1};
  emu::gridDim = {grid[0], grid[1], grid[2]};
  std::vector<unsigned> threads = emu::ordered(n, order, (unsigned)order);
  for (unsigned b : emu::ordered(grid[0] * grid[1] * grid[2], order, (unsigned)order + 7)) {
    emu::blockIdx = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
    if (!emu::run_block(threads)) {
      char text[400];
      snprintf(text, sizeof text, "%.390s", emu::message);
      snprintf(emu::message, sizeof emu::message, "kernel %s: %s", name, text);
      return 4;
    }
  }
  return 0;
}
