// Converts numbers of two bytes, as they lie in memory. Arithmetic on them is float32's.
#pragma once
#include <cstdint>
#include <cstring>

namespace partita {

namespace detail {
inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
// The upper bits of `bits` without the lowest `drop`, rounded to the nearest, ties to even.
inline uint32_t round_off(uint32_t bits, int drop) {
  const uint32_t half = uint32_t{1} << (drop - 1);
  return (bits + (half - 1) + (bits >> drop & 1)) >> drop;
}
}  // namespace detail

// The upper half of a float32.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t b = detail::bits_of(value);
    bits = static_cast<uint16_t>(value != value ? 0x7fc0 : detail::round_off(b, 16));
  }
  operator float() const { return detail::float_of(static_cast<uint32_t>(bits) << 16); }
};

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) {
    const uint32_t b = detail::bits_of(value), sign = b >> 16 & 0x8000, magnitude = b & 0x7fffffff;
    uint32_t half;
    if (value != value) half = 0x7e00;
    else if (magnitude >= 0x477ff000) half = 0x7c00;  // 65520 and more, and infinity
    else if (magnitude >= 0x38800000)
      half = detail::round_off(magnitude - 0x38000000, 13);  // 2^-14 and more: another bias
    else
      half = detail::bits_of(detail::float_of(magnitude) + 0.5f) -
             0x3f000000;  // in units of 2^-24, which the sum rounds to
    bits = static_cast<uint16_t>(sign | half);
  }
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                   fraction = bits & 0x3ff;
    if (exponent == 0) {
      const float tiny = static_cast<float>(fraction) * 0x1p-24f;
      return sign ? -tiny : tiny;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return detail::float_of(sign | wide << 23 | fraction << 13);
  }
};

}  // namespace partita
