#include "apps/zero1/train_report.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/base/file.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "core/layout/owners.h"
#include "core/layout/svg.h"

namespace zero1::app {

namespace {

const char* on_off(bool value) {
  return value ? "on" : "off";
}

std::string bar(double share, int width) {
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * width + 0.5);
  return std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(width - full), '.');
}

void print_memory(const TrainSummary& summary) {
  const auto row = [](const std::string& label, const MemoryReport& m) {
    say("  {:<22}{:>13}{:>13}{:>13}{:>13}{:>13}\n", label, format_bytes(m.parameters),
        format_bytes(m.gradients), format_bytes(m.optimizer), format_bytes(m.activations),
        format_bytes(m.parameters + m.gradients + m.optimizer + m.activations));
  };
  say("\nMemory per rank (peak)  {:>12}{:>13}{:>13}{:>13}{:>13}\n", "parameters", "gradients", "optimizer",
      "activations", "sum");
  const bool same = std::all_of(summary.memory.begin(), summary.memory.end(), [&](const MemoryReport& m) {
    return m.parameters == summary.memory[0].parameters && m.gradients == summary.memory[0].gradients &&
           m.optimizer == summary.memory[0].optimizer && m.activations == summary.memory[0].activations;
  });
  if (same) {
    row("every rank", summary.memory.front());
  } else {
    for (std::size_t r = 0; r < summary.memory.size(); ++r) row(fmt::format("rank {}", r), summary.memory[r]);
  }
  row("plain data parallelism", summary.plain_data_parallel);
}

void print_buckets(const TrainConfig& config, const Layout& layout) {
  say("\nBuckets ({} in {})\n", layout.bucket_count(), counted(layout.buffers.size(), "buffer"));
  constexpr int shown = 12;
  int global = 0;
  for (const BufferLayout& buffer : layout.buffers) {
    for (std::size_t k = 0; k < buffer.buckets.size(); ++k, ++global) {
      if (global == shown)
        say("  ... and {} more: `zero1 layout` or --svg shows all\n", layout.bucket_count() - shown);
      if (global >= shown) continue;
      const BucketLayout& bucket = buffer.buckets[k];
      say("  {:>3}  {}  {}, {} padding", global, format_range(bucket.world),
          counted(bucket.params.size(), "parameter"), format_count(padding_elems(layout, bucket)));
      if (config.data_parallel.use_distributed_optimizer)
        say(", {} per rank", format_count(buffer.shard_elems(static_cast<int>(k))));
      say("\n");
    }
  }
  if (config.dp > 1 && config.data_parallel.overlap_grad_reduce && layout.bucket_count() == 1) {
    say("  With one bucket nothing overlaps: its last gradient comes when backward ends. Cut it with\n"
        "  --ddp-num-buckets or --ddp-bucket-size.\n");
  }
}

/// What the collectives of a step were given, and what each rank sends of it where they run on a ring.
void print_communication(const TrainConfig& config, const TrainSummary& summary) {
  if (config.dp == 1) return;
  const double others = config.dp - 1;
  say("\nCommunication per rank and step{:>18}{:>18}\n", "handed in", "sent on a ring");
  const auto row = [](const char* what, std::int64_t bytes, double share_sent) {
    if (bytes == 0) return;
    const auto sent = static_cast<std::int64_t>(static_cast<double>(bytes) * share_sent);
    say("  {:<29}{:>18}{:>18}\n", what, format_bytes(bytes), format_bytes(sent));
  };
  row("reduce-scatter", summary.communication.reduce_scatter, others / config.dp);
  row("all-gather", summary.communication.all_gather, others);
  row("all-reduce", summary.communication.all_reduce, 2 * others / config.dp);
  say("  collectives run {:.2f} ms{}; computing waits for them {:.2f} ms (exposed)\n"
      "  overlap [{}] {:.0f}%: of the time they run, the share in which the rank computes\n",
      summary.comm_ms, config.link.enabled() ? " (on the MODELLED link)" : "", summary.exposed_comm_ms,
      bar(summary.overlap, 40), 100 * summary.overlap);
}

void print_loss_scaling(const TrainConfig& config) {
  if (config.param_dtype != DType::fp16) return;
  const LossScalerConfig& s = config.loss_scale;
  if (s.constant) {
    say("loss scale {}\n", format_loss_scale(*s.constant));
    return;
  }
  say("loss scale dynamic, from {}: an overflow skips the step, and from number {} on halves the scale, not "
      "below {};\n{} without one double it\n",
      format_loss_scale(s.initial_scale), s.hysteresis, format_loss_scale(s.min_scale),
      counted(s.growth_interval, "step"));
}

}  // namespace

void print_machine(const MachineDescription& machine) {
  for (const std::string& line : machine.lines) say("{}\n", line);
  for (const std::string& warning : machine.warnings) say(stderr, "warning: {}\n", warning);
}

void print_header(const TrainConfig& config) {
  const DataParallelConfig& d = config.data_parallel;
  say("zero1 train: {} {}, dp {}, global batch {} = {} x {} x dp, {} per step\n", config.model,
      name(config.param_dtype), config.dp, config.global_batch_size,
      counted(config.num_microbatches(), "microbatch", "microbatches"), config.micro_batch_size,
      counted(config.tokens_per_step(), "token"));
  if (config.padded_vocab_size() != 256) {
    say("vocabulary {}", counted(config.vocab_size, "token"));
    if (config.padded_vocab_size() != config.vocab_size)
      say(", padded to {}", format_count(config.padded_vocab_size()));
    say("\n");
  }
  say("distributed optimizer {}, overlap grad reduce {}, overlap param gather {}",
      on_off(d.use_distributed_optimizer), on_off(d.overlap_grad_reduce), on_off(d.overlap_param_gather));
  if (config.device == "cpu") {
    say(", {} per rank", counted(config.threads_per_rank, "thread"));
  }
  say("\n");
  print_loss_scaling(config);
  if (config.rampup_batch_size) {
    const auto& [start, increment, sequences] = *config.rampup_batch_size;
    say("the global batch ramps up: from {} by {}, full after {}\n", start, increment,
        counted(sequences, "sequence"));
  }
  if (config.link.enabled()) {
    say("link MODELLED at {:g} Gbit/s and {:g} us per step of a ring: what is sent takes that long;\n"
        "computing and waiting for each other are this machine's\n",
        config.link.gbit_per_s, config.link.latency_us);
  }
}

void print_step(const TrainConfig& config, const StepMetrics& step) {
  const double tokens_per_s = step.ms > 0 ? static_cast<double>(step.tokens) / step.ms * 1e3 : 0;
  const std::string norm = step.skipped ? "none" : fmt::format("{:.3f}", step.grad_norm);
  std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}  norm {}  lr {:.2e}  {:>8.0f} tok/s", step.step,
                                 fmt::formatted_size("{}", config.train_iters), config.train_iters, step.loss,
                                 norm, step.lr, tokens_per_s);
  if (config.dp > 1) {
    line += fmt::format("  comm {:.1f} ms, exposed {:.1f} ms, overlap {:.0f}%", step.comm_ms,
                        step.exposed_comm_ms, 100 * step.overlap);
  }
  if (step.loss_scale) line += fmt::format("  scale {}", format_loss_scale(*step.loss_scale));
  if (step.valid_loss) {
    line +=
        fmt::format("  valid loss {:.4f}, perplexity {:.4g}", *step.valid_loss, std::exp(*step.valid_loss));
  }
  if (step.skipped)
    line += step.loss_scale ? "  SKIPPED: gradients overflow at this loss scale"
                            : "  SKIPPED: non-finite gradients";
  if (step.skipped_steps > 0)
    line += fmt::format(" ({} so far)", counted(step.skipped_steps, "step") + " skipped");
  if (isatty(STDOUT_FILENO) != 0) {
    const double done = static_cast<double>(step.step) / static_cast<double>(config.train_iters);
    line = fmt::format("[{}] {}", bar(done, 20), line);
  }
  say("{}\n", line);
}

void print_summary(const TrainConfig& config, const TrainSummary& summary) {
  const std::string skipped =
      summary.skipped_steps > 0
          ? fmt::format(" and skipped {} (non-finite gradients: nothing updated)", summary.skipped_steps)
          : "";
  say("\nTrained {}{} on {}, ranks {}: loss {:.4f}\n", counted(summary.steps - summary.skipped_steps, "step"),
      skipped, summary.device, summary.communicator, summary.last_loss);
  say("{:.1f} ms per step, {} tokens/s{}\n", summary.ms_per_step,
      format_count(static_cast<std::int64_t>(summary.tokens_per_s)),
      summary.steps > 1 ? ", here and below without the first step, which prepares" : "");
  if (summary.valid_loss) {
    say("Validation loss {:.4f}, perplexity {:.4g}{}\n", *summary.valid_loss, std::exp(*summary.valid_loss),
        summary.valid_step == summary.last_step ? "" : fmt::format(" (after step {})", summary.valid_step));
  }
  if (config.eval && summary.last_step < config.train_iters)
    say("Not evaluated at the end (--eval): the run has ended before --train-iters\n");
  print_memory(summary);
  print_buckets(config, summary.layout);
  print_communication(config, summary);
  say("\nFinal parameters {:016x} (their hash: runs that agree in every bit have the same)\n",
      summary.param_hash);
  if (!config.trace.empty()) {
    say("Trace: {} in {} ({} dropped); view: zero1 trace summary {}\n",
        counted(summary.trace_events, "event"), config.trace, format_count(summary.trace_dropped),
        config.trace);
  }
  if (!config.save_weights.empty()) say("Weights: {}\n", config.save_weights);
}

void write_ownership_svg(const TrainSummary& summary, const std::string& path) {
  write_file(path, ownership_svg(summary.layout));
  say("Ownership map: {}\n", path);
}

}  // namespace zero1::app
