#include "core/train/communication.h"

namespace zero1 {

CommunicationBytes step_communication(const Layout& layout, const DataParallelConfig& config) {
  const bool scatters = config.use_distributed_optimizer && !config.force_all_reduce;
  CommunicationBytes bytes;
  for (const BufferLayout& buffer : layout.buffers) {
    const std::int64_t gradients = buffer.numel * size_bytes(buffer.grad_dtype);
    (scatters ? bytes.reduce_scatter : bytes.all_reduce) += gradients;
    if (config.use_distributed_optimizer)
      bytes.all_gather += buffer.numel / buffer.dp_size * size_bytes(buffer.param_dtype);
  }
  return bytes;
}

}  // namespace zero1
