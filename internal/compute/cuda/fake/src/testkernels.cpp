// Kernels for the tests of the binding itself: a loop over threads each, by the registry's two functions.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#define API extern "C" __attribute__((visibility("default")))

static const char *why = "";

API int emu_kernel(const char *name, int *sizes, int max) {
  auto give = [&](std::initializer_list<int> list) {
    int i = 0;
    for (int s : list) {
      if (i < max) sizes[i] = s;
      i++;
    }
    return i;
  };
  if (!strcmp(name, "test_add")) return give({8, 8, 8, 4}); // z = x + y, n numbers
  if (!strcmp(name, "test_scale")) return give({8, 4, 4});  // x *= a, n numbers
  if (!strcmp(name, "test_overrun")) return give({8, 8});   // writes a byte at p+n
  if (!strcmp(name, "test_fail")) return give({4});
  return -1;
}

API const char *emu_error() { return why; }

API int emu_launch(const char *name, const unsigned grid[3], const unsigned block[3], unsigned, const void *params, size_t, int order) {
  const char *p = (const char *)params;
  auto at = [&](size_t offset, auto value) {
    memcpy(&value, p + offset, sizeof value);
    return value;
  };
  long threads = (long)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
  auto each = [&](long n, auto f) {
    for (long t = 0; t < threads; t++) {
      long i = order == 1 ? threads - 1 - t : t;
      for (; i < n; i += threads) f(i);
    }
  };
  if (!strcmp(name, "test_add")) {
    float *z = (float *)at(0, uint64_t());
    const float *x = (const float *)at(8, uint64_t()), *y = (const float *)at(16, uint64_t());
    each(at(24, int32_t()), [&](long i) { z[i] = x[i] + y[i]; });
    return 0;
  }
  if (!strcmp(name, "test_scale")) {
    float *x = (float *)at(0, uint64_t()), a = at(8, float());
    each(at(12, int32_t()), [&](long i) { x[i] *= a; });
    return 0;
  }
  if (!strcmp(name, "test_overrun")) {
    ((char *)at(0, uint64_t()))[at(8, int64_t())] = 1;
    return 0;
  }
  why = "test_fail failed, as it does";
  return 1;
}
