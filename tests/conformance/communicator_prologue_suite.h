// A reduce-scatter's prologue against a plain reference: statistics of the input as it was, the bits of a
// scaled input, and an input that stays as it is.
#pragma once

#include <cmath>

#include "tests/conformance/communicator_exercise.h"

namespace zero1::test {

/// Parts of all lengths with and without gaps between them, an empty one, and a rest that belongs to none.
inline std::vector<Range> make_parts(std::int64_t numel) {
  std::vector<Range> parts;
  std::int64_t at = 0;
  for (std::int64_t k = 0; at < numel; ++k) {
    const std::int64_t start = std::min(at + k % 3, numel);
    const std::int64_t end = std::min(start + k * 37 % 400, numel);
    parts.push_back({start, end});
    at = end + (k == 0 ? 1 : 0);
  }
  if (parts.size() > 2) parts.pop_back();
  return parts;
}

template <class T>
void check_prologue_once(RankContext& context, std::int64_t piece, ReduceOp op, float factor, bool in_place,
                         bool with_parts, bool all_ranks) {
  const int rank = context.rank(), size = context.size();
  const std::int64_t numel = piece * size;
  std::vector<std::vector<T>> inputs, scaled;
  for (int peer = 0; peer < size; ++peer) {
    inputs.push_back(make_values<T>(41, peer, numel));
    scaled.push_back(inputs.back());
    if (!all_ranks && peer % 2 == 1) continue;  // this one gives no prologue
    for (T& value : scaled.back()) value = T(static_cast<float>(value) * factor);
  }
  const std::vector<T>& own = inputs[static_cast<std::size_t>(rank)];
  const std::vector<Range> parts = make_parts(numel);

  Guarded<T> in(context, own), apart(context, all_nan<T>(piece));
  const TensorView out = in_place ? in.piece(rank, piece) : apart.view();
  std::vector<double> stats(2 * parts.size(), 0.25);
  ReducePrologue prologue;
  if (all_ranks || rank % 2 == 0) {
    prologue.factor = factor;
    if (with_parts) prologue.parts = parts, prologue.stats = stats.data();
  }
  PrologueReducer& reducer = *context.comm().prologue_reducer();
  reducer.reduce_scatter_with(prologue, context.stream, out, in.view(), op).wait();

  const Range range = Range{0, piece}.shifted(rank * piece);
  std::vector<T> memory = in.read("a reduce-scatter with a prologue");
  std::vector<T> expected_memory = own;
  const std::vector<T> expected = reduce_reference(op, scaled, range);
  if (in_place) std::copy(expected.begin(), expected.end(), expected_memory.begin() + range.start);
  expect_same(in_place ? std::vector<T>(memory.begin() + range.start, memory.begin() + range.end)
                       : apart.read("a reduce-scatter with a prologue"),
              expected, true, "a reduce-scatter with a prologue");
  expect_same(memory, expected_memory, true, "the input after a prologue");

  for (std::size_t p = 0; p < parts.size(); ++p) {
    double largest = 0.25, non_finite = 0.25;
    for (std::int64_t i = parts[p].start; i < parts[p].end && !prologue.parts.empty(); ++i) {
      const double magnitude = std::abs(number(own[static_cast<std::size_t>(i)]));
      if (std::isfinite(magnitude))
        largest = std::max(largest, magnitude);
      else
        non_finite += 1;
    }
    expect(stats[2 * p] == largest && stats[2 * p + 1] == non_finite,
           fmt::format("part {}: a prologue found {} and {}, expected {} and {}", p, stats[2 * p],
                       stats[2 * p + 1], largest, non_finite));
  }
}

inline void check_prologues(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    backend.run(size, [&](RankContext& context) {
      if (context.comm().prologue_reducer() == nullptr) return;
      for (const std::int64_t piece : {0, 5, 1100}) {
        for (int variant = 0; variant < 16; ++variant) {
          const auto bit = [&](int i) { return (variant >> i & 1) != 0; };
          const float factor = bit(0) ? 1.0F / 3 : 1.0F;
          int turn = variant + static_cast<int>(piece);  // every op with every dtype
          const auto once = [&](auto type) {
            const ReduceOp op = all_ops[turn++ % 3];
            check_prologue_once<decltype(type)>(context, piece, op, factor, bit(1), bit(2), bit(3));
          };
          once(float{});
          once(BFloat16{});
          once(Float16{});
        }
      }
    });
  }
}

/// Prologues that cannot be, where a backend has any.
inline void check_prologues_rejected(CommunicatorBackend& backend) {
  backend.run(2, [&](RankContext& context) {
    Communicator& comm = context.comm();
    if (comm.prologue_reducer() == nullptr) return;
    Guarded<float> in(context, std::vector<float>(12, 1.0F));
    Guarded<double> doubles(context, std::vector<double>(12, 1.0));
    std::vector<double> stats(4);
    const auto rejected = [&](TensorView whole, float factor, std::vector<Range> parts, double* to) {
      const TensorView out = whole.slice({context.rank() * 6, context.rank() * 6 + 6});
      CHECK_THROWS_AS(comm.prologue_reducer()->reduce_scatter_with({factor, parts, to}, context.stream, out,
                                                                   whole, ReduceOp::sum),
                      std::invalid_argument);
    };
    rejected(doubles.view(), 0.5F, {}, nullptr);
    rejected(in.view(), 1, {{0, 4}}, nullptr);
    rejected(in.view(), 1, {{0, 4}, {3, 6}}, stats.data());
    rejected(in.view(), 1, {{4, 2}}, stats.data());
    rejected(in.view(), 1, {{4, 13}}, stats.data());
    rejected(in.view(), 1, {{-1, 3}}, stats.data());
    comm.barrier(context.stream).wait();
  });
}

}  // namespace zero1::test
