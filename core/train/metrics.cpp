#include "core/train/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace zero1 {

std::string to_json(const StepMetrics& m) {
  nlohmann::ordered_json json{
      {"step", m.step},           {"loss", m.loss},
      {"grad_norm", m.grad_norm}, {"lr", m.lr},
      {"tokens", m.tokens},       {"ms", m.ms},
      {"comm_ms", m.comm_ms},     {"exposed_comm_ms", m.exposed_comm_ms},
      {"overlap", m.overlap},
  };
  if (m.skipped) {
    json["skipped"] = true;
    json["grad_norm"] = nullptr;  // not finite
  }
  if (m.loss_scale) json["loss_scale"] = *m.loss_scale;
  if (m.valid_loss) {
    json["valid_loss"] = *m.valid_loss;
    json["valid_perplexity"] = std::exp(*m.valid_loss);
  }
  return json.dump();
}

std::int64_t optimizer_bytes_per_elem(const BufferLayout& buffer) {
  std::int64_t bytes = 2 * size_bytes(DType::fp32);
  if (buffer.param_dtype != DType::fp32) bytes += size_bytes(DType::fp32);
  if (buffer.grad_dtype != DType::fp32) bytes += size_bytes(DType::fp32);
  return bytes;
}

}  // namespace zero1
