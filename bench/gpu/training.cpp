// Training runs: tokens per second against the speed of matrix products, and from their traces how much of
// each bucket's communication the compute stream stood still for.
#include <fmt/format.h>

#include "bench/gpu/sections.h"
#include "core/device/cuda/cuda_device.h"
#include "core/trace/overlap.h"
#include "core/train/machine_cuda.h"
#include "core/train/trainer.h"

namespace zero1::bench {
namespace {

TrainConfig gpt(const Sizes& sizes, const char* comm, int dp) {
  TrainConfig config;
  config.num_layers = sizes.tiny ? 2 : 12;
  config.hidden_size = sizes.tiny ? 24 : 768;
  config.num_attention_heads = sizes.tiny ? 3 : 12;
  config.seq_length = sizes.tiny ? 12 : 1024;
  config.param_dtype = DType::bf16;
  config.micro_batch_size = sizes.tiny ? 1 : 8;
  config.global_batch_size = 2 * config.micro_batch_size * dp;
  config.train_iters = sizes.steps;
  config.dp = dp;
  config.device = "cuda";
  config.comm = comm;
  config.data_parallel.overlap_grad_reduce = dp > 1;
  config.data_parallel.overlap_param_gather = dp > 1;
  if (dp > 1) config.data_parallel.bucket_size_elems = sizes.tiny ? 4000 : 8'000'000;
  return resolve(config);
}

/// Milliseconds per rank and step.
double ms(std::int64_t ns, int ranks, int steps) {
  return static_cast<double>(ns) * 1e-6 / ranks / steps;
}

void measure_run(Figures& figures, const Sizes& sizes, const Limits& limits, const char* comm, int dp) {
  const TrainConfig config = gpt(sizes, comm, dp);
  const int gpus = std::min(dp, cuda_device_count());
  figures.begin_section(fmt::format("Training, {} rank{} on {} GPU{}, {}", dp, dp == 1 ? "" : "s", gpus,
                                    gpus == 1 ? "" : "s", dp == 1 ? "no communication" : comm));
  trace::OverlapAnalysis analysis(dp);
  TrainObserver observer;
  observer.on_events = [&](std::span<const trace::Event> events) { analysis.add(events); };
  const TrainSummary traced = train(config, observer, make_cuda_machine);
  TrainObserver silent;
  silent.record = false;
  const TrainSummary summary = train(config, silent, make_cuda_machine);
  const double flops = make_model(config)->flops_per_token(config.seq_length);
  figures.add({"tokens per second", summary.tokens_per_s, "tokens/s", {}, "", {}, ""});
  figures.add({"arithmetic",
               summary.tokens_per_s * flops * 1e-12,
               "TFLOP/s",
               limits.matmul_tflops * gpus,
               "matrix products",
               {},
               fmt::format("{:.3g} FLOP per token", flops)});
  figures.add({"tokens per second with a trace",
               traced.tokens_per_s,
               "tokens/s",
               summary.tokens_per_s,
               "without",
               {},
               ""});
  if (dp == 1) return;
  const trace::OverlapReport report = analysis.report();
  figures.add({"communication overlapped", 100 * report.run.overlap(), "%", {}, "", {}, "of its time"});
  for (const auto& [bucket, b] : report.buckets) {
    figures.add({bucket < 0 ? std::string("exposed, scalars") : fmt::format("exposed, bucket {}", bucket),
                 ms(b.all.exposed_ns, dp, sizes.steps),
                 "ms",
                 {},
                 "",
                 {},
                 fmt::format("per rank and step, of {:.3f} ms that its collectives run",
                             ms(b.all.comm_ns, dp, sizes.steps))});
  }
}

}  // namespace

void measure_training(Figures& figures, const Sizes& sizes, const Limits& limits) {
  measure_run(figures, sizes, limits, "local", 1);
  measure_run(figures, sizes, limits, "local", 2);
  const int gpus = cuda_device_count();
  if (gpus < 2) return;
#ifdef ZERO1_WITH_NCCL
  measure_run(figures, sizes, limits, "nccl", gpus);
#endif
}

}  // namespace zero1::bench
