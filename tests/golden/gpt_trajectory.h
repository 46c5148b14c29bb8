// Runs a golden GPT case through the whole pipeline and compares it with its float64 trajectory: every loss,
// every gradient norm, and the final parameters.
#pragma once

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <functional>

#include "core/data/safetensors.h"
#include "core/train/trainer.h"
#include "tests/golden/gpt_case.h"

namespace zero1::golden {

struct Variant {
  int dp;
  std::int64_t micro_batch_size;
  std::optional<std::int64_t> bucket_size;
  bool overlap;
};

inline double largest_difference(const std::string& path_a, const std::string& path_b) {
  const SafetensorsReader a(path_a);
  const SafetensorsReader b(path_b);
  REQUIRE(a.entries().size() == b.entries().size());
  double largest = 0;
  for (const SafetensorsEntry& entry : a.entries()) {
    const SafetensorsEntry* other = b.find(entry.name);
    REQUIRE(other != nullptr);
    const auto x = a.read_fp32(entry, {0, entry.numel()});
    const auto y = b.read_fp32(*other, {0, other->numel()});
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      largest = std::max(largest, std::abs(double{x[i]} - double{y[i]}));
  }
  return largest;
}

/// `change`: what else the run is told. With fewer iterations than the case has, the final parameters are
/// not compared.
inline void check_trajectory(const GptCase& golden_case, const Variant& variant,
                             const MachineFactory& make_machine = make_cpu_machine,
                             const std::function<void(TrainConfig&)>& change = {}) {
  CAPTURE(golden_case.name);
  CAPTURE(variant.dp);
  CAPTURE(variant.micro_batch_size);
  CAPTURE(variant.overlap);
  TrainConfig config = golden_case.train_config(variant.dp, variant.micro_batch_size);
  config.data_parallel.bucket_size_elems = variant.bucket_size;
  config.data_parallel.overlap_grad_reduce = variant.overlap;
  config.data_parallel.overlap_param_gather = variant.overlap;
  const std::string weights =
      (std::filesystem::temp_directory_path() / fmt::format("zero1_trajectory_{}.safetensors", getpid()))
          .string();
  config.save_weights = weights;
  if (change) change(config);

  double worst_loss = 0;
  double worst_norm = 0;
  std::size_t steps = 0;
  TrainObserver observer;
  observer.on_step = [&](const StepMetrics& m) {
    const auto i = static_cast<std::size_t>(m.step - 1);
    REQUIRE(i < golden_case.losses.size());
    worst_loss = std::max(worst_loss, std::abs(m.loss - golden_case.losses[i]));
    worst_norm =
        std::max(worst_norm, std::abs(m.grad_norm - golden_case.grad_norms[i]) / golden_case.grad_norms[i]);
    ++steps;
  };
  train(resolve(config), observer, make_machine);
  CHECK(steps == static_cast<std::size_t>(config.train_iters));
  // The product promises 1e-4, 1e-3 and 1e-3; fp32 reaches far less, and a silent loss of accuracy shows.
  CHECK(worst_loss < 1e-5);
  CHECK(worst_norm < 5e-4);
  if (steps == golden_case.losses.size()) CHECK(largest_difference(weights, golden_case.final) < 1e-3);
  std::remove(weights.c_str());
}

}  // namespace zero1::golden
