#include "viz/model/memory_plan.h"

#include <iterator>

namespace zero1::viz {

MemoryReport states_of_rank(const Layout& layout, bool sharded) {
  MemoryReport bytes;
  for (const BufferLayout& buffer : layout.buffers) {
    bytes.parameters += buffer.numel * size_bytes(buffer.param_dtype);
    bytes.gradients += buffer.numel * size_bytes(buffer.grad_dtype);
    const std::int64_t elems = sharded ? buffer.numel / buffer.dp_size : buffer.numel;
    bytes.optimizer += elems * optimizer_bytes_per_elem(buffer);
  }
  return bytes;
}

std::optional<MemoryReport> memory_at(const EventIndex& events, int rank, std::int64_t at_ns) {
  MemoryReport report;
  std::int64_t* const bytes[] = {&report.parameters, &report.gradients, &report.optimizer,
                                 &report.activations};
  bool any = false;
  for (std::size_t kind = 0; kind < std::size(bytes); ++kind) {
    const std::optional<EventId> last = events.last_at(
        at_ns, {.kind = trace::Kind::memory, .rank = rank, .detail = static_cast<std::uint8_t>(kind)});
    if (!last) return any ? std::optional(report) : std::nullopt;
    *bytes[kind] = events.event(*last).bytes;
    any = true;
  }
  return report;
}

}  // namespace zero1::viz
