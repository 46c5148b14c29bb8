// A run in this process: the same bits whatever is watched, and every event handed over.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "core/base/error.h"
#include "core/trace/reader.h"
#include "core/train/weights.h"
#include "tests/gui/live_support.h"
#include "tests/support/temporary_folder.h"
#include "viz/model/element_probe.h"
#include "viz/model/event_index.h"

using namespace zero1;
using namespace zero1::viz;
using namespace zero1::viz::test;
using trace::Kind;

namespace {

std::uint64_t free_run_hash(const TrainConfig& config) {
  TrainObserver unrecorded;
  unrecorded.record = false;
  return train(config, unrecorded).param_hash;
}

trace::Breakpoint at(Kind kind, int rank, int step) {
  trace::Breakpoint where;
  where.kind = kind;
  where.rank = rank;
  where.step = step;
  return where;
}

}  // namespace

TEST_CASE("a run that is viewed, stepped or slowed gives the bits of a free run without a window") {
  TrainConfig config = small_run(2);
  config.train_iters = 2;
  const std::uint64_t expected = free_run_hash(config);
  SUBCASE("viewed") {
    LiveRun live(config);
    run_out(live);
    CHECK(live.summary()->param_hash == expected);
  }
  SUBCASE("stepped") {
    for (const auto step :
         {&LiveRun::step_event, &LiveRun::step_bucket, &LiveRun::step_phase, &LiveRun::step_iteration}) {
      LiveRunOptions options;
      options.start_paused = true;
      LiveRun live(config, options);
      live.element().follow(ElementRef{0, 17});
      int steps = 0;
      drive(live, [&](std::span<const trace::Event>) {
        if (live.state() != RunState::paused) return true;
        (live.*step)();
        ++steps;
        return true;
      });
      CHECK(live.state() == RunState::finished);
      CHECK(live.summary()->param_hash == expected);
      CHECK(steps >= 2);
    }
  }
  SUBCASE("slowed, paused and resumed") {
    LiveRunOptions options;
    options.slow_motion = 20'000;
    LiveRun live(config, options);
    int frames = 0;
    drive(live, [&](std::span<const trace::Event>) {
      ++frames;
      if (frames % 7 == 3) live.pause();
      if (frames % 7 == 5) live.set_slow_motion(20'000);
      if (frames == 60) live.run();
      return true;
    });
    CHECK(live.state() == RunState::finished);
    CHECK(live.summary()->param_hash == expected);
  }
  SUBCASE("looked into and followed while it runs") {
    LiveRun live(config);
    int frame = 0;
    double seen = 0;
    drive(live, [&](std::span<const trace::Event>) {
      live.element().follow(ElementRef{frame % 5, frame % 24});
      if (++frame % 3 == 0) live.pause();
      if (frame % 3 == 1) live.run();
      live.read(frame % 2, [&](RankTrainer& trainer) { seen += get_param(trainer.data_parallel(), 0)[3]; });
      return true;
    });
    CHECK(live.state() == RunState::finished);
    CHECK(live.summary()->param_hash == expected);
  }
}

TEST_CASE("every event is handed over, in order within a lane, and the metrics too") {
  LiveRun live(small_run(2));
  EventIndex index(2);
  std::int64_t before = 0;
  while (!live.over()) {
    live.deliver(index);
    CHECK(index.size() >= before);
    before = index.size();
    live.gate().wait_held(1);
  }
  live.deliver(index);
  REQUIRE(live.summary() != nullptr);
  CHECK(live.dropped() == 0);
  CHECK(index.dropped() == 0);
  CHECK(index.size() == live.summary()->trace_events);
  std::map<std::pair<int, int>, std::int64_t> last;
  for (EventId id = 0; id < index.size(); ++id) {
    const trace::Event event = index.event(id);
    std::int64_t& end_ns = last[{event.rank, static_cast<int>(event.stream)}];
    CHECK(event.end_ns >= end_ns);
    end_ns = event.end_ns;
  }
  REQUIRE(live.metrics().size() == 3);
  CHECK(live.metrics()[2].step == 3);
  CHECK(live.metrics()[2].loss == live.summary()->last_loss);
  CHECK(live.info().buckets.size() == static_cast<std::size_t>(live.layout()->bucket_count()));
}

TEST_CASE("a breakpoint stops the run, and what happened since the last stop is known") {
  LiveRunOptions options;
  options.breakpoints = {at(Kind::adamw, 1, 1), at(Kind::adamw, 1, 2)};
  LiveRun live(small_run(2), options);
  const auto stop_at = [&](int step) {
    // Rank 1 has a shard of every bucket, and steps them one after the other.
    wait_stopped(live);
    live.deliver([](std::span<const trace::Event>) {});
    CHECK(live.state() == RunState::paused);
    const auto held = live.held();
    CHECK(std::any_of(held.begin(), held.end(), [&](const trace::Event& e) {
      return e.kind == Kind::adamw && e.rank == 1 && e.step == step;
    }));
  };
  const int buckets = live.layout()->bucket_count();
  REQUIRE(buckets > 2);
  for (int b = 0; b < buckets; ++b) {
    stop_at(1);
    if (b == 1) {
      // Since the stop before bucket 1's update: rank 1 has updated bucket 0.
      const Change& change = live.last_change();
      CHECK(!change.empty());
      CHECK(change.buckets.contains(0));
    }
    live.run_to_breakpoint();
  }
  stop_at(2);
  const Change& change = live.last_change();
  CHECK(static_cast<int>(change.buckets.size()) == buckets);
  CHECK(change.params.size() == live.info().params.size());
  CHECK(change.to_ns > change.from_ns);
  live.set_breakpoints({});
  live.run();
  run_out(live);
  CHECK(live.last_change().empty());
}

TEST_CASE("slow motion ends at a breakpoint and goes on from it") {
  LiveRunOptions options;
  options.slow_motion = 50'000;
  options.breakpoints = {at(Kind::grad_norm, 0, 2)};
  LiveRun live(small_run(2), options);
  const auto is_there = [&] {
    const auto held = live.held();
    return !held.empty() && held[0].kind == Kind::grad_norm && held[0].rank == 0 && held[0].step == 2;
  };
  drive(live, [&](std::span<const trace::Event>) { return live.slow_motion() > 0; });
  REQUIRE(!live.over());
  CHECK(is_there());
  CHECK(live.state() == RunState::paused);
  live.set_slow_motion(50'000);
  drive(live, [&](std::span<const trace::Event>) { return is_there(); });
  CHECK(live.slow_motion() == 50'000);
  live.run();
  run_out(live);
}

TEST_CASE("while ranks are held, the followed element reads as its last sample says") {
  LiveRunOptions options;
  options.breakpoints = {at(Kind::clip, 0, 2)};
  options.start_paused = true;
  LiveRun live(small_run(2), options);
  CHECK(live.can_read());
  const ElementRef element{0, 100};
  live.element().follow(element);
  live.run();
  wait_stopped(live);
  // Rank 0 is held; the other one is held or waits for it before long.
  for (int rank = 0; rank < 2; ++rank) {
    double value = 0;
    while (!live.read(rank, [&](RankTrainer& trainer) {
      value = static_cast<double>(get_param(trainer.data_parallel(), element.param)[100]);
    })) {
      std::this_thread::yield();
    }
    live.deliver([](std::span<const trace::Event>) {});
    double sampled = 0;
    for (const ElementSample& sample : live.element().samples()) {
      if (sample.rank == rank && sample.stage == Stage::gathered) sampled = sample.value;
    }
    CHECK(value != 0);
    CHECK(value == sampled);
  }
  live.set_breakpoints({});
  live.run();
  run_out(live);
}

TEST_CASE("who waits is told while stepping, and names a rank that is behind") {
  LiveRunOptions options;
  options.start_paused = true;
  LiveRun live(small_run(3), options);
  int in_collectives = 0;
  int held = 0;
  drive(live, [&](std::span<const trace::Event>) {
    if (live.state() != RunState::paused) return true;
    for (const Wait& wait : live.waiting()) {
      CHECK(!wait.text.empty());
      if (wait.held) {
        ++held;
        CHECK(wait.held->rank == wait.rank);
      } else if (!wait.for_ranks.empty() && wait.for_ranks[0] != wait.rank) {
        ++in_collectives;
        CHECK(wait.text.find("waits in") != std::string::npos);
      }
    }
    live.step_event();
    return true;
  });
  CHECK(held > 100);
  CHECK(in_collectives > 10);
}

TEST_CASE("a run can be left at any time") {
  TrainConfig config = small_run(2);
  config.train_iters = 1'000'000'000;
  SUBCASE("as it starts") {
    LiveRun live(config);
  }
  SUBCASE("running") {
    LiveRun live(config);
    drive(live, [&](std::span<const trace::Event>) { return live.metrics().size() < 3; });
  }
  SUBCASE("paused in the middle") {
    LiveRunOptions options;
    options.breakpoints = {at(Kind::collective_run, 1, 2)};
    LiveRun live(config, options);
    wait_stopped(live);
  }
  SUBCASE("in slow motion") {
    LiveRunOptions options;
    options.slow_motion = 1000;
    LiveRun live(config, options);
    drive(live, [&](std::span<const trace::Event> events) { return events.empty(); });
  }
}

TEST_CASE("leaving a run ends it at each rank's next event, however far its next collective is") {
  // One iteration of a million microbatches: gradients are reduced behind the last of them.
  constexpr int ranks = 2;
  zero1::test::TemporaryFolder folder;
  TrainConfig config = small_run(ranks);
  config.train_iters = 1;
  config.global_batch_size = ranks * 1'000'000LL;
  config.trace = folder / "left.trace";
  config = resolve(config);
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto threads_before = threads();
  int steps_ended = 0;
  LiveRunOptions options = paused();
  options.hooks.on_step = [&](const StepMetrics&) { ++steps_ended; };
  std::vector<trace::Event> held;
  std::int64_t seen = 0;
  std::int64_t left_ns = 0;
  {
    Document document = live_document(config, std::move(options));
    LiveRun& live = *document.live;
    record_some(document, 500);
    // Nothing but its own event keeps a rank: there is no collective to wait in.
    while (held.size() < ranks) held = live.held();
    take_over(document);
    seen = document.events->size();
    left_ns = live.clock_ns();
  }
  while (threads() > threads_before) std::this_thread::yield();
  CHECK(steps_ended == 0);

  // Of what began later there is only what each rank was held in front of.
  std::int64_t recorded = 0;
  std::map<int, int> begun;
  trace::Reader(config.trace).for_each_chunk([&](std::span<const trace::Event> events) {
    recorded += static_cast<std::int64_t>(events.size());
    for (const trace::Event& event : events) {
      if (event.begin_ns < left_ns) continue;
      ++begun[event.rank];
      CHECK(std::any_of(held.begin(), held.end(), [&](const trace::Event& at) {
        return at.rank == event.rank && at.kind == event.kind && at.layer == event.layer;
      }));
    }
  });
  CHECK(recorded >= seen);
  for (const auto& [rank, count] : begun) CHECK(count == 1);
}

TEST_CASE("a run that fails says why, and does nothing more") {
  TrainConfig config = small_run(2);
  config.data = "/nowhere/corpus.txt";
  LiveRun live(config);
  drive(live, [](std::span<const trace::Event>) { return true; });
  CHECK(live.state() == RunState::failed);
  CHECK(live.failure().find("/nowhere/corpus.txt") != std::string::npos);
  CHECK(live.summary() == nullptr);
  live.run();
  live.pause();
  live.step_event();
  live.set_slow_motion(10);
  CHECK(live.slow_motion() == 0);
  CHECK(live.waiting().empty());
  CHECK(!live.read(0, [](RankTrainer&) {}));
}

TEST_CASE("a rank that fails in the middle ends the run, and its memory is not lent any more") {
  TrainConfig config = small_run(2);
  config.lr.lr = 1e30;  // the gradients become infinite
  config.train_iters = 50;
  LiveRun live(config);
  drive(live, [&](std::span<const trace::Event>) {
    live.read(0, [](RankTrainer& trainer) { CHECK(!get_param(trainer.data_parallel(), 0).empty()); });
    return true;
  });
  CHECK(live.state() == RunState::failed);
  CHECK(live.failure().find("the loss is ") != std::string::npos);
  CHECK(!live.read(0, [](RankTrainer&) {}));
}
