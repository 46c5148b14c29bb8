#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "ckpt/checkpoint_file.h"
#include "ckpt/folder.h"
#include "ckpt/rank_file.h"
#include "ckpt/train_hooks.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/layout/range_map.h"

namespace zero1::ckpt {
namespace {

std::vector<ParamGroup> param_groups(const std::vector<ParamSpec>& specs,
                                     const std::vector<ParamMultipliers>& multipliers) {
  std::vector<ParamGroup> groups;
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const ParamMultipliers& mult = multipliers[p];
    const auto same = [&](const ParamGroup& group) {
      return group.lr_mult == mult.lr_mult && group.weight_decay_mult == mult.weight_decay_mult;
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {{}, mult.lr_mult, mult.weight_decay_mult});
    }
    group->params.push_back(specs[p].name);
  }
  return groups;
}

RunState run_state(RankTrainer& trainer) {
  const TrainConfig& config = trainer.config();
  const TrainProgress progress = trainer.progress();
  RunState s;
  s.step = progress.iteration;
  s.optimizer_steps = progress.optimizer_steps;
  s.consumed_sequences = progress.consumed_sequences;
  s.seed = config.seed;
  s.shuffle = config.shuffle;
  s.loss_scale = progress.loss_scaler.scale;
  s.growth_tracker = progress.loss_scaler.growth_tracker;
  s.hysteresis_tracker = progress.loss_scaler.hysteresis_tracker;
  s.adam_beta1 = config.optimizer.adam_beta1;
  s.adam_beta2 = config.optimizer.adam_beta2;
  s.adam_eps = config.optimizer.adam_eps;
  s.weight_decay = config.optimizer.weight_decay;
  s.clip_grad = config.optimizer.clip_grad;
  s.lr = config.lr.lr;
  s.min_lr = config.lr.min_lr;
  s.warmup_iters = config.lr.warmup_iters;
  s.decay_iters = config.lr.decay_iters;
  s.lr_decay_style = name(config.lr.style);
  s.wsd_decay_style = name(config.lr.wsd_style);
  s.wsd_decay_iters = config.lr.wsd_decay_iters;
  s.scheduled_sequences = progress.scheduled_sequences;
  s.param_groups = param_groups(trainer.data_parallel().layout().specs, trainer.optimizer().multipliers());
  s.config_json = to_json(config);
  return s;
}

TensorView view_of(const BucketShard& shard, State state) {
  switch (state) {
    case State::exp_avg: return shard.exp_avg;
    case State::exp_avg_sq: return shard.exp_avg_sq;
    case State::param: break;
  }
  return shard.main_param;
}

/// Reads one rank's slices, as the stored layout cuts them, out of its optimizer.
class SliceReader {
 public:
  SliceReader(RankTrainer& trainer, const Layout& stored, int rank)
      : trainer_(trainer), held_(stored.specs.size()), slices_(slices_of_rank(stored, rank)) {
    for (const BucketShard& shard : trainer.optimizer().shards()) {
      for (const ParamShard& row : shard.params) held_[static_cast<std::size_t>(row.param)] = {&shard, &row};
    }
    for (std::size_t b = 0; b < stored.buffers.size(); ++b) {
      RangeMapWalker walker(stored, static_cast<int>(b), rank);
      const auto rows = walker.next();
      rows_.emplace_back(rows.begin(), rows.end());
    }
  }

  std::size_t count() const { return slices_.size(); }
  std::int64_t elems(std::size_t index) const { return slices_[index].elems; }
  std::int64_t bytes() const {
    std::int64_t elems = 0;
    for (const SliceRecord& slice : slices_) elems += slice.elems;
    return elems * static_cast<std::int64_t>(sizeof(float));
  }

  /// Elements [wanted) of slice number `index`, padding zero. Blocks until they are on the host.
  void read(std::size_t index, Range wanted, float* values) {
    const SliceRecord& slice = slices_[index];
    std::fill(values, values + wanted.size(), 0.0F);
    RankContext& context = trainer_.context();
    for (const ParamShard& row : rows_[static_cast<std::size_t>(slice.buffer)]) {
      const Range part = intersect(row.gbuf_local, wanted);
      if (row.bucket != slice.bucket || part.empty()) continue;
      const Held& held = held_[static_cast<std::size_t>(row.param)];
      // From this slice to the parameter, and from there to where the run holds it.
      const std::int64_t param_start = row.param_range.start + (part.start - row.gbuf_local.start);
      const Range local =
          part.normalized(param_start + held.row->gbuf_local.start - held.row->param_range.start);
      context.device.copy_to_host(context.compute, values + (part.start - wanted.start),
                                  view_of(*held.shard, static_cast<State>(slice.state)).slice(local));
    }
    context.compute.synchronize();
  }

 private:
  struct Held {
    const BucketShard* shard = nullptr;
    const ParamShard* row = nullptr;
  };
  RankTrainer& trainer_;
  std::vector<Held> held_;                     ///< by parameter
  std::vector<SliceRecord> slices_;            ///< to be written by this rank
  std::vector<std::vector<ParamShard>> rows_;  ///< by buffer, of the stored layout
};

/// Elements on their way from a rank to its file at a time: they stay in the cache.
constexpr std::int64_t chunk_elems = 1 << 18;

/// One checkpoint on its way.
struct Session {
  Session(const std::string& target, CheckpointContents new_contents)
      : pending(target), contents(std::move(new_contents)) {}

  PendingFolder pending;
  CheckpointContents contents;
  int written = 0;  ///< ranks whose files are complete
};

}  // namespace

class Saver::Impl {
 public:
  Impl(SaveOptions options, const TrainConfig& config)
      : options_(std::move(options)), busy_(ranks(config)), measured_(ranks(config)) {
    sharded_ = config.data_parallel.use_distributed_optimizer;
    // Where nothing can be written, that is told now and not after hours.
    const PendingFolder trial(options_.folder + "/" + step_folder_name(config.train_iters));
    if (options_.async) worker_ = std::thread([this] { work(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (worker_.joinable()) worker_.join();
  }

  void step_done(int rank, RankTrainer& trainer, std::int64_t step) {
    if (due(step)) save(rank, trainer, step);
  }

  void rank_done(int rank, RankTrainer& trainer) {
    const std::int64_t last = trainer.progress().iteration;
    if (!due(last)) save(rank, trainer, last);  // also where the run was stopped early
    if (!options_.async) return;
    std::unique_lock lock(mutex_);
    wait_until_written(lock, rank);
    record_measured(rank, trainer);
  }

  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failure_ || (jobs_.empty() && !working_); });
    if (failure_) std::rethrow_exception(failure_);
  }

  std::vector<std::string> published() const {
    const std::lock_guard lock(mutex_);
    return published_;
  }

 private:
  static std::size_t ranks(const TrainConfig& config) { return static_cast<std::size_t>(config.dp); }

  bool due(std::int64_t step) const { return options_.interval > 0 && step % options_.interval == 0; }

  void save(int rank, RankTrainer& trainer, std::int64_t step) {
    if (!sharded_ && rank > 0) return;  // without sharding rank 0 has everything
    trainer.finish();                   // drains the gathers
    const std::shared_ptr<Session> session = session_of(trainer, step);
    SliceReader slices(trainer, session->contents.layout, rank);
    if (options_.async) {
      enqueue(rank, trainer, session, slices);
      return;
    }
    {
      const auto span = this->span(trainer, trace::Kind::checkpoint_write, slices.bytes());
      std::vector<float> chunk(static_cast<std::size_t>(chunk_elems));
      write_rank(*session, rank, [&](std::size_t index, Range wanted) {
        slices.read(index, wanted, chunk.data());
        return chunk.data();
      });
    }
    if (!comes_last(*session)) return;
    const auto span = this->span(trainer, trace::Kind::checkpoint_publish);
    publish(*session);
  }

  static trace::Event event_of(trace::Kind kind, std::int64_t bytes = 0) {
    trace::Event event;
    event.kind = kind;
    event.bytes = bytes;
    return event;
  }

  static trace::Tracer::Span span(RankTrainer& trainer, trace::Kind kind, std::int64_t bytes = 0) {
    return trainer.context().tracer.span(trainer.context().compute, event_of(kind, bytes));
  }

  /// The first rank that comes to a step opens its session.
  std::shared_ptr<Session> session_of(RankTrainer& trainer, std::int64_t step) {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    std::shared_ptr<Session>& session = sessions_[step];
    if (session) return session;
    const Layout& run_layout = trainer.data_parallel().layout();
    CheckpointContents contents;
    contents.state = run_state(trainer);
    contents.layout_case = {"", run_layout.specs, run_layout.options};
    if (!sharded_) contents.layout_case.options.dp_size = contents.layout_case.options.expert_dp_size = 1;
    contents.layout = compute_layout(contents.layout_case.params, contents.layout_case.options);
    check_names(contents.layout.specs);
    contents.files.resize(static_cast<std::size_t>(rank_count(contents.layout)));
    contents.slices.resize(static_cast<std::size_t>(slice_count(contents.layout)));
    session = std::make_shared<Session>(options_.folder + "/" + step_folder_name(step), std::move(contents));
    return session;
  }

  void wait_until_written(std::unique_lock<std::mutex>& lock, int rank) {
    changed_.wait(lock, [&] { return failure_ || !busy_[static_cast<std::size_t>(rank)]; });
    if (failure_) std::rethrow_exception(failure_);
  }

  /// What the worker has done for this rank since, into its trace. Under the lock, on the rank's thread.
  void record_measured(int rank, RankTrainer& trainer) {
    std::vector<trace::Event>& events = measured_[static_cast<std::size_t>(rank)];
    for (const trace::Event& event : events) {
      trainer.context().tracer.measured(event, event.begin_ns, event.end_ns);
    }
    events.clear();
  }

  /// Runs `action` on the worker's thread and keeps its times for record_measured.
  template <class Action>
  void measure(int rank, std::int64_t step, trace::Event event, Action&& action) {
    event.step = static_cast<std::int32_t>(step);
    event.begin_ns = now_ns();
    action();
    event.end_ns = now_ns();
    const std::lock_guard lock(mutex_);
    measured_[static_cast<std::size_t>(rank)].push_back(event);
  }

  /// Takes the snapshot, once this rank's last one has been written: a rank holds one at a time.
  void enqueue(int rank, RankTrainer& trainer, std::shared_ptr<Session> session, SliceReader& slices) {
    const auto snapshot_span = span(trainer, trace::Kind::checkpoint_snapshot, slices.bytes());
    {
      std::unique_lock lock(mutex_);
      wait_until_written(lock, rank);
      record_measured(rank, trainer);
      busy_[static_cast<std::size_t>(rank)] = true;
    }
    auto snapshot = std::make_shared<std::vector<std::vector<float>>>(slices.count());
    for (std::size_t i = 0; i < slices.count(); ++i) {
      (*snapshot)[i].resize(static_cast<std::size_t>(slices.elems(i)));
      slices.read(i, {0, slices.elems(i)}, (*snapshot)[i].data());
    }
    const std::lock_guard lock(mutex_);
    jobs_.push_back([this, rank, session = std::move(session), snapshot, bytes = slices.bytes()] {
      const std::int64_t step = session->contents.state.step;
      measure(rank, step, event_of(trace::Kind::checkpoint_write, bytes), [&] {
        write_rank(*session, rank,
                   [&](std::size_t index, Range wanted) { return (*snapshot)[index].data() + wanted.start; });
      });
      if (comes_last(*session)) {
        measure(rank, step, event_of(trace::Kind::checkpoint_publish), [&] { publish(*session); });
      }
      const std::lock_guard done(mutex_);
      busy_[static_cast<std::size_t>(rank)] = false;
    });
    changed_.notify_all();
  }

  /// `values_of(index, range)` gives elements of a slice.
  template <class ValuesOf>
  void write_rank(Session& session, int rank, ValuesOf&& values_of) {
    CheckpointContents& contents = session.contents;
    RankFileWriter writer(session.pending.path(), contents.layout, rank, contents.state.step);
    for (std::size_t i = 0; i < writer.slices().size(); ++i) {
      const std::int64_t elems = writer.slices()[i].elems;
      for (std::int64_t at = 0; at < elems; at += chunk_elems) {
        const Range wanted{at, std::min(elems, at + chunk_elems)};
        writer.append(values_of(i, wanted), wanted.size());
      }
    }
    const RankFileRecord record = writer.finish();
    const std::lock_guard lock(mutex_);
    contents.files[static_cast<std::size_t>(rank)] = record;
    std::copy(writer.slices().begin(), writer.slices().end(),
              contents.slices.begin() + slice_index(contents.layout, rank, 0, 0, State::param));
  }

  /// A rank's file is written, and that is in the trace. True for the last one: everything is there, to be
  /// published.
  bool comes_last(Session& session) {
    const std::lock_guard lock(mutex_);
    return ++session.written == rank_count(session.contents.layout);
  }

  void publish(Session& session) {
    write_checkpoint_file(session.pending.path(), session.contents);
    session.pending.publish();
    set_latest(options_.folder, session.contents.state.step);
    if (options_.keep_last > 0) prune(options_.folder, options_.keep_last);
    const std::lock_guard lock(mutex_);
    published_.push_back(session.pending.target());
    sessions_.erase(session.contents.state.step);
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty() || failure_) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      working_ = true;
      lock.unlock();
      std::exception_ptr failure;
      try {
        job();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      working_ = false;
      if (failure && !failure_) failure_ = failure;
      changed_.notify_all();
      if (failure_) return;
    }
  }

  SaveOptions options_;
  bool sharded_ = true;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, std::shared_ptr<Session>> sessions_;  ///< by step
  std::vector<std::string> published_;
  std::exception_ptr failure_;

  // behind training
  std::vector<bool> busy_;                           ///< by rank: a snapshot waits or is being written
  std::vector<std::vector<trace::Event>> measured_;  ///< by rank: what its trace does not have yet
  std::deque<std::function<void()>> jobs_;
  bool working_ = false;
  bool stop_ = false;
  std::thread worker_;
};

Saver::Saver(SaveOptions options, const TrainConfig& config)
    : impl_(std::make_unique<Impl>(std::move(options), config)) {}
Saver::~Saver() = default;

void Saver::step_done(int rank, RankTrainer& trainer, std::int64_t step) {
  impl_->step_done(rank, trainer, step);
}

void Saver::rank_done(int rank, RankTrainer& trainer) {
  impl_->rank_done(rank, trainer);
}

void Saver::finish() {
  impl_->finish();
}

std::vector<std::string> Saver::published() const {
  return impl_->published();
}

}  // namespace zero1::ckpt
