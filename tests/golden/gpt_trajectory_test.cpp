// The whole pipeline against float64 trajectories of PyTorch: every loss, every gradient norm, and the
// final parameters, on several numbers of ranks, micro-batch sizes and bucket sizes.
#include <doctest/doctest.h>

#include "tests/golden/gpt_trajectory.h"

using namespace zero1;
using golden::check_trajectory;
using golden::Variant;

TEST_CASE("gpt-a follows its float64 trajectory on 1, 2, 4 and 8 ranks") {
  const auto a = golden::read_gpt_case(ZERO1_GOLDEN_DIR, "gpt-a");
  for (const Variant& v :
       {Variant{1, 8, std::nullopt, false}, Variant{1, 2, 7000, true}, Variant{2, 4, std::nullopt, false},
        Variant{2, 1, 10000, true}, Variant{4, 2, 5000, true}, Variant{4, 1, 1, true},
        Variant{8, 1, 20000, true}, Variant{8, 1, std::nullopt, false}}) {
    check_trajectory(a, v);
  }
}

TEST_CASE("gpt-b follows its float64 trajectory on 1, 2, 3 and 4 ranks") {
  const auto b = golden::read_gpt_case(ZERO1_GOLDEN_DIR, "gpt-b");
  for (const Variant& v :
       {Variant{1, 4, std::nullopt, false}, Variant{2, 3, 3000, true}, Variant{3, 2, 9000, true},
        Variant{3, 4, std::nullopt, false}, Variant{4, 1, 4000, true}, Variant{4, 3, 100, true}}) {
    check_trajectory(b, v);
  }
}

TEST_CASE("further cases follow their float64 trajectories") {
  for (const golden::GptCase& c : golden::read_gpt_cases(std::filesystem::path(ZERO1_GOLDEN_DIR) / "extra")) {
    const std::int64_t batch = c.config.at("global_batch");
    for (const int dp : {1, 2, 3, 4}) {
      if (batch % dp != 0) continue;
      check_trajectory(c, {dp, batch / dp, std::nullopt, false});
      check_trajectory(c, {dp, 1, 2000, true});
    }
  }
}
