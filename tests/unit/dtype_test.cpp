// bf16 and fp16 against their definitions, over every bit pattern.
#include "core/base/dtype.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace zero1;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t pattern_count = 1u << 16;

template <class T>
T from_bits(std::uint32_t bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// What a pattern means, by the definition of IEEE formats and in double precision.
double meaning(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const std::uint32_t exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                       : sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

template <class T>
void check_every_pattern(int exponent_bits, int mantissa_bits) {
  std::uint32_t wrong_values = 0;
  std::uint32_t wrong_round_trips = 0;
  for (std::uint32_t bits = 0; bits < pattern_count; ++bits) {
    const auto value = static_cast<float>(from_bits<T>(bits));
    const double expected = meaning(bits, exponent_bits, mantissa_bits);
    const T back(value);
    if (std::isnan(expected)) {
      wrong_values += !std::isnan(value);
      wrong_round_trips += !std::isnan(static_cast<float>(back));
    } else {
      wrong_values += value != expected || std::signbit(value) != std::signbit(expected);
      wrong_round_trips += back.bits != bits;
    }
  }
  CHECK(wrong_values == 0);
  CHECK(wrong_round_trips == 0);
}

/// Between each finite pattern and the next larger: the middle goes to the even one, its neighbours to the
/// nearer. `largest` is the largest finite pattern; beyond it the next one is infinity.
template <class T>
void check_rounding(std::uint32_t largest, int exponent_bits, int mantissa_bits) {
  std::uint32_t wrong = 0;
  for (std::uint32_t low = 0; low <= largest; ++low) {
    const std::uint32_t high = low + 1;
    const double below = meaning(low, exponent_bits, mantissa_bits);
    // The pattern after the largest finite one would mean this, were it not infinity.
    const double above = low < largest ? meaning(high, exponent_bits, mantissa_bits)
                                       : 2 * below - meaning(low - 1, exponent_bits, mantissa_bits);
    const auto middle = static_cast<float>((below + above) / 2);
    const std::uint32_t even = low % 2 == 0 ? low : high;
    for (const float sign : {1.0F, -1.0F}) {
      const std::uint32_t sign_bit = sign < 0 ? 0x8000u : 0;
      wrong += T(sign * middle).bits != (even | sign_bit);
      wrong += T(sign * std::nextafter(middle, 0.0F)).bits != (low | sign_bit);
      wrong += T(sign * std::nextafter(middle, infinity)).bits != (high | sign_bit);
    }
  }
  CHECK(wrong == 0);
}

template <class T>
void check_specials(std::uint32_t infinity_bits) {
  CHECK(T(infinity).bits == infinity_bits);
  CHECK(T(-infinity).bits == (infinity_bits | 0x8000u));
  CHECK(T(std::numeric_limits<float>::max()).bits == infinity_bits);
  CHECK(T(std::numeric_limits<float>::lowest()).bits == (infinity_bits | 0x8000u));
  CHECK(T(0.0F).bits == 0);
  CHECK(T(-0.0F).bits == 0x8000u);
  // NaNs of every payload bit, also those whose set bits are all cut off by narrowing.
  for (int bit = 0; bit < 23; ++bit) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      CAPTURE(bit);
      const auto nan = std::bit_cast<float>(sign | 0x7F800000u | (1u << bit));
      CHECK(std::isnan(static_cast<float>(T(nan))));
    }
  }
  CHECK(std::isnan(static_cast<float>(T(std::bit_cast<float>(0x7FFFFFFFu)))));
}

}  // namespace

TEST_CASE("every bf16 pattern means what it should and survives the way to fp32 and back") {
  check_every_pattern<BFloat16>(8, 7);
}

TEST_CASE("every fp16 pattern means what it should and survives the way to fp32 and back") {
  check_every_pattern<Float16>(5, 10);
}

TEST_CASE("bf16 rounds to nearest, ties to even, subnormals and overflow included") {
  check_rounding<BFloat16>(0x7F7F, 8, 7);
}

TEST_CASE("fp16 rounds to nearest, ties to even, subnormals and overflow included") {
  check_rounding<Float16>(0x7BFF, 5, 10);
}

TEST_CASE("infinities, NaNs, zeros and overflow") {
  check_specials<BFloat16>(0x7F80);
  check_specials<Float16>(0x7C00);
  CHECK(Float16(65504.0F).bits == 0x7BFF);
  CHECK(Float16(65519.996F).bits == 0x7BFF);
  CHECK(Float16(65520.0F).bits == 0x7C00);
  CHECK(Float16(0x1p-24F).bits == 1);
  CHECK(Float16(0x1p-25F).bits == 0);
  CHECK(Float16(std::numeric_limits<float>::denorm_min()).bits == 0);
}

TEST_CASE("dtypes have names, sizes and C++ types") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp64}) {
    CHECK(parse_dtype(name(dtype)) == dtype);
    CHECK(visit_dtype(dtype, [](auto value) { return dtype_of<decltype(value)>(); }) == dtype);
    CHECK(visit_dtype(dtype, [](auto value) { return sizeof(value); }) ==
          static_cast<std::size_t>(size_bytes(dtype)));
  }
  CHECK(name(DType::bf16) == "bfloat16");
  CHECK(parse_dtype("fp16") == DType::fp16);
  CHECK(parse_dtype("bf16") == DType::bf16);
  for (const char* unknown : {"", "float", "int8", "Float32", "float32 ", "torch.float32"}) {
    CHECK_FALSE(parse_dtype(unknown).has_value());
  }
}
