// A stand-in for libnccl.so.2: all ranks are in this process. A collective is checked when its group ends, and is done by
// the fake driver when all of its streams have come to it.
#include "fakecuda.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#define API extern "C" __attribute__((visibility("default")))

typedef int ncclResult_t;
enum { SUCCESS = 0, CUDA_ERROR = 1, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };

namespace {

enum Kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };
const char *kinds[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast"};

struct Clique {
  int n;
  int alive;
  std::atomic<bool> aborted{false};
};

struct Comm {
  std::shared_ptr<Clique> clique;
  int rank, device;
};

struct Call {
  Kind kind;
  uint64_t send, recv;
  size_t count;
  int type, op, root;
  void *stream;
  Comm comm;
};

std::mutex lock;
std::map<uint64_t, Comm> comms;
uint64_t next_comm = 0x60000010;
thread_local int depth;
thread_local std::vector<Call> calls;
thread_local std::string last_error;

__attribute__((format(printf, 2, 3))) int refuse(int code, const char *format, ...) {
  char text[400];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  last_error = text;
  fakecuda::complain("%s", text);
  return code;
}

size_t size_of(int type) {
  switch (type) {
  case 0: case 1: return 1;  // ncclInt8, ncclUint8
  case 2: case 7: return 4;  // ncclInt32, ncclFloat32
  case 6: case 9: return 2;  // ncclFloat16, ncclBfloat16
  case 8: return 8;          // ncclFloat64
  }
  return 0;
}

double read(const char *p, int type, size_t i) {
  switch (type) {
  case 0: return ((const int8_t *)p)[i];
  case 1: return ((const uint8_t *)p)[i];
  case 2: return ((const int32_t *)p)[i];
  case 6: return (double)((const _Float16 *)p)[i];
  case 7: return ((const float *)p)[i];
  case 8: return ((const double *)p)[i];
  }
  uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

void write(char *p, int type, size_t i, double v) {
  switch (type) {
  case 0: ((int8_t *)p)[i] = (int8_t)v; return;
  case 1: ((uint8_t *)p)[i] = (uint8_t)v; return;
  case 2: ((int32_t *)p)[i] = (int32_t)v; return;
  case 6: ((_Float16 *)p)[i] = (_Float16)(float)v; return;
  case 7: ((float *)p)[i] = (float)v; return;
  case 8: ((double *)p)[i] = v; return;
  }
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  ((uint16_t *)p)[i] = f != f ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// elements are how many each rank sends and receives.
size_t sent(const Call &c) { return c.kind == REDUCE_SCATTER ? c.count * c.comm.clique->n : c.count; }
size_t received(const Call &c) { return c.kind == ALL_GATHER ? c.count * c.comm.clique->n : c.count; }

int check_memory(const Call &c) {
  size_t size = size_of(c.type);
  bool sends = c.kind != BROADCAST || c.comm.rank == c.root;
  if (sends)
    if (int e = fakecuda::check_range(kinds[c.kind], c.comm.device, {c.send, sent(c) * size, false})) return e;
  return fakecuda::check_range(kinds[c.kind], c.comm.device, {c.recv, received(c) * size, true});
}

// run is one collective of all ranks, in the order of ranks.
int run(const std::vector<Call> &ranks) {
  const Call &any = ranks[0];
  size_t size = size_of(any.type), n = ranks.size(), count = any.count;
  std::vector<std::string> in;
  for (const Call &c : ranks) {
    if (int e = check_memory(c)) return e;
    bool sends = c.kind != BROADCAST || c.comm.rank == c.root;
    in.push_back(sends ? std::string((const char *)c.send, sent(c) * size) : std::string());
  }
  auto reduced = [&](size_t i) {
    double v = read(in[0].data(), any.type, i);
    for (size_t r = 1; r < n; r++) {
      double x = read(in[r].data(), any.type, i);
      v = any.op == 1 ? v * x : any.op == 2 ? std::max(v, x) : any.op == 3 ? std::min(v, x) : (double)(float)(v + x);
    }
    return any.op == 4 ? v / (double)n : v;
  };
  for (const Call &c : ranks) {
    char *to = (char *)c.recv;
    switch (c.kind) {
    case ALL_REDUCE:
      for (size_t i = 0; i < count; i++) write(to, c.type, i, reduced(i));
      break;
    case REDUCE_SCATTER:
      for (size_t i = 0; i < count; i++) write(to, c.type, i, reduced(i + count * c.comm.rank));
      break;
    case ALL_GATHER:
      for (size_t r = 0; r < n; r++) memcpy(to + r * count * size, in[r].data(), count * size);
      break;
    case BROADCAST:
      memcpy(to, in[c.root].data(), count * size);
    }
  }
  return 0;
}

// flush matches the calls of a group: the k-th of each rank belong together.
int flush() {
  std::vector<Call> all;
  all.swap(calls);
  std::map<Clique *, std::vector<std::vector<Call>>> cliques;
  for (Call &c : all) {
    auto &ranks = cliques[c.comm.clique.get()];
    ranks.resize(c.comm.clique->n);
    ranks[c.comm.rank].push_back(c);
  }
  for (auto &it : cliques) {
    auto &ranks = it.second;
    for (size_t r = 0; r < ranks.size(); r++)
      if (ranks[r].size() != ranks[0].size())
        return refuse(INVALID_USAGE, "ncclGroupEnd: rank 0 has %zu calls in the group, rank %zu has %zu: the group would wait for ever", ranks[0].size(), r, ranks[r].size());
    for (size_t k = 0; k < ranks[0].size(); k++) {
      std::vector<Call> one;
      std::vector<void *> streams;
      const Call &first = ranks[0][k];
      for (auto &rank : ranks) {
        const Call &c = rank[k];
        if (c.kind != first.kind || c.count != first.count || c.type != first.type || c.op != first.op || c.root != first.root)
          return refuse(INVALID_USAGE, "ncclGroupEnd: call %zu is %s of %zu numbers on rank 0 and %s of %zu on rank %d, or of another type", k,
                        kinds[first.kind], first.count, kinds[c.kind], c.count, c.comm.rank);
        one.push_back(c);
        streams.push_back(c.stream);
      }
      char what[120];
      snprintf(what, sizeof what, "%s %zu type %d op %d root %d", kinds[first.kind], first.count, first.type, first.op, first.root);
      std::shared_ptr<Clique> clique = first.comm.clique;
      if (fakecuda::take_turn("nccl_call_hangs_at")) { // the call itself
        while (!clique->aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return INTERNAL_ERROR;
      }
      // Kernels of ranks whose peer is gone wait until they are aborted.
      bool hangs = fakecuda::take_turn("nccl_hangs_at");
      std::vector<int> devices;
      for (const Call &c : one) devices.push_back(c.comm.device);
      auto gate = [clique, hangs, devices] {
        if (clique->aborted) return fakecuda::LEFT_OUT + 0;
        for (int d : devices)
          if (fakecuda::broken(d)) return fakecuda::SHUT + 0;
        return (hangs ? fakecuda::SHUT : fakecuda::OPEN) + 0;
      };
      if (fakecuda::enqueue_all(streams, what, {}, [one] { return run(one); }, 10, gate)) return CUDA_ERROR;
    }
  }
  return SUCCESS;
}

int add(Kind kind, const void *send, void *recv, size_t count, int type, int op, int root, void *comm, void *stream) {
  Call c{kind, (uint64_t)send, (uint64_t)recv, count, type, op, root, stream, {}};
  {
    std::lock_guard<std::mutex> guard(lock);
    auto it = comms.find((uint64_t)comm);
    if (it == comms.end()) return refuse(INVALID_ARGUMENT, "%s: %p is not a communicator", kinds[kind], comm);
    c.comm = it->second;
  }
  if (!size_of(type) || op < 0 || op > 4 || root < 0 || root >= c.comm.clique->n || (op == 4 && type < 6 && kind != ALL_GATHER))
    return refuse(INVALID_ARGUMENT, "%s: type %d, op %d, root %d of %d", kinds[kind], type, op, root, c.comm.clique->n);
  if (fakecuda::capturing(stream)) return refuse(INVALID_USAGE, "%s: the stream is being captured", kinds[kind]);
  if (fakecuda::stream_device(stream) != c.comm.device)
    return refuse(INVALID_ARGUMENT, "%s: rank %d is device %d, and the stream is of device %d", kinds[kind], c.comm.rank, c.comm.device, fakecuda::stream_device(stream));
  if (check_memory(c)) return INVALID_ARGUMENT;
  size_t size = size_of(type), a = sent(c) * size, b = received(c) * size;
  uint64_t in_place = kind == REDUCE_SCATTER ? c.send + count * size * c.comm.rank : c.send;
  uint64_t want = kind == ALL_GATHER ? c.recv + count * size * c.comm.rank : c.recv;
  if (c.send < c.recv + b && c.recv < c.send + a && in_place != want && (kind != BROADCAST || c.comm.rank == root))
    return refuse(INVALID_ARGUMENT, "%s: what is sent and what is received overlap, and not as in-place calls do", kinds[kind]);
  if (depth == 0 && c.comm.clique->n > 1)
    return refuse(INVALID_USAGE, "%s: outside of a group the thread would wait for its own other ranks for ever", kinds[kind]);
  calls.push_back(c);
  return depth ? SUCCESS : flush();
}

} // namespace

API ncclResult_t ncclGetVersion(int *version) { return *version = (int)fakecuda::setting("nccl_version", 22809), SUCCESS; }

API const char *ncclGetErrorString(ncclResult_t code) {
  switch (code) {
  case SUCCESS: return "no error";
  case CUDA_ERROR: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case INTERNAL_ERROR: return "internal error - please report this issue to the NCCL developers";
  case REMOTE_ERROR: return "remote process exited or there was a network error";
  case INVALID_ARGUMENT: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case INVALID_USAGE: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  }
  return "unknown result code";
}

API const char *ncclGetLastError(void *) { return last_error.c_str(); }

API ncclResult_t ncclCommInitAll(void **out, int n, const int *devices) {
  if (n < 1) return refuse(INVALID_ARGUMENT, "ncclCommInitAll: %d devices", n);
  std::set<int> seen;
  for (int i = 0; i < n; i++) {
    int d = devices ? devices[i] : i;
    if (d < 0 || d >= (int)fakecuda::setting("devices", 2)) return refuse(INVALID_ARGUMENT, "ncclCommInitAll: there is no device %d", d);
    if (!seen.insert(d).second) return refuse(INVALID_USAGE, "ncclCommInitAll: device %d twice", d);
  }
  std::lock_guard<std::mutex> guard(lock);
  auto clique = std::make_shared<Clique>();
  clique->n = clique->alive = n;
  for (int i = 0; i < n; i++) {
    comms[next_comm] = Comm{clique, i, devices ? devices[i] : i};
    out[i] = (void *)next_comm;
    next_comm += 16;
  }
  fakecuda::count("live_comms", n);
  fakecuda::note("ncclCommInitAll of %d", n);
  return SUCCESS;
}

static ncclResult_t drop(const char *call, void *comm, bool abort) {
  std::lock_guard<std::mutex> guard(lock);
  auto it = comms.find((uint64_t)comm);
  if (it == comms.end()) return refuse(INVALID_ARGUMENT, "%s: %p is not a communicator", call, comm);
  if (abort) it->second.clique->aborted = true;
  comms.erase(it);
  fakecuda::count("live_comms", -1);
  return SUCCESS;
}

API ncclResult_t ncclCommDestroy(void *comm) { return drop("ncclCommDestroy", comm, false); }
API ncclResult_t ncclCommAbort(void *comm) { return drop("ncclCommAbort", comm, true); }

API ncclResult_t ncclCommGetAsyncError(void *comm, ncclResult_t *error) {
  std::lock_guard<std::mutex> guard(lock);
  auto it = comms.find((uint64_t)comm);
  if (it == comms.end()) return refuse(INVALID_ARGUMENT, "ncclCommGetAsyncError: %p is not a communicator", comm);
  long long rank = fakecuda::setting("nccl_async_rank", -1);
  *error = rank < 0 || rank == it->second.rank ? (int)fakecuda::setting("nccl_async_error", 0) : SUCCESS;
  return SUCCESS;
}

API ncclResult_t ncclGroupStart() { return depth++, SUCCESS; }

API ncclResult_t ncclGroupEnd() {
  if (depth == 0) return refuse(INVALID_USAGE, "ncclGroupEnd: no group was begun on this thread");
  return --depth ? SUCCESS : flush();
}

API ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream) {
  return add(ALL_REDUCE, send, recv, count, type, op, 0, comm, stream);
}

API ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream) {
  return add(REDUCE_SCATTER, send, recv, count, type, op, 0, comm, stream);
}

API ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, int type, void *comm, void *stream) {
  return add(ALL_GATHER, send, recv, count, type, 0, 0, comm, stream);
}

API ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream) {
  return add(BROADCAST, send, recv, count, type, 0, root, comm, stream);
}
