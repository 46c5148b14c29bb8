#include "viz/model/memory_plan.h"

#include <algorithm>

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

MemoryTimeline::MemoryTimeline(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

void MemoryTimeline::add(std::span<const trace::Event> events) {
  for (const trace::Event& event : events) {
    if (event.kind != trace::Kind::memory || event.detail >= kinds) continue;
    if (event.rank < 0 || static_cast<std::size_t>(event.rank) >= ranks_.size()) continue;
    empty_ = false;
    std::vector<Sample>& samples = ranks_[static_cast<std::size_t>(event.rank)][event.detail];
    if (!samples.empty() && samples.back().bytes == event.bytes) continue;
    samples.push_back({event.begin_ns, event.bytes});
  }
}

MemoryReport MemoryTimeline::at(int rank, std::int64_t at_ns) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= ranks_.size()) return {};
  std::array<std::int64_t, kinds> bytes{};
  for (std::size_t k = 0; k < kinds; ++k) {
    const std::vector<Sample>& samples = ranks_[static_cast<std::size_t>(rank)][k];
    const auto after = std::upper_bound(samples.begin(), samples.end(), at_ns,
                                        [](std::int64_t at, const Sample& s) { return at < s.at_ns; });
    if (after != samples.begin()) bytes[k] = std::prev(after)->bytes;
  }
  return {bytes[0], bytes[1], bytes[2], bytes[3]};
}

}  // namespace zero1::viz
