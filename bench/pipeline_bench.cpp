// What the pipeline costs in a step, apart from the model's own forward and backward.
//
//   overhead = step − (forward + backward)
//   bound    = bytes that its passes must move / copy bandwidth, all measured in this run
//
// Passes per element of a rank's fp32 buffer, in 4-byte accesses: on a shard of 1/dp the reduce-scatter,
// which checks and scales on its way, dp reads and 1 write, the norm 1, AdamW 4 reads and 3 writes, and the
// gather's (dp-1)/dp reads and writes of the whole. Zeroing is left out: the model fills nearly all gradients
// itself.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/flags.h"
#include "core/base/clock.h"
#include "core/base/units.h"
#include "core/train/trainer.h"

namespace {

double copy_bytes_per_ns() {
  const std::size_t bytes = 256 << 20;
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const std::int64_t begin = zero1::now_ns();
    std::memcpy(to.data(), from.data(), bytes);
    best = std::max(best, 2.0 * static_cast<double>(bytes) / static_cast<double>(zero1::now_ns() - begin));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  zero1::bench::Flags flags("Pipeline overhead per step, apart from model compute");
  int dp = 2;
  int layers = 6;
  std::int64_t hidden = 512;
  bool overlap = false;
  flags.add("--dp", dp, "ranks");
  flags.add("--num-layers", layers, "of the model");
  flags.add("--hidden-size", hidden, "of the model");
  flags.add("--overlap", overlap, "both overlaps on");
  flags.parse(argc, argv);

  zero1::TrainConfig config;
  config.num_layers = layers;
  config.hidden_size = hidden;
  config.num_attention_heads = 8;
  config.seq_length = 128;
  config.micro_batch_size = 2;
  config.dp = dp;
  config.train_iters = 8;
  config.data_parallel.overlap_grad_reduce = overlap;
  config.data_parallel.overlap_param_gather = overlap;

  // Per step of rank 0: the step, and the layers' forward and backward in it.
  std::vector<std::int64_t> step_ns(9);
  std::vector<std::int64_t> model_ns(9);
  zero1::TrainObserver observer;
  observer.on_events = [&](std::span<const zero1::trace::Event> events) {
    for (const auto& e : events) {
      if (e.rank != 0 || e.step < 1) continue;
      const auto step = static_cast<std::size_t>(e.step);
      if (e.kind == zero1::trace::Kind::step) step_ns[step] += e.end_ns - e.begin_ns;
      if (e.kind == zero1::trace::Kind::forward || e.kind == zero1::trace::Kind::backward) {
        model_ns[step] += e.end_ns - e.begin_ns;
      }
    }
  };
  const zero1::TrainSummary summary = zero1::train(zero1::resolve(config), observer);

  double overhead_ns = 1e18;
  double share = 0;
  for (std::size_t s = 2; s <= 8; ++s) {  // the first step touches fresh memory
    const auto overhead = static_cast<double>(step_ns[s] - model_ns[s]);
    if (overhead < overhead_ns) {
      overhead_ns = overhead;
      share = overhead / static_cast<double>(step_ns[s]);
    }
  }
  const auto elems = static_cast<double>(summary.layout.buffers[0].numel);
  const double gather = dp > 1 ? 2.0 * (dp - 1) / dp : 0;
  const double accesses = ((dp + 1) + 1 + 7) / static_cast<double>(dp) + gather;
  const double bound_ns = 4 * accesses * elems / copy_bytes_per_ns();
  fmt::print("pipeline overhead, {} parameters, dp {}, overlap {}\n",
             zero1::format_count(static_cast<std::int64_t>(elems)), dp, overlap ? "on" : "off");
  fmt::print("  formula   step - (forward + backward)         {:8.2f} ms ({:.1f}% of the step)\n",
             overhead_ns * 1e-6, 100 * share);
  fmt::print("  bound     4 B x {:.1f} accesses x elements / copy {:6.2f} ms\n", accesses, bound_ns * 1e-6);
  fmt::print("  ratio     bound / overhead                    {:8.2f}\n", bound_ns / overhead_ns);
  return 0;
}
