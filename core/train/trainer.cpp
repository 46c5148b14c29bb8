#include "core/train/trainer.h"

#include <fmt/core.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/comm/local/local_world.h"
#include "core/layout/json.h"
#include "core/train/step_reporter.h"
#include "core/train/weights.h"

namespace zero1 {

namespace {

constexpr std::int64_t generated_corpus_bytes = 1 << 20;

RunData open_data(const TrainConfig& config) {
  const TokenFileOptions format{config.token_dtype, config.vocab_size};
  RunData data;
  data.train = config.data.empty()
                   ? TokenSource::arithmetic(generated_corpus_bytes, config.seq_length, config.seed)
                   : TokenSource::from_file(config.data, config.seq_length, format);
  if (config.shuffle) data.train = data.train->shuffled(config.seed);
  if (!config.valid_data.empty())
    data.valid = TokenSource::from_file(config.valid_data, config.seq_length, format);
  return data;
}

trace::RunInfo run_info(const TrainConfig& config, const Model& model, const Layout& layout) {
  trace::RunInfo info;
  info.ranks = config.dp;
  for (const ParamSpec& spec : layout.specs) info.params.push_back(spec.name);
  for (const Layer& layer : model.layers()) info.layers.push_back(layer.name);
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    const BufferLayout& buffer = layout.buffers[b];
    for (const BucketLayout& bucket : buffer.buckets) {
      info.buckets.push_back({static_cast<int>(b), bucket.world.start, bucket.world.end,
                              bucket.world.size() * size_bytes(buffer.grad_dtype)});
    }
  }
  info.config_json = to_json(config);
  info.layout_json = layout_case_json({"", layout.specs, layout.options})
                         .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return info;
}

MemoryReport plain_data_parallel_memory(const Layout& layout, const MemoryReport& measured) {
  MemoryReport plain = measured;
  plain.optimizer = 0;
  for (const BufferLayout& buffer : layout.buffers) {
    plain.optimizer += buffer.numel * optimizer_bytes_per_elem(buffer);
  }
  return plain;
}

/// The machine's memory, or the largest number where it does not say.
std::int64_t machine_memory_bytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>((info.totalram + info.totalswap) * info.mem_unit);
}

/// What one rank surely needs: the layout's buffers, optimizer states and the batches of one step.
double least_rank_bytes(const TrainConfig& config, const Layout& layout) {
  double bytes = 0;
  for (const BufferLayout& buffer : layout.buffers) {
    const int shards = config.data_parallel.use_distributed_optimizer ? buffer.dp_size : 1;
    const std::int64_t elem_bytes = size_bytes(buffer.param_dtype) + size_bytes(buffer.grad_dtype);
    bytes += static_cast<double>(buffer.numel) * static_cast<double>(elem_bytes);
    bytes +=
        static_cast<double>(buffer.numel) * static_cast<double>(optimizer_bytes_per_elem(buffer)) / shards;
  }
  constexpr double bytes_per_token = 2 * sizeof(std::int32_t);  // itself and its target
  return bytes + static_cast<double>(config.tokens_per_step()) / config.dp * bytes_per_token;
}

/// Linux gives more memory than there is and then ends whom it likes, without a word.
void check_memory(const TrainConfig& config, const Layout& layout) {
  if (config.device != "cpu") return;
  const double needed = least_rank_bytes(config, layout) * config.dp;
  const std::int64_t available = machine_memory_bytes();
  if (needed <= static_cast<double>(available)) return;
  throw InputError(fmt::format(
      "the run needs at least {:.1f} GiB for parameters, gradients, optimizer states and batches of "
      "--dp {} ranks, this machine has {:.1f} GiB: take fewer --num-layers, a smaller "
      "--hidden-size, --global-batch-size or --dp",
      needed / 0x1p30, config.dp, static_cast<double>(available) / 0x1p30));
}

/// Says that the recorder goes, then lets it go.
struct RecorderDeleter {
  const TrainObserver& observer;
  void operator()(trace::Recorder* recorder) const {
    if (observer.on_recorder) observer.on_recorder(nullptr);
    delete recorder;
  }
};

/// One run: what its ranks share, and what they leave behind for the summary.
class Run {
 public:
  Run(const TrainConfig& config, const TrainObserver& observer, const MachineFactory& make_machine)
      : config_(config),
        observer_(observer),
        data_(open_data(config)),
        reporter_(config.dp, observer.on_step),
        last_step_(config.train_iters) {
    RunShape shape = run_shape(config);
    check_memory(config, shape.layout);
    summary_.layout = std::move(shape.layout);
    summary_.memory.resize(static_cast<std::size_t>(config.dp));
    param_hashes_.resize(static_cast<std::size_t>(config.dp));
    if (!config.init.empty()) check_weights(summary_.layout.specs, config);
    machine_ = make_machine(config, paused());
    make_recorder(std::move(shape.info));  // last: a run that cannot begin leaves an older trace alone
  }

  TrainSummary execute() {
    run_ranks(
        config_.dp, [this](int rank) { run_rank(rank); },
        [this](int rank, const std::string& what) { stop_peers(rank, what); });
    for (std::size_t r = 1; r < param_hashes_.size(); ++r) {
      if (param_hashes_[r] == param_hashes_[0]) continue;
      throw Error(
          fmt::format("rank {} ended with other parameters than rank 0: please report this as a bug", r));
    }
    summary_.param_hash = param_hashes_[0];
    if (recorder_) {
      recorder_->close();
      summary_.trace_events = recorder_->recorded();
      summary_.trace_dropped = recorder_->dropped();
    }
    reporter_.summarize(summary_);
    summary_.communication = step_communication(summary_.layout, config_.data_parallel);
    summary_.plain_data_parallel = plain_data_parallel_memory(summary_.layout, summary_.memory[0]);
    summary_.communicator = machine_.communicators[0]->description();
    summary_.device = machine_.devices[0]->description();
    return std::move(summary_);
  }

 private:
  void make_recorder(trace::RunInfo info) {
    if (!observer_.record && config_.trace.empty() && !observer_.on_events) return;
    trace::RecorderOptions options;
    options.path = config_.trace;
    options.sink = [this](std::span<const trace::Event> events) {
      reporter_.add_events(events);
      if (observer_.on_events) observer_.on_events(events);
    };
    for (const auto& device : machine_.devices)  // two ranks may be off in opposite directions
      info.clock_uncertainty_ns = std::max(info.clock_uncertainty_ns, 2 * device->clock_error_ns());
    recorder_.reset(new trace::Recorder(std::move(info), std::move(options)));
    reporter_.attach(recorder_.get());
    if (observer_.on_recorder) observer_.on_recorder(recorder_.get());
  }

  std::function<bool()> paused() const {
    if (observer_.gate == nullptr) return {};
    return [gate = observer_.gate] { return !gate->running(); };
  }

  void stop_peers(int rank, const std::string& what) {
    machine_.communicators[static_cast<std::size_t>(rank)]->abort(what);
    if (observer_.gate != nullptr) observer_.gate->shutdown();
  }

  void run_rank(int rank) {
    Device& device = *machine_.devices[static_cast<std::size_t>(rank)];
    RankStreams streams(device);
    trace::Tracer tracer(rank, recorder_.get(), observer_.gate, observer_.probe);
    std::unique_ptr<RankTrainer> trainer;
    try {
      trainer = std::make_unique<RankTrainer>(
          config_, data_, device, streams, *machine_.communicators[static_cast<std::size_t>(rank)], tracer);
      train_rank(rank, *trainer);
    } catch (const std::exception& error) {
      stop_peers(rank, error.what());  // before anything of this rank is torn down
      if (observer_.on_rank_failed) observer_.on_rank_failed(rank);
      streams.quiesce();
      throw;
    }
  }

  /// The iteration after which the run ends, as far as is known before `next`. A rank that is told to stop
  /// makes `next` the last one. No other can have begun a later one: for that it needs this rank's gradients
  /// of `next`.
  std::int64_t last_step(std::int64_t next) {
    std::int64_t undecided = config_.train_iters;
    if (observer_.stop_requested && observer_.stop_requested())
      last_step_.compare_exchange_strong(undecided, std::min(next, config_.train_iters));
    return last_step_;
  }

  void train_rank(int rank, RankTrainer& trainer) {
    if (observer_.on_rank_ready) observer_.on_rank_ready(rank, trainer);
    for (std::int64_t step = trainer.progress().iteration + 1; step <= last_step(step); ++step) {
      const std::int64_t begin_ns = now_ns();
      StepMetrics metrics = trainer.train_step();
      metrics.ms = static_cast<double>(now_ns() - begin_ns) * 1e-6;
      if (config_.eval_interval > 0 && step % config_.eval_interval == 0)
        metrics.valid_loss = trainer.evaluate();
      reporter_.step_done(metrics);
      if (observer_.on_step_end) observer_.on_step_end(rank, trainer, step);
    }
    if (trainer.progress().iteration == config_.train_iters) trainer.check_end();
    trainer.finish();
    const auto r = static_cast<std::size_t>(rank);
    param_hashes_[r] = hash_params(trainer.data_parallel());
    summary_.memory[r] = trainer.memory();
    if (rank == 0 && !config_.save_weights.empty()) save_weights(trainer.data_parallel(), config_);
    if (observer_.on_rank_done) observer_.on_rank_done(rank, trainer);
  }

  const TrainConfig& config_;
  const TrainObserver& observer_;
  RunData data_;
  StepReporter reporter_;
  std::atomic<std::int64_t> last_step_;
  TrainSummary summary_;
  std::vector<std::uint64_t> param_hashes_;  ///< by rank
  std::unique_ptr<trace::Recorder, RecorderDeleter> recorder_{nullptr, RecorderDeleter{observer_}};
  Machine machine_;
};

}  // namespace

RunShape run_shape(const TrainConfig& config) {
  const std::unique_ptr<Model> model = make_model(config);
  const std::vector<ParamSpec>& specs = model->param_specs();
  RunShape shape;
  shape.layout = compute_layout(specs, layout_options(config.data_parallel, specs, config.dp, config.dp));
  shape.info = run_info(config, *model, shape.layout);
  return shape;
}

TrainSummary train(const TrainConfig& config, const TrainObserver& observer,
                   const MachineFactory& make_machine) {
  return Run(config, observer, make_machine).execute();
}

}  // namespace zero1
