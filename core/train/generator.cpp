#include "core/train/generator.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/device/cpu/cpu_device.h"

namespace zero1 {

Generator::Generator(std::unique_ptr<Model> model, std::int64_t context_tokens,
                     std::int64_t padded_vocab_size, int threads, const ReadParam& read)
    : device_(make_cpu_device(
          {threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))})),
      stream_(device_->create_stream(StreamKind::compute)),
      logits_(device_->allocate(padded_vocab_size * size_bytes(DType::fp32), MemoryKind::other)),
      model_(std::move(model)),
      context_tokens_(context_tokens) {
  std::vector<ParamBinding> bindings;
  for (const ParamSpec& spec : model_->param_specs()) {
    DeviceMemory& memory = params_.emplace_back(
        device_->allocate(spec.numel() * size_bytes(DType::fp32), MemoryKind::parameters));
    const TensorView view = memory.view(DType::fp32);
    std::vector<float> values(static_cast<std::size_t>(spec.numel()));
    read(static_cast<int>(bindings.size()), values);
    device_->copy_from_host(*stream_, view, values.data());
    stream_->synchronize();
    // There is no backward, so no memory stands behind the gradient.
    bindings.push_back({view, {nullptr, DType::fp32, spec.numel()}});
  }
  model_->bind(*device_, *stream_, std::move(bindings));
}

std::vector<float> Generator::next_token_logits(std::span<const std::int32_t> tokens) {
  const auto length = std::min(static_cast<std::int64_t>(tokens.size()), context_tokens_);
  const Batch batch{tokens.last(static_cast<std::size_t>(length)).data(), nullptr, 1, length};
  ModelHooks none;
  const TensorView logits = logits_.view(DType::fp32);
  model_->next_token_logits(batch, logits, none);
  std::vector<float> values(static_cast<std::size_t>(logits.numel));
  device_->copy_to_host(*stream_, values.data(), logits);
  stream_->synchronize();
  return values;
}

}  // namespace zero1
