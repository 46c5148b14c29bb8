// What a run pays for being watched, and how soon an event is in the index.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "bench/flags.h"
#include "core/train/trainer.h"
#include "viz/model/element_probe.h"
#include "viz/model/event_index.h"
#include "viz/model/live_run.h"

namespace {

using namespace zero1;
using Frame = std::chrono::microseconds;

constexpr Frame frame_time{16'667};
constexpr double slower_bound = 1.01;
constexpr double latency_bound_ms = 50;

TrainConfig gpt(int dp, std::int64_t hidden, std::int64_t iters) {
  TrainConfig c;
  c.num_layers = 4;
  c.hidden_size = hidden;
  c.num_attention_heads = 4;
  c.seq_length = hidden;
  c.dp = dp;
  c.global_batch_size = 2 * dp;
  c.train_iters = iters;
  c.threads_per_rank = 1;
  c.data_parallel.overlap_grad_reduce = true;
  c.data_parallel.overlap_param_gather = true;
  c.data_parallel.num_buckets = 6;
  return resolve(c);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Milliseconds per step of a run that is drained and indexed once per frame, as the window does; drawing is
/// left out. `follows`: with an element followed too.
double watched_ms(const TrainConfig& config, bool follows) {
  viz::LiveRunOptions options;
  if (follows) options.follow = viz::ElementRef{0, 0};
  viz::LiveRun live(config, options);
  viz::EventIndex index(config.dp);
  while (!live.over()) {
    live.deliver(index);
    std::this_thread::sleep_for(frame_time);
  }
  return live.summary() != nullptr ? live.summary()->ms_per_step : 0;
}

/// Free and watched runs in turn, so that both see the same machine. Many short ones: where its buffers come
/// to lie makes a run several percent faster or slower than the next.
void measure_slowdown(int dp, std::int64_t iters, int repeats) {
  const TrainConfig config = gpt(dp, 64, iters);
  std::vector<double> watched_ratios, followed_ratios, free;
  for (int r = 0; r < repeats; ++r) {
    const double plain = train(config).ms_per_step;
    free.push_back(plain);
    watched_ratios.push_back(watched_ms(config, false) / plain);
    followed_ratios.push_back(watched_ms(config, true) / plain);
  }
  fmt::print("\n{} rank{}, {} iterations, median of {} runs: {:.3f} ms per step without a window\n", dp,
             dp == 1 ? "" : "s", iters, repeats, median(free));
  const auto print = [](const char* what, double ratio) {
    fmt::print("  {:<44} {:>7.4f}      bound {:.2f}   ratio {:.3f}\n", what, ratio, slower_bound,
               ratio / slower_bound);
  };
  print("time watched at 60 Hz / free", median(watched_ratios));
  print("... with an element followed / free", median(followed_ratios));
}

/// The age of each event at the moment at which the index has it, in a run of tiny steps.
void measure_latency(double seconds) {
  TrainConfig config = gpt(2, 8, 100'000'000);
  viz::LiveRun live(config);
  viz::EventIndex index(config.dp);
  std::vector<double> worst_ms;
  std::int64_t events = 0;
  const std::int64_t begin_ns = live.clock_ns();
  while (static_cast<double>(live.clock_ns() - begin_ns) * 1e-9 < seconds) {
    std::int64_t oldest_ns = INT64_MAX;
    std::int64_t count = 0;
    live.deliver([&](std::span<const trace::Event> batch) {
      index.push(batch);
      count += static_cast<std::int64_t>(batch.size());
      for (const trace::Event& event : batch) oldest_ns = std::min(oldest_ns, event.end_ns);
    });
    index.absorb(0);
    if (count > 0) worst_ms.push_back(static_cast<double>(live.clock_ns() - oldest_ns) * 1e-6);
    events += count;
    std::this_thread::sleep_for(frame_time);
  }
  const double rate = static_cast<double>(events) / (static_cast<double>(live.clock_ns() - begin_ns) * 1e-9);
  const double worst = *std::max_element(worst_ms.begin(), worst_ms.end());
  fmt::print("\n2 ranks of a tiny model, {:.0f} events/s, {} dropped\n", rate, live.dropped());
  fmt::print("  {:<44} {:>7.2f} ms   bound {:.0f} ms   ratio {:.2f}\n",
             "event to index, median frame's worst", median(worst_ms), latency_bound_ms,
             median(worst_ms) / latency_bound_ms);
  fmt::print("  {:<44} {:>7.2f} ms   bound {:.0f} ms   ratio {:.2f}\n", "event to index, worst of all", worst,
             latency_bound_ms, worst / latency_bound_ms);
}

}  // namespace

int main(int argc, char** argv) {
  zero1::bench::Flags flags("What a run pays for being watched");
  int dp = 1;
  std::int64_t iters = 100;
  int repeats = 99;
  double seconds = 5;
  flags.add("--dp", dp, "ranks; fewer than cores, so that the watcher has one");
  flags.add("--iters", iters, "iterations of each run");
  flags.add("--repeats", repeats, "runs of each kind");
  flags.add("--seconds", seconds, "of the latency's measurement");
  flags.parse(argc, argv);
  fmt::print("Watching a run: ms per step drained and indexed at 60 Hz over ms per step of train() alone.\n");
  measure_slowdown(dp, iters, repeats);
  measure_latency(seconds);
}
