// Recorder, lanes and tracer: nothing is lost unseen, nothing is invented, order within a lane holds.
#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/trace/gate.h"
#include "core/trace/lane.h"
#include "core/trace/reader.h"
#include "core/trace/recorder.h"
#include "core/trace/tracer.h"
#include "tests/support/skip.h"
#include "tests/unit/trace_test_support.h"

using namespace zero1::trace;
using test::FakeStream;
using test::make_event;
using zero1::Error;
using zero1::InputError;
using zero1::now_ns;
using zero1::StreamKind;

namespace {

RunInfo info_of(int ranks) {
  RunInfo info;
  info.ranks = ranks;
  return info;
}

/// Options that leave draining to the test.
RecorderOptions manual(std::vector<Event>& into, std::int64_t ring_events = 1 << 10) {
  RecorderOptions options;
  options.ring_events = ring_events;
  options.flush_interval_ms = 60'000;
  options.sink = [&into](std::span<const Event> events) {
    into.insert(into.end(), events.begin(), events.end());
  };
  return options;
}

}  // namespace

TEST_CASE("a lane keeps order over many laps and counts what does not fit") {
  for (const std::int64_t capacity : {1, 2, 3, 5, 7, 64}) {
    CAPTURE(capacity);
    Lane lane(capacity);
    std::int64_t real_capacity = 2;
    while (real_capacity < capacity) real_capacity *= 2;
    std::int32_t pushed = 0;
    std::int32_t seen = 0;
    for (int lap = 0; lap < 50; ++lap) {
      for (std::int64_t i = 0; i < real_capacity; ++i) {
        Event event;
        event.step = pushed++;
        REQUIRE(lane.push(event));
      }
      REQUIRE_FALSE(lane.push(Event{}));
      // Take a number that does not divide the capacity, in up to two pieces.
      const std::int64_t to_take = 1 + lap % real_capacity;
      std::int64_t taken = 0;
      while (taken < to_take) {
        const auto front = lane.front();
        REQUIRE_FALSE(front.empty());
        const auto count = std::min<std::size_t>(front.size(), static_cast<std::size_t>(to_take - taken));
        for (std::size_t i = 0; i < count; ++i) REQUIRE(front[i].step == seen++);
        lane.pop(count);
        taken += static_cast<std::int64_t>(count);
      }
      while (!lane.front().empty()) {
        const auto front = lane.front();
        for (const Event& event : front) REQUIRE(event.step == seen++);
        lane.pop(front.size());
      }
    }
    CHECK(seen == pushed);
    CHECK(lane.dropped() == 50);
  }
}

TEST_CASE("the rings of very many ranks take 1 GiB together at most") {
  for (const int ranks : {1, 85, 86, 1024}) {
    CAPTURE(ranks);
    std::vector<Event> none;
    Recorder recorder(info_of(ranks), manual(none, 1 << 16));
    const std::int64_t capacity = recorder.lane(ranks - 1, StreamId::host).capacity();
    CHECK(capacity * static_cast<std::int64_t>(sizeof(Event)) * 3 * ranks <= std::int64_t{1} << 30);
    CHECK(capacity == (ranks <= 85 ? 1 << 16 : ranks == 86 ? 1 << 15 : 1 << 12));
  }
}

TEST_CASE("concurrent producers: every event arrives once, in order, or is counted as dropped") {
  constexpr int ranks = 3;
  constexpr int per_lane = 20'000;
  std::map<std::pair<int, int>, std::int32_t> last;
  std::int64_t arrived = 0;
  RecorderOptions options;
  options.ring_events = 256;  // small, so that some drop
  options.flush_interval_ms = 1;
  bool in_order = true;
  options.sink = [&](std::span<const Event> events) {
    for (const Event& event : events) {
      auto [it, is_new] = last.try_emplace({event.rank, static_cast<int>(event.stream)}, -1);
      in_order = in_order && it->second < event.step;
      it->second = event.step;
      ++arrived;
    }
  };
  Recorder recorder(info_of(ranks), options);
  std::vector<std::thread> producers;
  std::atomic<std::int64_t> refused{0};
  for (int rank = 0; rank < ranks; ++rank) {
    for (const StreamId stream : {StreamId::compute, StreamId::communication}) {
      producers.emplace_back([&recorder, &refused, rank, stream] {
        Lane& lane = recorder.lane(rank, stream);
        for (int i = 0; i < per_lane; ++i) {
          Event event = make_event(Kind::forward, i, i + 1, rank, stream);
          event.step = i;
          if (!lane.push(event)) ++refused;
        }
      });
    }
  }
  for (int i = 0; i < 50; ++i) recorder.drain();
  for (std::thread& producer : producers) producer.join();
  recorder.close();
  CHECK(in_order);
  CHECK(recorder.dropped() == refused.load());
  CHECK(arrived + recorder.dropped() == 2 * ranks * per_lane);
  CHECK(recorder.recorded() == arrived);
}

TEST_CASE("spans and instants: times, lanes, and the fields that are filled in") {
  std::vector<Event> events;
  Recorder recorder(info_of(4), manual(events));
  Tracer tracer(3, &recorder, nullptr);
  FakeStream compute(StreamKind::compute);
  FakeStream communication(StreamKind::communication, false);
  tracer.set_step(7);
  tracer.set_microbatch(2);
  {
    auto outer = tracer.span(compute, {.kind = Kind::step});
    auto run = tracer.span(communication, {.bucket = 5, .kind = Kind::collective_run});
    run.end();
    run.end();  // again: nothing
    tracer.instant({.step = 1, .param = 4, .kind = Kind::grad_ready});
    auto inner = tracer.span(compute, {.microbatch = 0, .layer = 6, .kind = Kind::forward});
  }
  recorder.drain();
  REQUIRE(events.size() == 3);  // the communication stream has not got there
  CHECK(communication.queued() == 2);
  communication.run();
  recorder.drain();
  REQUIRE(events.size() == 4);
  std::map<Kind, Event> by_kind;
  for (const Event& event : events) by_kind[event.kind] = event;
  const Event step = by_kind[Kind::step];
  const Event forward = by_kind[Kind::forward];
  const Event ready = by_kind[Kind::grad_ready];
  const Event run = by_kind[Kind::collective_run];
  for (const Event& event : events) CHECK(event.rank == 3);
  CHECK(step.begin_ns >= 0);
  CHECK(step.begin_ns <= ready.begin_ns);
  CHECK(ready.begin_ns == ready.end_ns);
  CHECK(ready.begin_ns <= forward.begin_ns);
  CHECK(forward.begin_ns <= forward.end_ns);
  CHECK(forward.end_ns <= step.end_ns);
  CHECK(run.begin_ns >= step.end_ns);  // stamped where the stream got there, not where it was queued
  CHECK(step.step == 7);
  CHECK(step.microbatch == 2);
  CHECK(ready.step == 1);
  CHECK(ready.stream == StreamId::host);
  CHECK(forward.microbatch == 0);
  CHECK(forward.layer == 6);
  CHECK(forward.stream == StreamId::compute);
  CHECK(run.stream == StreamId::communication);
  CHECK(run.bucket == 5);
}

TEST_CASE("moving a span moves its one end") {
  std::vector<Event> events;
  Recorder recorder(info_of(1), manual(events));
  Tracer tracer(0, &recorder, nullptr);
  FakeStream compute(StreamKind::compute);
  {
    auto a = tracer.span(compute, {.layer = 1, .kind = Kind::forward});
    Tracer::Span b(std::move(a));
    auto c = tracer.span(compute, {.layer = 2, .kind = Kind::forward});
    c = std::move(b);  // ends layer 2
    recorder.drain();
    REQUIRE(events.size() == 1);
    CHECK(events[0].layer == 2);
  }
  recorder.drain();
  REQUIRE(events.size() == 2);
  CHECK(events[1].layer == 1);
}

TEST_CASE("a disabled tracer touches no stream") {
  Tracer tracer;
  FakeStream communication(StreamKind::communication, false);
  CHECK_FALSE(tracer.enabled());
  auto span = tracer.span(communication, {.kind = Kind::collective_run});
  span.end();
  tracer.instant({.kind = Kind::grad_ready});
  CHECK(communication.queued() == 0);
}

TEST_CASE("callbacks that a failed stream skips cost nothing but their slot") {
  std::vector<Event> events;
  Recorder recorder(info_of(1), manual(events));
  Tracer tracer(0, &recorder, nullptr);
  {
    FakeStream failed(StreamKind::communication, false);
    for (int i = 0; i < 200; ++i) tracer.span(failed, {.kind = Kind::collective_run}).end();
  }  // its queue goes without being run
  recorder.close();
  CHECK(events.empty());
}

TEST_CASE("a span asks the gate where its stream runs, and its time starts when it is let go") {
  std::vector<Event> events;
  Gate gate;
  Recorder recorder(info_of(1), manual(events));
  gate.pause();
  std::int64_t released_ns = 0;
  std::thread rank([&] {
    Tracer tracer(0, &recorder, &gate);
    FakeStream compute(StreamKind::compute);
    auto span = tracer.span(compute, {.kind = Kind::forward});
    span.end();
    tracer.instant({.kind = Kind::grad_ready});
  });
  REQUIRE(gate.wait_held(10'000));
  CHECK(gate.held().at(0).kind == Kind::forward);
  released_ns = now_ns() - recorder.start_ns();
  gate.run();
  rank.join();
  recorder.drain();
  REQUIRE(events.size() == 2);
  for (const Event& event : events) CHECK(event.begin_ns >= released_ns);
}

TEST_CASE("a gate without a recorder holds spans and instants") {
  Gate gate;
  gate.pause();
  std::thread rank([&] {
    Tracer tracer(2, nullptr, &gate);
    FakeStream compute(StreamKind::compute);
    auto span = tracer.span(compute, {.kind = Kind::backward});
    tracer.instant({.kind = Kind::grad_ready});
  });
  REQUIRE(gate.wait_held(10'000));
  CHECK(gate.held().at(0).kind == Kind::backward);
  CHECK(gate.held().at(0).rank == 2);
  gate.step_event();
  REQUIRE(gate.wait_held(10'000));
  CHECK(gate.held().at(0).kind == Kind::grad_ready);
  gate.run();
  rank.join();
}

TEST_CASE("bad ranks, a throwing sink and an impossible path are errors with words") {
  CHECK_THROWS_AS(Recorder(info_of(0), {}), InputError);
  CHECK_THROWS_AS(Recorder(info_of(40'000), {}), InputError);
  RecorderOptions nowhere;
  nowhere.path = "/nonexistent/dir/run.trace";
  CHECK_THROWS_WITH_AS(Recorder(info_of(1), nowhere),
                       "/nonexistent/dir/run.trace: cannot create the trace file: No such file or directory",
                       Error);
  RecorderOptions throwing;
  throwing.sink = [](std::span<const Event>) { throw std::runtime_error("the sink is full"); };
  Recorder recorder(info_of(2), throwing);
  CHECK_THROWS_AS(recorder.lane(2, StreamId::host), Error);
  CHECK_THROWS_AS(recorder.lane(-1, StreamId::host), Error);
  recorder.lane(1, StreamId::host).push(Event{});
  recorder.drain();
  CHECK(recorder.recorded() == 1);
  CHECK_THROWS_WITH_AS(recorder.close(), "trace: the sink is full", Error);
  CHECK_NOTHROW(recorder.close());
}

TEST_CASE("a full disk is told at once when the header does not fit") {
  if (!std::filesystem::exists("/dev/full")) {
    zero1::test::skip("no /dev/full");
    return;
  }
  RecorderOptions options;
  options.path = "/dev/full";
  CHECK_THROWS_AS(Recorder(info_of(1), options), Error);
}
