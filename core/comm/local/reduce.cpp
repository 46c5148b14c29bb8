#include "core/comm/local/reduce.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "core/device/cpu/vec.h"

namespace zero1::local {
namespace {

/// Inputs that one pass reads: so many streams the processor prefetches well, and up to this many ranks
/// no accumulator leaves the registers.
constexpr std::size_t streams = 4;
/// Elements for which accumulators wait between passes: 4 KiB of fp32, which stay in the L1 cache while
/// the inputs stream past, and each stream is left for no longer than the prefetcher remembers it.
constexpr std::int64_t block_elems = 1024;

/// The piece of all ranks' memory that is reduced.
template <class T>
struct Piece {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;

  const T* input(std::size_t rank) const { return static_cast<const T*>(inputs[rank]); }
  T* output(std::size_t rank) const { return static_cast<T*>(outputs[rank]); }
};

/// Sixteen lanes, or one double. A NaN on either side of max wins: comparisons with it are false, so each
/// needs its own question.
template <ReduceOp op, class A>
ZERO1_INLINE A combined(A a, A b) {
  if constexpr (op == ReduceOp::max) {
    const A larger = b > a ? b : a;
    return b != b ? b : larger;
  } else {
    return a + b;
  }
}

template <ReduceOp op>
ZERO1_INLINE cpu::VecPair combined(cpu::VecPair a, cpu::VecPair b) {
  return {combined<op>(a.even, b.even), combined<op>(a.odd, b.odd)};
}

ZERO1_INLINE cpu::Vec divided(cpu::Vec v, float divisor) {
  return v / divisor;
}
ZERO1_INLINE cpu::VecPair divided(cpu::VecPair v, float divisor) {
  return {v.even / divisor, v.odd / divisor};
}

/// Accumulators wait in whole registers, whatever part of one the step is of.
constexpr cpu::AllLanes waiting_part(cpu::AllLanes) {
  return {};
}
constexpr cpu::AllLanes waiting_part(cpu::FirstLanes) {
  return {};
}
constexpr cpu::AllPairs waiting_part(cpu::AllPairs) {
  return {};
}

/// One pass over [start, end): combines `count` inputs from rank `first` on, the first pass among
/// themselves, the others with `waiting`; the last one writes the outputs, the others `waiting`.
template <ReduceOp op, std::size_t count, class T>
void pass(const Piece<T>& piece, std::size_t first, float* waiting, std::int64_t start, std::int64_t end) {
  // Copies, since the compiler must take every store of a lane for a change of what `piece` points to.
  std::array<const T*, count> in;
  for (std::size_t k = 0; k < count; ++k) in[k] = piece.input(first + k);
  T* const out = piece.output(0);
  const std::size_t outputs = piece.outputs.size();
  const bool begins = first == 0;
  const bool ends = first + count == piece.inputs.size();
  const float ranks = static_cast<float>(piece.inputs.size());
  const auto step = [&](std::int64_t i, auto part) {
    for (const T* input : in) cpu::prefetch(input + i);
    float* const at = waiting + (i - start);
    auto acc = cpu::load(in[0] + i, part);
    if (!begins) acc = combined<op>(cpu::load(at, waiting_part(part)), acc);
    for (std::size_t k = 1; k < count; ++k) acc = combined<op>(acc, cpu::load(in[k] + i, part));
    if (!ends) return cpu::store(at, acc, waiting_part(part));
    if constexpr (op == ReduceOp::average) acc = divided(acc, ranks);
    cpu::store(out + i, acc, part);
    for (std::size_t k = 1; k < outputs; ++k) cpu::store(piece.output(k) + i, acc, part);
  };
  std::int64_t rest = start;
  if constexpr (std::is_same_v<T, BFloat16>) {
    constexpr std::int64_t pair = std::int64_t{2} * cpu::lanes;
    for (; rest + pair <= end; rest += pair) step(rest, cpu::AllPairs{});
  }
  cpu::for_lanes(rest, end, step);
}

template <ReduceOp op, class T>
void reduce_typed(const Piece<T>& piece, std::int64_t numel) {
  alignas(64) float waiting[block_elems];
  const std::size_t ranks = piece.inputs.size();
  const std::int64_t step = ranks > streams ? block_elems : numel;
  for (std::int64_t start = 0; start < numel; start += step) {
    const std::int64_t end = std::min(start + step, numel);
    std::size_t first = 0;
    for (; first + streams <= ranks; first += streams) pass<op, streams>(piece, first, waiting, start, end);
    switch (ranks - first) {
      case 3: pass<op, 3>(piece, first, waiting, start, end); break;
      case 2: pass<op, 2>(piece, first, waiting, start, end); break;
      case 1: pass<op, 1>(piece, first, waiting, start, end); break;
      default: break;
    }
  }
}

/// The few doubles of norms and losses.
template <ReduceOp op>
void reduce_typed(const Piece<double>& piece, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    double acc = piece.input(0)[i];
    for (std::size_t rank = 1; rank < piece.inputs.size(); ++rank) {
      acc = combined<op>(acc, piece.input(rank)[i]);
    }
    if constexpr (op == ReduceOp::average) acc /= static_cast<double>(piece.inputs.size());
    for (std::size_t k = 0; k < piece.outputs.size(); ++k) piece.output(k)[i] = acc;
  }
}

}  // namespace

void reduce(DType dtype, ReduceOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
            std::int64_t numel) {
  visit_dtype(dtype, [&](auto element) {
    const Piece<decltype(element)> piece{inputs, outputs};
    switch (op) {
      case ReduceOp::sum: return reduce_typed<ReduceOp::sum>(piece, numel);
      case ReduceOp::average: return reduce_typed<ReduceOp::average>(piece, numel);
      case ReduceOp::max: return reduce_typed<ReduceOp::max>(piece, numel);
    }
  });
}

}  // namespace zero1::local
