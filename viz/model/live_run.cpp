#include "viz/model/live_run.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "viz/model/element_probe.h"
#include "viz/model/event_index.h"
#include "viz/model/run_watch.h"
#include "viz/model/slow_motion.h"

namespace zero1::viz {

std::string_view name(RunState state) {
  switch (state) {
    case RunState::starting: return "starting";
    case RunState::running: return "running";
    case RunState::paused: return "paused";
    case RunState::finished: return "finished";
    case RunState::failed: return "failed";
  }
  return "unknown";
}

struct LiveRun::Impl {
  TrainConfig config;
  LiveRunOptions options;
  trace::RunInfo info;
  std::shared_ptr<const Layout> layout;
  trace::Gate gate;
  std::unique_ptr<ElementProbe> element;
  std::unique_ptr<RunWatch> watch;
  TrainObserver observer;

  // ---- from the run's threads to the one that draws ----
  std::mutex recorder_mutex;
  trace::Recorder* recorder = nullptr;
  std::int64_t last_dropped = 0;
  std::atomic<std::int64_t> start_ns{0};
  std::mutex inbox_mutex;
  std::vector<trace::Event> event_inbox;
  std::vector<StepMetrics> metrics_inbox;
  std::atomic<bool> started{false};
  std::string message;                   ///< these two are written before `ended`
  std::unique_ptr<TrainSummary> result;  ///< null where it failed
  std::atomic<bool> ended{false};

  // ---- the thread that draws ----
  std::vector<trace::Event> batch;
  std::vector<StepMetrics> metrics;
  Breakpoints breakpoints;
  Change change;
  std::uint64_t change_seen = 0;

  // ---- commands, by that thread and by slow motion ----
  std::mutex command_mutex;
  std::int64_t change_from_ns = 0;
  std::uint64_t change_number = 0;
  bool slow_begins = false;  ///< its next step passes a breakpoint
  SlowMotion slow;
  std::thread thread;

  Impl(TrainConfig given, LiveRunOptions given_options)
      : config(std::move(given)), options(std::move(given_options)), slow([this] { return slow_step(); }) {
    RunShape shape = run_shape(config);
    info = std::move(shape.info);
    layout = std::make_shared<const Layout>(std::move(shape.layout));
    element = std::make_unique<ElementProbe>(layout, config.dp);
    watch = std::make_unique<RunWatch>(config.dp, gate, can_read() ? element.get() : nullptr);
    element->follow(options.follow);
    observe();
    for (const trace::Breakpoint& where : options.breakpoints) breakpoints.add(where);
    gate.set_breakpoints(breakpoints.enabled());
    if (options.start_paused || options.slow_motion > 0) gate.pause();
    thread = std::thread([this] { train_all(); });
    if (options.slow_motion > 0) start_slow_motion(options.slow_motion);
  }

  ~Impl() {
    slow.set_rate(0);
    gate.stop();
    watch->abort("the run was stopped");
    thread.join();
  }

  bool can_read() const { return config.device == "cpu"; }

  // ---- the run's threads ----

  void observe() {
    observer.gate = &gate;
    observer.probe = watch.get();
    observer.on_events = [this](std::span<const trace::Event> events) {
      const std::lock_guard lock(inbox_mutex);
      event_inbox.insert(event_inbox.end(), events.begin(), events.end());
    };
    observer.on_step = [this](const StepMetrics& step) {
      if (options.hooks.on_step) options.hooks.on_step(step);
      const std::lock_guard lock(inbox_mutex);
      metrics_inbox.push_back(step);
    };
    observer.on_recorder = [this](trace::Recorder* now) {
      const std::lock_guard lock(recorder_mutex);
      if (recorder != nullptr) last_dropped = recorder->dropped();
      recorder = now;
      if (now != nullptr) start_ns = now->start_ns();
    };
    observer.on_rank_ready = [this](int rank, RankTrainer& trainer) {
      if (options.hooks.on_rank_ready) options.hooks.on_rank_ready(rank, trainer);
      watch->enter(rank, trainer);
      started = true;
      gate.check_stopped();
    };
    observer.on_step_end = [this](int rank, RankTrainer& trainer, std::int64_t step) {
      if (options.hooks.on_step_end) options.hooks.on_step_end(rank, trainer, step);
      gate.check_stopped();
    };
    observer.on_rank_done = [this](int rank, RankTrainer& trainer) {
      if (options.hooks.on_rank_done) options.hooks.on_rank_done(rank, trainer);
      watch->leave(rank);
    };
    observer.stop_requested = options.hooks.stop_requested;
    observer.on_rank_failed = [this](int rank) { watch->leave(rank); };
  }

  void train_all() {
    try {
      result = std::make_unique<TrainSummary>(train(config, observer, options.make_machine));
    } catch (const std::exception& error) {
      message = error.what();
    }
    ended = true;
  }

  // ---- commands ----

  std::int64_t clock_ns() const {
    const std::int64_t start = start_ns;
    return start == 0 ? 0 : now_ns() - start;
  }

  /// Under command_mutex: what happens from now on is the next change.
  void begin_change() {
    change_from_ns = clock_ns();
    ++change_number;
  }

  template <class Action>
  void command(Action action) {
    const std::lock_guard lock(command_mutex);
    slow.set_rate(0);
    if (ended) return;
    begin_change();
    action();
  }

  void start_slow_motion(double events_per_second) {
    const std::lock_guard lock(command_mutex);
    if (ended) return;
    if (slow.rate() <= 0) slow_begins = true;
    gate.pause();
    slow.set_rate(events_per_second);
  }

  /// Slow motion's thread. Where nobody is held yet, the step is left out.
  bool slow_step() {
    const std::lock_guard lock(command_mutex);
    if (ended || slow.rate() <= 0) return false;
    const std::vector<trace::Event> held = gate.held();
    if (held.empty()) return true;
    if (!slow_begins) {
      for (const trace::Breakpoint& breakpoint : gate.breakpoints()) {
        if (breakpoint.matches(held.front())) return false;
      }
    }
    slow_begins = false;
    begin_change();
    gate.step_event();
    return true;
  }

  /// The gate has stopped it; or a step has, whose way on leads through a rank that is held elsewhere.
  bool stopped() const {
    if (gate.wait_stopped(0)) return true;
    return !gate.running() && watch->all_at_rest();
  }

  // ---- delivery ----

  void collect() {
    {
      const std::lock_guard lock(recorder_mutex);
      if (recorder != nullptr) recorder->drain();
    }
    batch.clear();
    {
      const std::lock_guard lock(inbox_mutex);
      batch.swap(event_inbox);
      metrics.insert(metrics.end(), metrics_inbox.begin(), metrics_inbox.end());
      metrics_inbox.clear();
    }
    {
      const std::lock_guard lock(command_mutex);
      if (change_seen != change_number) {
        change = {};
        change.from_ns = change.to_ns = change_from_ns;
        change_seen = change_number;
      }
    }
    for (const trace::Event& event : batch) {
      if (event.end_ns > change.from_ns) change.add(event);
    }
    element->update();
  }

  std::int64_t dropped() {
    const std::lock_guard lock(recorder_mutex);
    return recorder != nullptr ? recorder->dropped() : last_dropped;
  }
};

LiveRun::LiveRun(TrainConfig config, LiveRunOptions options)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(options))) {}
LiveRun::~LiveRun() = default;

const TrainConfig& LiveRun::config() const {
  return impl_->config;
}
const std::string& LiveRun::title() const {
  return impl_->options.title;
}
const std::string& LiveRun::explanation() const {
  return impl_->options.explanation;
}
std::string LiveRun::begin_again() const {
  const LiveRunOptions& options = impl_->options;
  const bool explained = options.explained_step > 0 && !impl_->metrics.empty() &&
                         impl_->metrics.back().step >= options.explained_step;
  return explained ? options.again : std::string();
}
const trace::RunInfo& LiveRun::info() const {
  return impl_->info;
}
std::shared_ptr<const Layout> LiveRun::layout() const {
  return impl_->layout;
}
bool LiveRun::can_read() const {
  return impl_->can_read();
}

void LiveRun::deliver(EventIndex& into) {
  deliver([&](std::span<const trace::Event> events) { into.push(events); });
  into.set_dropped(dropped());
  into.absorb(0);
}

void LiveRun::deliver(const std::function<void(std::span<const trace::Event>)>& into) {
  impl_->collect();
  if (!impl_->batch.empty()) into(impl_->batch);
}

RunState LiveRun::state() const {
  if (impl_->ended) return impl_->result != nullptr ? RunState::finished : RunState::failed;
  if (!impl_->started) return RunState::starting;
  if (impl_->slow.rate() > 0) return RunState::running;
  return impl_->stopped() ? RunState::paused : RunState::running;
}

std::string LiveRun::failure() const {
  return impl_->ended ? impl_->message : std::string();
}
std::span<const StepMetrics> LiveRun::metrics() const {
  return impl_->metrics;
}
std::int64_t LiveRun::dropped() const {
  return impl_->dropped();
}
const TrainSummary* LiveRun::summary() const {
  return impl_->ended ? impl_->result.get() : nullptr;
}
std::int64_t LiveRun::clock_ns() const {
  return impl_->clock_ns();
}

void LiveRun::run() {
  impl_->command([this] { impl_->gate.run(); });
}
void LiveRun::run_to_breakpoint() {
  run();
}
void LiveRun::pause() {
  impl_->command([this] { impl_->gate.pause(); });
}
void LiveRun::step_event() {
  impl_->command([this] { impl_->gate.step_event(); });
}
void LiveRun::step_bucket() {
  impl_->command([this] { impl_->gate.step_bucket(); });
}
void LiveRun::step_phase() {
  impl_->command([this] { impl_->gate.step_phase(); });
}
void LiveRun::step_iteration() {
  impl_->command([this] { impl_->gate.step_iteration(); });
}
void LiveRun::run_to(const trace::Breakpoint& target) {
  impl_->command([&] { impl_->gate.run_to(target); });
}

void LiveRun::set_slow_motion(double events_per_second) {
  if (events_per_second > 0) {
    impl_->start_slow_motion(events_per_second);
  } else if (slow_motion() > 0) {
    pause();
  }
}

double LiveRun::slow_motion() const {
  return impl_->ended ? 0 : impl_->slow.rate();
}

const Breakpoints& LiveRun::breakpoints() const {
  return impl_->breakpoints;
}

void LiveRun::set_breakpoints(Breakpoints breakpoints) {
  impl_->breakpoints = std::move(breakpoints);
  impl_->gate.set_breakpoints(impl_->breakpoints.enabled());
}

std::vector<trace::Event> LiveRun::held() const {
  return impl_->gate.held();
}

std::vector<Wait> LiveRun::waiting() const {
  const std::vector<RankState> states = impl_->watch->states();
  return find_waits(states, impl_->gate.held(), impl_->info);
}

const Change& LiveRun::last_change() const {
  static const Change none;
  return impl_->gate.running() ? none : impl_->change;
}

bool LiveRun::read(int rank, const std::function<void(RankTrainer&)>& look) const {
  return impl_->watch->read(rank, look);
}

ElementProbe& LiveRun::element() {
  return *impl_->element;
}
trace::Gate& LiveRun::gate() {
  return impl_->gate;
}

}  // namespace zero1::viz
