// The pipeline against the same training done by hand: every dtype, option and number of ranks.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <atomic>

#include "core/base/error.h"
#include "core/trace/gate.h"
#include "tests/multirank/scripted_run.h"
#include "tests/support/message.h"

using namespace zero1;
using namespace zero1::test;

namespace {

std::vector<ParamSpec> specs_of(DType dtype) {
  return {{"embed.weight", {17, 13}, dtype}, {"norm.weight", {7}, dtype}, {"scale", {}, dtype},
          {"mlp.weight", {5, 3, 11}, dtype}, {"mlp.bias", {1}, dtype},    {"head.weight", {64, 9}, dtype},
          {"head.bias", {3}, dtype}};
}

std::vector<ParamSpec> mixed_specs() {
  std::vector<ParamSpec> specs = specs_of(DType::bf16);
  specs[1].dtype = DType::fp32;
  specs[3].dtype = DType::fp16;
  specs[4].dtype = DType::fp32;
  return specs;
}

/// Of |expected|, after rounding to the parameter's dtype.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 1.0 / 128;
    case DType::fp16: return 1.0 / 1024;
    default: return 2e-6;
  }
}

void check_against_reference(const ScriptedRun& run, double slack = 1) {
  const ScriptedResult got = run_scripted(run);
  const ScriptedResult expected = reference_run(run);
  CHECK(got.ranks_agree);
  REQUIRE(got.grad_norms.size() == expected.grad_norms.size());
  for (std::size_t s = 0; s < expected.grad_norms.size(); ++s) {
    CHECK(got.grad_norms[s] == doctest::Approx(expected.grad_norms[s]).epsilon(slack * 1e-6));
  }
  for (std::size_t p = 0; p < run.specs.size(); ++p) {
    CAPTURE(run.specs[p].name);
    double worst = 0;
    for (std::size_t i = 0; i < expected.params[p].size(); ++i) {
      const double want = expected.params[p][i];
      worst = std::max(worst, std::abs(got.params[p][i] - want) / std::max(0.1, std::abs(want)));
    }
    CHECK(worst < slack * tolerance(run.specs[p].dtype));
  }
}

ScriptedRun basic_run(std::vector<ParamSpec> specs, int dp) {
  ScriptedRun run;
  run.specs = std::move(specs);
  run.dp = dp;
  run.optimizer.weight_decay = 0.1;
  run.optimizer.clip_grad = 0.5;
  return run;
}

std::vector<std::uint32_t> bits(const ScriptedResult& result) {
  std::vector<std::uint32_t> all;
  for (const auto& p : result.params) {
    for (const float x : p) all.push_back(std::bit_cast<std::uint32_t>(x));
  }
  for (const double n : result.grad_norms) {
    const auto b = std::bit_cast<std::uint64_t>(n);
    all.push_back(static_cast<std::uint32_t>(b));
    all.push_back(static_cast<std::uint32_t>(b >> 32));
  }
  return all;
}

}  // namespace

TEST_CASE("training equals the same training by hand, for every dtype and number of ranks") {
  for (const int dp : {1, 2, 3, 5, 8}) {
    CAPTURE(dp);
    for (const auto& specs :
         {specs_of(DType::fp32), specs_of(DType::bf16), specs_of(DType::fp16), mixed_specs()}) {
      ScriptedRun run = basic_run(specs, dp);
      run.microbatches = dp == 3 ? 3 : 1;
      run.data_parallel.overlap_grad_reduce = dp % 2 == 1;
      run.data_parallel.overlap_param_gather = dp % 2 == 1;
      run.data_parallel.bucket_size_elems = 200;
      check_against_reference(run);
    }
  }
}

TEST_CASE("averaging in the collective, all-reduce, and plain data parallelism give the same training") {
  for (const int dp : {2, 3}) {
    ScriptedRun run = basic_run(mixed_specs(), dp);
    run.data_parallel.average_in_collective = true;
    check_against_reference(run);
    run.data_parallel.force_all_reduce = true;
    check_against_reference(run);
    run.data_parallel.use_distributed_optimizer = false;
    run.data_parallel.overlap_grad_reduce = true;
    check_against_reference(run);
  }
}

TEST_CASE("gradients kept in the parameters' dtype lose no more than that dtype's precision") {
  ScriptedRun run = basic_run(specs_of(DType::bf16), 4);
  run.data_parallel.grad_reduce_in_fp32 = false;
  run.microbatches = 2;
  check_against_reference(run, 6000);  // norms within 0.6 %
}

TEST_CASE("gradients that the model fills are as good as zeroed ones") {
  for (const int dp : {1, 3}) {
    for (const int microbatches : {1, 3}) {
      ScriptedRun run = basic_run(mixed_specs(), dp);
      run.microbatches = microbatches;
      run.data_parallel.overlap_grad_reduce = true;
      run.data_parallel.bucket_size_elems = 200;
      const auto zeroed = bits(run_scripted(run));
      for (const int every : {1, 2, 3}) {
        run.script.fills = [=](int param) { return param % every == 0; };
        CHECK(bits(run_scripted(run)) == zeroed);
        check_against_reference(run);
      }
    }
  }
}

TEST_CASE("a gradient that the model fills is zeroed only where somebody may look at it") {
  ScriptedRun run = basic_run(specs_of(DType::fp32), 2);
  run.script.fills = [](int param) { return param != 1; };
  std::atomic<int> zero = 0, stale = 0;
  run.script.before_fill = [&](int, int step, bool all_zero) {
    if (step > 1) ++(all_zero ? zero : stale);
  };
  const auto unseen = bits(run_scripted(run));
  const int fills = 2 * 2 * 6;  // ranks, steps after the first, parameters
  CHECK(stale == fills);
  CHECK(zero == 0);
  trace::Gate gate;
  run.gate = &gate;
  CHECK(bits(run_scripted(run)) == unseen);
  CHECK(stale == fills);
  CHECK(zero == fills);
}

TEST_CASE("a model that says it fills a gradient, and does not ask how, is told so") {
  ScriptedRun run = basic_run(specs_of(DType::fp32), 2);
  run.script.fills = [](int param) { return param == 3; };
  run.script.asks = false;
  const std::string text = message_of<std::exception>([&] { run_scripted(run); });
  CHECK(contains(text, "'mlp.weight'"));
  CHECK(contains(text, "main_grad_beta"));
}

TEST_CASE("parameter groups scale learning rate and weight decay") {
  ScriptedRun run = basic_run(specs_of(DType::fp32), 3);
  run.optimizer.param_groups = {{"mlp.*", 0.5, 2}, {"head.bias", 0, 0}};
  check_against_reference(run);
}

TEST_CASE("a bucket may have more ranks than elements") {
  ScriptedRun run = basic_run({{"a", {1}}, {"b", {2}}, {"c", {3}}}, 8);
  run.data_parallel.bucket_size_elems = 1;
  run.data_parallel.overlap_grad_reduce = true;
  check_against_reference(run);
}

TEST_CASE("a shared embedding has a bucket of its own and trains like the others") {
  auto specs = specs_of(DType::fp32);
  specs[0].shared_embedding = true;
  ScriptedRun run = basic_run(specs, 2);
  run.data_parallel.overlap_grad_reduce = true;
  check_against_reference(run);
}

TEST_CASE("bucket size, overlap, coalescing and plain data parallelism do not change a bit") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const int dp : {2, 3}) {
      ScriptedRun run = basic_run(specs_of(dtype), dp);
      run.microbatches = 2;
      const auto expected = bits(run_scripted(run));
      CHECK(bits(run_scripted(run)) == expected);
      for (const std::int64_t bucket : {1, 64, 100, 300, 100000}) {
        CAPTURE(bucket);
        run.data_parallel.bucket_size_elems = bucket;
        for (const bool overlap : {false, true}) {
          run.data_parallel.overlap_grad_reduce = overlap;
          run.data_parallel.overlap_param_gather = overlap;
          CHECK(bits(run_scripted(run)) == expected);
        }
      }
      run.data_parallel.overlap_param_gather = false;
      run.data_parallel.use_distributed_optimizer = false;
      CHECK(bits(run_scripted(run)) == expected);
    }
  }
}

TEST_CASE("a tied parameter reports twice and its bucket waits for both") {
  ScriptedRun run = basic_run(specs_of(DType::fp32), 2);
  run.data_parallel.overlap_grad_reduce = true;
  run.data_parallel.bucket_size_elems = 64;
  run.script.times = [](int param, int) { return param == 0 ? 2 : 1; };
  check_against_reference(run);
}

TEST_CASE("a parameter that never reports is named with its bucket") {
  for (const bool overlap : {false, true}) {
    ScriptedRun run = basic_run(specs_of(DType::fp32), 2);
    run.data_parallel.overlap_grad_reduce = overlap;
    run.data_parallel.bucket_size_elems = 64;
    run.script.reports = [](int param, int) { return param != 3; };
    CHECK(contains(message_of<Error>([&] { run_scripted(run); }),
                   "parameter 'mlp.weight' (bucket 1): reported 0 of 1 times"));
    run.script.reports = [](int param, int step) { return param != 3 || step != 3; };  // only later
    CHECK(contains(message_of<Error>([&] { run_scripted(run); }),
                   "parameter 'mlp.weight' (bucket 1): reported 0 of 1 times"));
  }
}

TEST_CASE("a parameter that reports more often than in the first iteration is named") {
  ScriptedRun run = basic_run(specs_of(DType::fp32), 2);
  run.data_parallel.overlap_grad_reduce = true;
  run.script.times = [](int param, int step) { return param == 5 && step == 2 ? 2 : 1; };
  CHECK(contains(message_of<Error>([&] { run_scripted(run); }), "'head.weight'"));
}

TEST_CASE("a NaN before the reduction names rank, step, bucket and parameter") {
  ScriptedRun run = basic_run(specs_of(DType::fp32), 3);
  run.data_parallel.overlap_grad_reduce = true;
  run.data_parallel.bucket_size_elems = 64;
  run.script.poison = [](int param, std::int64_t elem, int step, int rank) {
    return param == 3 && elem == 100 && step == 2 && rank == 1 ? NAN : 0.0F;
  };
  CHECK(contains(message_of<Error>([&] { run_scripted(run); }),
                 "rank 1, step 2: the gradient of parameter 'mlp.weight' (bucket 1) holds 1 NaN"));
}

TEST_CASE("with the check off every rank skips a step with a NaN or infinity anywhere") {
  for (const bool sharded : {true, false}) {
    for (const float bad : {NAN, INFINITY}) {
      ScriptedRun run = basic_run(specs_of(DType::fp32), 3);
      run.data_parallel.use_distributed_optimizer = sharded;
      run.data_parallel.check_for_nan_in_grad = false;
      run.script.poison = [bad](int param, std::int64_t elem, int step, int rank) {
        return param == 5 && elem == 7 && step == 2 && rank == 2 ? bad : 0.0F;
      };
      const ScriptedResult result = run_scripted(run);
      CHECK(result.skipped == std::vector<bool>{false, true, false});
      CHECK(result.ranks_agree);
      for (const auto& p : result.params) {
        for (const float x : p) REQUIRE(std::isfinite(x));
      }
    }
  }
}

TEST_CASE("a gradient beyond the limit is named") {
  ScriptedRun run = basic_run(specs_of(DType::fp32), 2);
  run.data_parallel.check_for_large_grads = 5;
  run.script.poison = [](int param, std::int64_t elem, int step, int rank) {
    return param == 6 && elem == 2 && step == 1 && rank == 0 ? -9.0F : 0.0F;
  };
  CHECK(contains(message_of<Error>([&] { run_scripted(run); }), "'head.bias'"));
}

TEST_CASE("ranks with different models are told apart before anything is trained") {
  LocalWorld world(2);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < 2; ++r) communicators.push_back(world.communicator(r));
  const auto body = [&](int rank) {
    const auto device = make_cpu_device({1});
    const auto compute = device->create_stream(StreamKind::compute);
    const auto communication = device->create_stream(StreamKind::communication);
    trace::Tracer tracer;
    RankContext context{*device,
                        *compute,
                        *communication,
                        {communicators[static_cast<std::size_t>(rank)].get(), nullptr},
                        tracer};
    ScriptedModel model({{"a", {rank == 0 ? 5 : 6}}}, rank);
    DataParallel ddp(context, model, {});
  };
  CHECK(contains(message_of<Error>([&] { run_ranks(2, body); }), "ranks 0 and 1 disagree"));
}
