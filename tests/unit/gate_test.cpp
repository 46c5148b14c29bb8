// The gate: what each command releases and where it stops, alone and with several ranks' threads.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/trace/gate.h"
#include "core/trace/tracer.h"
#include "tests/unit/trace_test_support.h"

using namespace zero1::trace;

namespace {

constexpr std::int64_t patience_ms = 20'000;

Event event_of(Kind kind, int bucket = -1, int rank = 0, int step = 0, int param = -1) {
  Event event;
  event.kind = kind;
  event.bucket = bucket;
  event.rank = static_cast<std::int16_t>(rank);
  event.step = step;
  event.param = param;
  return event;
}

/// A rank's thread that passes the given events; `passed` counts.
class Walker {
 public:
  Walker(Gate& gate, std::vector<Event> events)
      : thread_([this, &gate, events = std::move(events)] {
          for (const Event& event : events) {
            gate.arrive(event);
            ++passed_;
          }
          done_ = true;
        }) {}
  ~Walker() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  int passed() const { return passed_; }
  bool done() const { return done_; }

 private:
  std::atomic<int> passed_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

/// The one held event, after the gate has stopped.
Event stopped_at(const Gate& gate) {
  REQUIRE(gate.wait_stopped(patience_ms));
  const std::vector<Event> held = gate.held();
  REQUIRE(held.size() == 1);
  return held[0];
}

const std::vector<Event> one_step{
    event_of(Kind::step),      event_of(Kind::forward),       event_of(Kind::forward),
    event_of(Kind::backward),  event_of(Kind::grad_ready, 1), event_of(Kind::collective_issue, 1),
    event_of(Kind::backward),  event_of(Kind::grad_ready, 0), event_of(Kind::collective_issue, 0),
    event_of(Kind::grad_norm), event_of(Kind::adamw, 0),      event_of(Kind::adamw, 1),
};

std::vector<Event> steps(int count, int rank) {
  std::vector<Event> events;
  for (int step = 0; step < count; ++step) {
    for (Event event : one_step) {
      event.step = step;
      event.rank = static_cast<std::int16_t>(rank);
      events.push_back(event);
    }
  }
  return events;
}

/// Waits until `count` threads are held.
void wait_for_held(const Gate& gate, std::size_t count) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (gate.held().size() != count && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  REQUIRE(gate.held().size() == count);
}

}  // namespace

TEST_CASE("breakpoints match what they set and nothing else") {
  const Event event = event_of(Kind::adamw, 3, 1, 7, 9);
  CHECK(Breakpoint{}.matches(event));
  CHECK(Breakpoint{.kind = Kind::adamw, .rank = 1, .bucket = 3, .param = 9, .step = 7}.matches(event));
  CHECK_FALSE(Breakpoint{.kind = Kind::clip}.matches(event));
  CHECK_FALSE(Breakpoint{.rank = 0}.matches(event));
  CHECK_FALSE(Breakpoint{.bucket = 2}.matches(event));
  CHECK_FALSE(Breakpoint{.param = 8}.matches(event));
  CHECK_FALSE(Breakpoint{.step = 6}.matches(event));
  CHECK(Breakpoint{.from_step = 7}.matches(event));
  CHECK_FALSE(Breakpoint{.from_step = 8}.matches(event));
}

TEST_CASE("an open gate holds nothing; a paused one holds the next event") {
  Gate gate;
  CHECK(gate.running());
  CHECK(gate.open());
  gate.arrive(event_of(Kind::step));
  CHECK_FALSE(gate.wait_held(0));
  gate.pause();
  CHECK_FALSE(gate.running());
  Walker walker(gate, steps(1, 0));
  CHECK(stopped_at(gate).kind == Kind::step);
  CHECK(walker.passed() == 0);
  gate.run();
  walker.join();
  CHECK(walker.passed() == static_cast<int>(one_step.size()));
  CHECK(gate.running());
}

TEST_CASE("step_event passes exactly one event; without a held one it only pauses") {
  Gate gate;
  gate.step_event();
  CHECK_FALSE(gate.running());
  gate.step_event();
  Walker walker(gate, steps(1, 0));
  for (std::size_t i = 0; i < one_step.size(); ++i) {
    const Event held = stopped_at(gate);
    CHECK(held.kind == one_step[i].kind);
    CHECK(held.bucket == one_step[i].bucket);
    CHECK(walker.passed() == static_cast<int>(i));
    gate.step_event();
    while (walker.passed() == static_cast<int>(i)) std::this_thread::yield();
  }
  walker.join();
}

TEST_CASE("step_bucket runs until an event of another bucket; events without one pass") {
  Gate gate;
  gate.pause();
  Walker walker(gate, steps(1, 0));
  CHECK(stopped_at(gate).kind == Kind::step);
  std::vector<int> stops;
  for (const int expected_passed : {4, 7, 11}) {
    gate.step_bucket();
    while (walker.passed() < expected_passed) std::this_thread::yield();
    const Event held = stopped_at(gate);
    CHECK(walker.passed() == expected_passed);
    stops.push_back(held.bucket);
  }
  // From bucket 0's gradient it runs over issue, norm and bucket 0's update.
  CHECK(stops == std::vector{1, 0, 1});
  gate.step_bucket();
  walker.join();
  CHECK(walker.done());
}

TEST_CASE("step_phase runs until an event of another kind") {
  Gate gate;
  gate.pause();
  Walker walker(gate, steps(1, 0));
  CHECK(stopped_at(gate).kind == Kind::step);
  for (const int expected_passed : {1, 3, 4, 5, 6, 7, 8, 9, 10}) {
    gate.step_phase();
    while (walker.passed() < expected_passed) std::this_thread::yield();
    CHECK(stopped_at(gate).kind == one_step[static_cast<std::size_t>(expected_passed)].kind);
    CHECK(walker.passed() == expected_passed);
  }
  gate.step_phase();  // both adamw, and the end
  walker.join();
}

TEST_CASE("step_iteration runs every rank to its own next step") {
  constexpr int ranks = 3;
  const int per_step = static_cast<int>(one_step.size());
  Gate gate;
  gate.pause();
  std::vector<std::unique_ptr<Walker>> walkers;
  for (int rank = 0; rank < ranks; ++rank) walkers.push_back(std::make_unique<Walker>(gate, steps(4, rank)));
  wait_for_held(gate, ranks);
  // One rank is ahead by some events; it still stops at the same step as the others.
  gate.step_event();
  wait_for_held(gate, ranks);
  for (int step = 1; step < 4; ++step) {
    gate.step_iteration();
    for (const auto& walker : walkers) {
      while (walker->passed() < step * per_step) std::this_thread::yield();
    }
    wait_for_held(gate, ranks);
    for (const Event& event : gate.held()) {
      CHECK(event.kind == Kind::step);
      CHECK(event.step == step);
    }
  }
  gate.run();
}

TEST_CASE("run_to and breakpoints stop in front of the event, and pass it when released") {
  Gate gate;
  gate.pause();
  Walker walker(gate, steps(3, 0));
  CHECK(stopped_at(gate).kind == Kind::step);
  gate.run_to({.kind = Kind::grad_norm, .step = 1});
  while (walker.passed() < 21) std::this_thread::yield();
  const Event norm = stopped_at(gate);
  CHECK(norm.kind == Kind::grad_norm);
  CHECK(norm.step == 1);
  gate.set_breakpoints({{.kind = Kind::adamw, .bucket = 1}, {.kind = Kind::step}});
  CHECK(gate.breakpoints().size() == 2);
  gate.run();
  while (walker.passed() < 23) std::this_thread::yield();
  CHECK(stopped_at(gate).kind == Kind::adamw);
  CHECK_FALSE(gate.running());
  gate.run();
  while (walker.passed() < 24) std::this_thread::yield();
  const Event step = stopped_at(gate);
  CHECK(step.kind == Kind::step);
  CHECK(step.step == 2);
  gate.set_breakpoints({});
  CHECK(gate.held().size() == 1);  // forgetting a breakpoint releases nobody
  gate.run();
  walker.join();
  CHECK(gate.open());
}

TEST_CASE("a breakpoint stops whatever command is under way, on every rank") {
  Gate gate;
  gate.set_breakpoints({{.kind = Kind::grad_norm, .rank = 1}});
  Walker first(gate, steps(1, 1));
  REQUIRE(gate.wait_stopped(patience_ms));
  CHECK(gate.held().at(0).kind == Kind::grad_norm);
  Walker second(gate, steps(1, 0));  // no breakpoint of its own, but the gate is paused now
  wait_for_held(gate, 2);
  CHECK(second.passed() == 0);
  gate.shutdown();
}

TEST_CASE("a released thread that waits for a held peer does not stop the stepping") {
  // Rank 0 passes one event and then needs rank 1 to pass two, as in a collective.
  Gate gate;
  gate.pause();
  std::mutex mutex;
  std::condition_variable changed;
  int peer_passed = 0;
  std::thread rank0([&] {
    gate.arrive(event_of(Kind::collective_run, 0, 0));
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return peer_passed == 2; });
  });
  wait_for_held(gate, 1);
  std::thread rank1([&] {
    for (int i = 0; i < 2; ++i) {
      gate.arrive(event_of(Kind::collective_run, 0, 1));
      const std::lock_guard lock(mutex);
      ++peer_passed;
      changed.notify_all();
    }
  });
  wait_for_held(gate, 2);
  CHECK(gate.held()[0].rank == 0);
  gate.step_event();
  for (int i = 0; i < 2; ++i) {
    wait_for_held(gate, 1);
    CHECK(gate.held()[0].rank == 1);
    gate.step_event();
    while (true) {
      const std::lock_guard lock(mutex);
      if (peer_passed > i) break;
    }
  }
  rank0.join();
  rank1.join();
}

TEST_CASE("step_bucket with ranks in different buckets goes by the oldest") {
  Gate gate;
  gate.pause();
  Walker a(gate, {event_of(Kind::grad_ready, 3, 0), event_of(Kind::grad_ready, 3, 0),
                  event_of(Kind::grad_ready, 2, 0)});
  wait_for_held(gate, 1);
  Walker b(gate, {event_of(Kind::grad_ready, 2, 1), event_of(Kind::grad_ready, 1, 1)});
  wait_for_held(gate, 2);
  gate.step_bucket();  // bucket 3: rank 0 runs on to bucket 2, rank 1 stays in front of bucket 2
  while (a.passed() < 2) std::this_thread::yield();
  wait_for_held(gate, 2);
  CHECK(b.passed() == 0);
  CHECK(gate.held()[0].rank == 1);
  gate.step_bucket();  // bucket 2: both are in it
  while (b.passed() < 1 || a.passed() < 3) std::this_thread::yield();
  wait_for_held(gate, 1);
  CHECK(gate.held()[0].bucket == 1);
  gate.run();
}

TEST_CASE("shutdown lets everything through for good") {
  Gate gate;
  gate.pause();
  Walker walker(gate, steps(2, 0));
  REQUIRE(gate.wait_held(patience_ms));
  gate.shutdown();
  walker.join();
  gate.pause();
  gate.set_breakpoints({{}});
  gate.arrive(event_of(Kind::step));
  CHECK(gate.running());
  CHECK(gate.held().empty());
  CHECK_FALSE(gate.wait_stopped(0));
}

TEST_CASE("a stopped run ends where its ranks come to their next event") {
  Gate gate;
  Tracer tracer(0, nullptr, &gate);
  tracer.instant(event_of(Kind::grad_ready));
  gate.pause();
  bool ended = false;
  std::thread rank([&] {
    try {
      tracer.instant(event_of(Kind::grad_ready));
    } catch (const zero1::Error&) {
      ended = true;
    }
  });
  REQUIRE(gate.wait_held(patience_ms));
  gate.stop();
  rank.join();
  CHECK(ended);  // the event in front of which it was held
  CHECK_THROWS_AS(tracer.instant(event_of(Kind::step)), zero1::Error);
  CHECK(gate.running());
}

TEST_CASE("seeded random stepping loses and repeats nothing") {
  constexpr int threads = 4;
  constexpr int rounds = 5;
  for (const unsigned seed : {1U, 3U, 5U, 7U}) {
    CAPTURE(seed);
    Gate gate;
    gate.pause();
    std::vector<std::unique_ptr<Walker>> walkers;
    for (int rank = 0; rank < threads; ++rank)
      walkers.push_back(std::make_unique<Walker>(gate, steps(rounds, rank)));
    std::mt19937 random(seed);
    const auto all_done = [&] {
      for (const auto& walker : walkers) {
        if (!walker->done()) return false;
      }
      return true;
    };
    while (!all_done()) {
      gate.wait_held(1);
      switch (random() % 9) {
        case 0: gate.step_bucket(); break;
        case 1: gate.step_phase(); break;
        case 2: gate.step_iteration(); break;
        case 3: gate.run_to({.kind = Kind::adamw, .rank = static_cast<int>(random() % threads)}); break;
        case 4:
          gate.set_breakpoints({{.kind = Kind::backward, .step = static_cast<int>(random() % rounds)}});
          break;
        case 5: gate.pause(); break;
        default: gate.step_event(); break;
      }
      REQUIRE(gate.held().size() <= threads);
    }
    for (const auto& walker : walkers) CHECK(walker->passed() == rounds * static_cast<int>(one_step.size()));
    CHECK(gate.held().empty());
  }
}

TEST_CASE("each step_event lets one event through, whoever's it is") {
  constexpr int threads = 3;
  Gate gate;
  gate.pause();
  std::vector<std::unique_ptr<Walker>> walkers;
  for (int rank = 0; rank < threads; ++rank)
    walkers.push_back(std::make_unique<Walker>(gate, steps(2, rank)));
  const int total = threads * 2 * static_cast<int>(one_step.size());
  const auto passed = [&] {
    int sum = 0;
    for (const auto& walker : walkers) sum += walker->passed();
    return sum;
  };
  for (int released = 0; released < total; ++released) {
    REQUIRE(gate.wait_held(patience_ms));
    CHECK(passed() <= released);
    gate.step_event();
  }
  for (auto& walker : walkers) walker->join();
  CHECK(passed() == total);
}
