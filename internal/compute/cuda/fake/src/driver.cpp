// A stand-in for libcuda.so.1: the driver's functions, with their true names and arguments, for GPUs that are memory of this process.
// It checks what the driver leaves to the caller, and runs kernels in the emulator.
#include "state.inc"

#include "core.inc"

#include "idle.inc"

#include "memory.inc"

#include "order.inc"

#include "event.inc"

#include "copy.inc"

#include "capture.inc"

#include "module.inc"

#include "device.inc"

// What tests ask of the fake itself.

// fakecuda_reset forgets everything, as in a new process, but for pinned memory that Go may still have. It is -1 if a context is in use.
API int fakecuda_reset() {
  Lock lock;
  State &s = state();
  for (Device &d : s.devices)
    if (d.users) return -1;
  s.initialized = false;
  for (Device &d : s.devices) d = Device();
  s.pending.clear();
  for (auto &it : s.hosts)
    if (it.second.raw) bury(it.second);
  s.hosts.clear();
  s.settings.clear();
  s.counters.clear();
  s.complaints.clear();
  s.trace.clear();
  s.leaks.clear();
  s.random = 1;
  s.idle = -1;
  s.next_allocation = s.next_host = s.next_stream = s.next_event = s.next_graph = s.next_exec = s.next_module = s.next_kernel = 1;
  return 0;
}

API void fakecuda_set(const char *key, long long value) {
  Lock lock;
  state().settings[key] = value;
  state().idle = -1;
  if (!strcmp(key, "seed")) state().random = (uint64_t)value * 0x9E3779B97F4A7C15ull + 1;
}

// fakecuda_get reads a counter, or how many of a kind are live.
API long long fakecuda_get(const char *key) {
  Lock lock;
  State &s = state();
  const std::pair<const char *, size_t> live[] = {
      {"live_allocations", s.memory.size()}, {"live_hosts", s.hosts.size()}, {"live_streams", s.streams.size()}, {"live_events", s.events.size()},
      {"live_graphs", s.graphs.size()}, {"live_execs", s.execs.size()}, {"live_modules", s.modules.size()}, {"pending", s.pending.size()}};
  for (auto &l : live)
    if (!strcmp(key, l.first)) return (long long)l.second;
  auto it = s.counters.find(key);
  return it == s.counters.end() ? 0 : it->second;
}

// fakecuda_text copies a text, "trace", "complaints" or "leaks", and forgets it if it fits. It returns its length.
API long long fakecuda_text(const char *which, char *to, long long room) {
  Lock lock;
  State &s = state();
  std::string text;
  bool complaints = !strcmp(which, "complaints");
  if (complaints)
    for (const std::string &c : s.complaints) text += c + "\n";
  else text = !strcmp(which, "trace") ? s.trace : s.leaks;
  if ((long long)text.size() > room) return (long long)text.size();
  memcpy(to, text.data(), text.size());
  if (complaints) s.complaints.clear();
  else (!strcmp(which, "trace") ? s.trace : s.leaks).clear();
  return (long long)text.size();
}
