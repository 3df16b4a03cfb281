// Numbers as they lie in device memory, for the fakes of libraries that compute.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace number {

enum class Type { f32, f16, bf16, bit };

inline size_t bytes(Type t, int64_t n) { return t == Type::f32 ? 4 * n : t == Type::bit ? (n + 7) / 8 : 2 * n; }

inline float from_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
inline uint32_t to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

inline float bf16_to(uint16_t b) { return from_bits(uint32_t(b) << 16); }
inline uint16_t to_bf16(float f) {
  uint32_t u = to_bits(f);
  if ((u & 0x7fffffff) > 0x7f800000) return uint16_t(u >> 16 | 0x40); // NaN stays one
  return uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

inline float f16_to(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 31) return from_bits(sign | 0x7f800000 | mantissa << 13);
  float magnitude = exponent == 0 ? std::ldexp(float(mantissa), -24) : std::ldexp(float(mantissa + 1024), int(exponent) - 25);
  return sign ? -magnitude : magnitude;
}
inline uint16_t to_f16(float f) {
  uint16_t sign = uint16_t(to_bits(f) >> 16 & 0x8000);
  float a = std::fabs(f);
  if (a != a) return uint16_t(sign | 0x7e00);
  if (a >= 65520) return uint16_t(sign | 0x7c00);
  if (a < std::ldexp(1.0f, -14)) return uint16_t(sign | uint16_t(std::nearbyint(std::ldexp(a, 24)))); // to even; 1024 is the least normal number
  int e;
  std::frexp(a, &e); // a = m·2^e, m in [½, 1)
  uint32_t m = uint32_t(std::nearbyint(std::ldexp(a, 11 - e))); // 1024 to 2048
  return uint16_t(sign | ((uint32_t(e + 14) << 10) + m - 1024));
}

// tf32 rounds to the 10 bits of mantissa that tensor cores keep of a float32.
inline float tf32(float f) { uint32_t u = to_bits(f); return from_bits((u + 0xfff + (u >> 13 & 1)) & 0xffffe000); }

inline float load(Type t, const void* p, int64_t i) {
  switch (t) {
    case Type::f32: return static_cast<const float*>(p)[i];
    case Type::f16: return f16_to(static_cast<const uint16_t*>(p)[i]);
    case Type::bf16: return bf16_to(static_cast<const uint16_t*>(p)[i]);
    case Type::bit: return static_cast<const uint8_t*>(p)[i / 8] >> (i % 8) & 1;
  }
  return 0;
}

inline void store(Type t, void* p, int64_t i, float v) {
  switch (t) {
    case Type::f32: static_cast<float*>(p)[i] = v; return;
    case Type::f16: static_cast<uint16_t*>(p)[i] = to_f16(v); return;
    case Type::bf16: static_cast<uint16_t*>(p)[i] = to_bf16(v); return;
    case Type::bit: {
      uint8_t& b = static_cast<uint8_t*>(p)[i / 8];
      b = uint8_t((b & ~(1 << (i % 8))) | (v != 0) << (i % 8));
    }
  }
}

} // namespace number
