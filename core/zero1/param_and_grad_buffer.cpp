#include "core/zero1/param_and_grad_buffer.h"

#include <fmt/core.h>

namespace zero1 {

ParamAndGradBuffer::ParamAndGradBuffer(Device& device, Stream& compute, const Layout& layout, int buffer)
    : layout_(&layout), buffer_(buffer) {
  const BufferLayout& shape = this->layout();
  params_ = device.allocate(shape.numel * size_bytes(shape.param_dtype), MemoryKind::parameters);
  grads_ = device.allocate(shape.numel * size_bytes(shape.grad_dtype), MemoryKind::gradients);
  device.ops().fill(compute, param_data(), 0);
  device.ops().fill(compute, grad_data(), 0);
}

std::string describe_param(const Layout& layout, int param) {
  const ParamLocation& location = at(layout.locations, param);
  return fmt::format("parameter '{}' (bucket {})", at(layout.specs, param).name,
                     layout.global_bucket(location.buffer, location.bucket));
}

}  // namespace zero1
