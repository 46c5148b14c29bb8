// A trained model that continues a sequence of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/model/model.h"

namespace zero1 {

/// One rank on a CPU device, without gradients and optimizer. Every token takes a forward over the whole
/// context.
class Generator {
 public:
  /// Writes a parameter's values, by its index.
  using ReadParam = std::function<void(int param, std::span<float> values)>;

  /// `model` is of fp32 and not bound yet; it sees the last `context_tokens` tokens at most. `threads` of the
  /// CPU; 0: all cores.
  Generator(std::unique_ptr<Model> model, std::int64_t context_tokens, std::int64_t padded_vocab_size,
            int threads, const ReadParam& read);

  /// The logits of the token that follows `tokens`, of which there is at least one; padding included.
  std::vector<float> next_token_logits(std::span<const std::int32_t> tokens);

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<DeviceMemory> params_;
  DeviceMemory logits_;
  std::unique_ptr<Model> model_;
  std::int64_t context_tokens_;
};

}  // namespace zero1
