// Expert-parallel parameters: which ranks' gradients make up the norm and the count of non-finite elements.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "core/base/error.h"
#include "tests/multirank/scripted_run.h"
#include "tests/support/message.h"

using namespace zero1;
using namespace zero1::test;

namespace {

/// Four ranks, two of which hold the same experts.
ScriptedRun expert_run(DType dtype = DType::fp32) {
  ScriptedRun run;
  run.specs = {{"embed", {7, 5}, dtype},
               {"expert.in", {5, 11}, dtype, false, true},
               {"router", {13}, dtype},
               {"expert.out", {3, 3}, dtype, false, true},
               {"head", {5, 7}, dtype}};
  run.dp = 4;
  run.expert_dp = 2;
  run.optimizer.clip_grad = 0.01;  // so that the norm is in every parameter
  return run;
}

/// By hand: dense gradients are the mean over all ranks; each expert's the sum over the ranks that hold it,
/// divided by all ranks, and every expert-parallel rank's experts are elements of their own.
double expected_norm(const ScriptedRun& run, int step) {
  const int expert_parallel = run.dp / run.expert_dp;
  double sum = 0;
  for (std::size_t p = 0; p < run.specs.size(); ++p) {
    const int copies = run.specs[p].expert_parallel ? expert_parallel : 1;
    for (int copy = 0; copy < copies; ++copy) {
      for (std::int64_t i = 0; i < run.specs[p].numel(); ++i) {
        double g = 0;
        for (int rank = copy; rank < run.dp; rank += copies)
          g += scripted_gradient(static_cast<int>(p), i, step, rank, 0);
        sum += g * g / run.dp / run.dp;
      }
    }
  }
  return std::sqrt(sum);
}

std::vector<ScriptedRun> variants(const ScriptedRun& run) {
  std::vector<ScriptedRun> all(6, run);
  all[1].data_parallel.use_distributed_optimizer = false;
  all[2].data_parallel.force_all_reduce = true;
  all[3].data_parallel.use_distributed_optimizer = false;
  all[3].data_parallel.overlap_grad_reduce = true;
  all[3].data_parallel.bucket_size_elems = 40;
  all[4].data_parallel.overlap_grad_reduce = all[4].data_parallel.overlap_param_gather = true;
  all[4].data_parallel.bucket_size_elems = 40;
  all[5].data_parallel.use_distributed_optimizer = false;
  all[5].data_parallel.average_in_collective = true;
  return all;
}

}  // namespace

TEST_CASE("the norm counts every expert of every expert-parallel rank once, sharded or not") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    CAPTURE(name(dtype));
    ScriptedResult first;
    for (const ScriptedRun& run : variants(expert_run(dtype))) {
      const ScriptedResult got = run_scripted(run);
      CHECK(got.steps_agree);
      REQUIRE(got.grad_norms.size() == 3);
      for (int step = 1; step <= 3; ++step) {
        CHECK(got.grad_norms[static_cast<std::size_t>(step - 1)] ==
              doctest::Approx(expected_norm(run, step)).epsilon(1e-6));
      }
      for (std::size_t p = 0; p < run.specs.size(); ++p) {
        for (std::size_t rank = 0; rank < 4; ++rank) {
          const std::size_t holder = run.specs[p].expert_parallel ? rank % 2 : 0;
          CHECK(got.params_of_rank[rank][p] == got.params_of_rank[holder][p]);
        }
        CHECK((got.params_of_rank[0][p] != got.params_of_rank[1][p]) == run.specs[p].expert_parallel);
      }
      if (run.data_parallel.average_in_collective) continue;  // rounds elsewhere
      if (first.params.empty()) first = got;
      CHECK(got.params_of_rank == first.params_of_rank);
      CHECK(got.grad_norms == first.grad_norms);
    }
  }
}

TEST_CASE("experts whose every rank holds the same are counted once") {
  ScriptedRun run = expert_run();
  run.expert_dp = 4;
  for (const ScriptedRun& each : variants(run)) {
    const ScriptedResult got = run_scripted(each);
    CHECK(got.ranks_agree);
    CHECK(got.grad_norms.front() == doctest::Approx(expected_norm(run, 1)).epsilon(1e-6));
  }
}

TEST_CASE("a NaN in one rank's expert is counted once, and every rank skips the step") {
  for (ScriptedRun run : variants(expert_run())) {
    run.data_parallel.check_for_nan_in_grad = false;
    run.script.poison = [](int param, std::int64_t elem, int step, int rank) {
      return param == 3 && elem == 4 && step == 2 && rank == 3 ? NAN : 0.0F;
    };
    const ScriptedResult got = run_scripted(run);
    CHECK(got.steps_agree);
    CHECK(got.skipped == std::vector<bool>{false, true, false});
    CHECK(got.non_finite == std::vector<std::int64_t>{0, 1, 0});
    for (const auto& params : got.params_of_rank) {
      for (const auto& values : params) {
        for (const float x : values) REQUIRE(std::isfinite(x));
      }
    }
  }
}

TEST_CASE("a NaN in a dense gradient is counted once, with experts beside it") {
  for (ScriptedRun run : variants(expert_run())) {
    run.data_parallel.check_for_nan_in_grad = false;
    run.script.poison = [](int param, std::int64_t elem, int step, int rank) {
      return param == 0 && elem == 34 && step == 1 && rank == 1 ? INFINITY : 0.0F;
    };
    const ScriptedResult got = run_scripted(run);
    CHECK(got.steps_agree);
    CHECK(got.non_finite == std::vector<std::int64_t>{1, 0, 0});
  }
}

TEST_CASE("a parameter that no layer lists is refused by name, with and without overlap") {
  for (const bool overlap : {false, true}) {
    ScriptedRun run = expert_run();
    run.data_parallel.overlap_grad_reduce = run.data_parallel.overlap_param_gather = overlap;
    run.script.listed = [](int param) { return param != 2 && param != 4; };
    const std::string message = message_of<InputError>([&] { run_scripted(run); });
    CHECK(contains(message, "no layer of the model lists 'router', 'head'"));
  }
}
