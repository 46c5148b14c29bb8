#include "viz/model/element_values.h"

#include "core/base/dtype.h"
#include "core/train/rank_trainer.h"

namespace zero1::viz {

namespace {

std::vector<float> widened(ConstTensorView view) {
  std::vector<float> values(static_cast<std::size_t>(view.numel));
  visit_dtype(view.dtype, [&](auto type) {
    using T = decltype(type);
    const auto* from = static_cast<const T*>(view.data);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(from[i]);
  });
  return values;
}

}  // namespace

ElementValues read_values(const LiveRun& live, int rank, int buffer, Range world) {
  ElementValues values;
  live.read(rank, [&](RankTrainer& trainer) {
    const auto& buffers = trainer.data_parallel().buffers();
    if (buffer < 0 || static_cast<std::size_t>(buffer) >= buffers.size()) return;
    const ParamAndGradBuffer& memory = *buffers[static_cast<std::size_t>(buffer)];
    values.world = intersect(world, {0, memory.layout().numel});
    values.params = widened(memory.param_data().slice(values.world));
    values.gradients = widened(memory.grad_data().slice(values.world));
  });
  return values;
}

}  // namespace zero1::viz
