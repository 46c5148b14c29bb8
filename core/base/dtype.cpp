#include "core/base/dtype.h"
namespace zero1 {
std::string_view name(DType d) {
  switch (d) { case DType::fp32: return "float32"; case DType::bf16: return "bfloat16"; case DType::fp16: return "float16"; case DType::fp64: return "float64"; }
  return "?";
}
}
