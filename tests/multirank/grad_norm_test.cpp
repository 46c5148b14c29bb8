// The global norm over iterations whose gradients differ widely: every one as if it were the first.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "core/comm/local/local_world.h"
#include "core/device/cpu/cpu_device.h"
#include "core/zero1/grad_norm.h"

using namespace zero1;

namespace {

constexpr std::int64_t pieces = 3;
constexpr std::int64_t piece_elems = 1000;

float gradient(std::int64_t elem, int rank, double magnitude) {
  return static_cast<float>(magnitude * std::sin(0.37 * static_cast<double>(elem) + 1.1 * rank));
}

double expected_norm(int dp, double magnitude) {
  long double sum = 0;
  for (int rank = 0; rank < dp; ++rank) {
    for (std::int64_t i = 0; i < pieces * piece_elems; ++i) {
      const long double g = gradient(i, rank, magnitude);
      sum += g * g;
    }
  }
  return static_cast<double>(std::sqrt(sum));
}

/// What rank 0 of `dp` sees in iterations with these magnitudes; a NaN: one gradient of the last rank is one.
std::vector<GradNorm> norms(int dp, const std::vector<double>& magnitudes) {
  LocalWorld world(dp);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < dp; ++rank) communicators.push_back(world.communicator(rank));
  std::vector<GradNorm> seen;
  run_ranks(dp, [&](int rank) {
    const auto device = make_cpu_device({1});
    const auto compute = device->create_stream(StreamKind::compute);
    const auto communication = device->create_stream(StreamKind::communication);
    trace::Tracer tracer;
    Communicator& communicator = *communicators[static_cast<std::size_t>(rank)];
    RankContext context{*device, *compute, *communication, {&communicator, nullptr}, tracer};
    GradNormReducer reducer(context, dp * pieces * piece_elems, true);
    const DeviceMemory memory = device->allocate(pieces * piece_elems * 4, MemoryKind::gradients);
    const TensorView all = memory.view(DType::fp32);
    std::vector<ConstTensorView> grads;
    for (std::int64_t p = 0; p < pieces; ++p)
      grads.push_back(all.slice({p * piece_elems, (p + 1) * piece_elems}));
    for (const double magnitude : magnitudes) {
      const bool poisoned = std::isnan(magnitude);
      for (std::int64_t i = 0; i < all.numel; ++i)
        all.as<float>()[i] = gradient(i, rank, poisoned ? 1 : magnitude);
      if (poisoned && rank == dp - 1)
        all.as<float>()[all.numel / 2] = std::numeric_limits<float>::quiet_NaN();
      const GradNorm norm = reducer.compute(grads);
      if (rank == 0) seen.push_back(norm);
    }
  });
  return seen;
}

}  // namespace

TEST_CASE("an iteration's norm has the bits that it would have as the first") {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> magnitudes{1,     1.1,  3,     5,    17,   1e3, 1e-3, 0,   1e-3, none, 1e-3,
                                       1e-30, 1e30, 0x1p7, 15.9, 16.1, 1,   none, 1e5, 0,    1e5};
  for (const int dp : {1, 2, 3}) {
    CAPTURE(dp);
    const auto seen = norms(dp, magnitudes);
    REQUIRE(seen.size() == magnitudes.size());
    for (std::size_t s = 0; s < seen.size(); ++s) {
      CAPTURE(s);
      const GradNorm first = norms(dp, {magnitudes[s]})[0];
      CHECK(std::bit_cast<std::uint64_t>(seen[s].norm) == std::bit_cast<std::uint64_t>(first.norm));
      CHECK(seen[s].non_finite == (std::isnan(magnitudes[s]) ? 1 : 0));
      if (!std::isnan(magnitudes[s])) {
        CHECK(seen[s].norm == doctest::Approx(expected_norm(dp, magnitudes[s])).epsilon(1e-12));
      }
    }
  }
}
