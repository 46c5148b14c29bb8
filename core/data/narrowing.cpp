#include "core/data/narrowing.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace zero1 {
namespace {

/// The bits of the smallest positive fp32 value that rounds to infinity; infinity's own where none does.
std::uint32_t first_beyond(DType dtype) {
  if (dtype == DType::fp16) return std::bit_cast<std::uint32_t>(65520.0F);
  if (dtype == DType::bf16) return 0x7F7F8000u;
  return 0x7F800000u;
}

float largest(DType dtype) {
  if (dtype == DType::fp16) return 65504.0F;
  if (dtype == DType::bf16) return std::bit_cast<float>(0x7F7F0000u);
  return std::numeric_limits<float>::max();
}

bool lies_beyond(float value, std::uint32_t first) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu;
  return magnitude >= first && magnitude < 0x7F800000u;
}

}  // namespace

bool overflows(float value, DType dtype) {
  return lies_beyond(value, first_beyond(dtype));
}

bool overflows_fp32(double value) {
  constexpr double first_beyond_fp32 = 0x1.FFFFFFp+127;  // halfway to the next power of two: rounds up
  return std::isfinite(value) && std::abs(value) >= first_beyond_fp32;
}

std::optional<std::int64_t> first_overflow(const float* values, std::int64_t count, DType dtype) {
  if (dtype == DType::fp32 || dtype == DType::fp64) return std::nullopt;
  const std::uint32_t first = first_beyond(dtype);
  for (std::int64_t i = 0; i < count; ++i) {
    if (lies_beyond(values[i], first)) return i;
  }
  return std::nullopt;
}

std::string describe_overflow(double value, DType dtype) {
  return fmt::format("is {:g}, beyond {}, whose largest number is {:g}", value, name(dtype), largest(dtype));
}

}  // namespace zero1
