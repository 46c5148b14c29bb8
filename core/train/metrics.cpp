#include "core/train/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace zero1 {

std::string to_json(const StepMetrics& m) {
  nlohmann::ordered_json json{
      {"step", m.step},           {"loss", m.loss},
      {"grad_norm", m.grad_norm}, {"lr", m.lr},
      {"tokens", m.tokens},       {"ms", m.ms},
      {"comm_ms", m.comm_ms},     {"exposed_comm_ms", m.exposed_comm_ms},
      {"overlap", m.overlap},     {"skipped_steps", m.skipped_steps},
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

std::string csv_header() {
  return "step,loss,grad_norm,lr,tokens,ms,comm_ms,exposed_comm_ms,overlap,skipped_steps,skipped,loss_scale,"
         "valid_loss,valid_perplexity";
}

std::string to_csv(const StepMetrics& m) {
  const auto cell = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}", m.step, m.loss,
                     cell(m.skipped ? std::nullopt : std::optional(m.grad_norm)), m.lr, m.tokens, m.ms,
                     m.comm_ms, m.exposed_comm_ms, m.overlap, m.skipped_steps, m.skipped ? 1 : 0,
                     cell(m.loss_scale), cell(m.valid_loss),
                     cell(m.valid_loss ? std::optional(std::exp(*m.valid_loss)) : std::nullopt));
}

std::int64_t optimizer_bytes_per_elem(const BufferLayout& buffer) {
  std::int64_t bytes = 2 * size_bytes(DType::fp32);
  if (buffer.param_dtype != DType::fp32) bytes += size_bytes(DType::fp32);
  if (buffer.grad_dtype != DType::fp32) bytes += size_bytes(DType::fp32);
  return bytes;
}

}  // namespace zero1
