#include "core/base/dtype.h"

#include <array>

namespace zero1 {
namespace {

struct DTypeNames {
  DType dtype;
  std::string_view name;
  std::string_view short_name;
};

constexpr std::array<DTypeNames, 4> dtype_names{{
    {DType::fp32, "float32", "fp32"},
    {DType::bf16, "bfloat16", "bf16"},
    {DType::fp16, "float16", "fp16"},
    {DType::fp64, "float64", "fp64"},
}};

}  // namespace

std::string_view name(DType dtype) {
  for (const DTypeNames& entry : dtype_names) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "unknown";
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (const DTypeNames& entry : dtype_names) {
    if (text == entry.name || text == entry.short_name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace zero1
