// Reduce-scatter: rank r reduces the r-th piece of all inputs into its output.
#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "core/comm/local/algorithms.h"
#include "core/comm/local/reduce.h"
#include "core/device/cpu/grad_stats.h"

namespace zero1::local {
namespace {

/// What is prepared of every input before it is reduced: with few ranks it stays in the L1 cache.
constexpr std::int64_t prologue_block_elems = 1024;

/// Adds to statistics that other ranks, which see other pieces of the same input, are adding to.
void add_shared(double* out, const cpu::GradStats& stats) {
  std::atomic_ref<double> largest(out[0]);
  double seen = largest.load(std::memory_order_relaxed);
  while (seen < stats.largest() &&
         !largest.compare_exchange_weak(seen, stats.largest(), std::memory_order_relaxed)) {
  }
  std::atomic_ref<double>(out[1]).fetch_add(static_cast<double>(stats.non_finite), std::memory_order_relaxed);
}

/// One rank's input on its way through its prologue, block after block.
class Input {
 public:
  explicit Input(const Call& call)
      : in_(call.in),
        prologue_(call.prologue),
        found_(call.prologue.parts.size()),
        scaled_(prologue_.factor == 1
                    ? 0
                    : static_cast<std::size_t>(prologue_block_elems * size_bytes(in_.dtype))) {}

  /// The elements of `range`, which follows the last one, as they are to be reduced; valid until the next
  /// call.
  const void* take(Range range) {
    if (prologue_.empty()) return in_.slice(range).data;
    visit_dtype(in_.dtype, [&](auto element) {
      if constexpr (!std::is_same_v<decltype(element), double>) pass<decltype(element)>(range);
    });
    return scaled_.empty() ? in_.slice(range).data : scaled_.data();
  }

  void finish() const {
    for (std::size_t p = 0; p < found_.size(); ++p) add_shared(prologue_.stats + 2 * p, found_[p]);
  }

 private:
  template <class T>
  void pass(Range range) {
    const T* x = in_.as<T>();
    T* out = reinterpret_cast<T*>(scaled_.data());
    const bool scales = !scaled_.empty();
    for (std::int64_t at = range.start; at < range.end;) {
      const auto parts = prologue_.parts;
      while (part_ < parts.size() && parts[part_].end <= at) ++part_;
      const bool before_end = part_ < parts.size();
      const bool inside = before_end && parts[part_].start <= at;
      const std::int64_t bound = inside ? parts[part_].end : before_end ? parts[part_].start : range.end;
      const std::int64_t end = std::min(bound, range.end);
      const cpu::GradStats stats =
          scales ? cpu::stats_of(x, at, end,
                                 [&, factor = prologue_.factor](std::int64_t i, auto part, cpu::Vec value) {
                                   cpu::store(out + (i - range.start), value * factor, part);
                                 })
                 : cpu::stats_of(x, at, end, [](auto&&...) {});
      if (inside) found_[part_].add(stats);
      at = end;
    }
  }

  ConstTensorView in_;
  const ReducePrologue& prologue_;
  std::size_t part_ = 0;  ///< the first part that may hold what comes
  std::vector<cpu::GradStats> found_;
  std::vector<char> scaled_;
};

void run_with_prologues(Calls calls, int rank) {
  const Call& own = *calls[static_cast<std::size_t>(rank)];
  const Range piece = Range{0, own.out.numel}.shifted(rank * own.out.numel);
  std::vector<Input> inputs;
  for (const Call* call : calls) inputs.emplace_back(*call);
  std::vector<const void*> blocks(inputs.size());
  for (std::int64_t start = piece.start; start < piece.end; start += prologue_block_elems) {
    const Range range{start, std::min(start + prologue_block_elems, piece.end)};
    for (std::size_t r = 0; r < inputs.size(); ++r) blocks[r] = inputs[r].take(range);
    void* out = own.out.slice(range.shifted(-piece.start)).data;
    reduce(own.out.dtype, own.op, blocks, std::span(&out, 1), range.size());
  }
  for (const Input& input : inputs) input.finish();
}

}  // namespace

void run_reduce_scatter(Calls calls, int rank) {
  if (std::any_of(calls.begin(), calls.end(), [](const Call* call) { return !call->prologue.empty(); })) {
    return run_with_prologues(calls, rank);
  }
  const Call& own = *calls[static_cast<std::size_t>(rank)];
  const Range piece = Range{0, own.out.numel}.shifted(rank * own.out.numel);
  std::vector<const void*> inputs;
  for (const Call* call : calls) inputs.push_back(call->in.slice(piece).data);
  // In place, the output is this rank's piece of its own input, which no peer reads.
  reduce(own.out.dtype, own.op, inputs, std::span(&own.out.data, 1), piece.size());
}

}  // namespace zero1::local
