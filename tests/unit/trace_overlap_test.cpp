// Exposed time and overlap against a reference that looks at every nanosecond.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/trace/overlap.h"
#include "tests/unit/trace_test_support.h"

using namespace zero1::trace;
using test::make_event;

namespace {

/// A number in [0, bound).
std::int64_t draw(std::mt19937& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random()) % bound;
}

Event collective(Kind kind, std::int64_t begin, std::int64_t end, int rank, int bucket, Collective what,
                 std::int64_t bytes = 0, int step = -1) {
  const StreamId stream = kind == Kind::collective_run ? StreamId::communication : StreamId::compute;
  Event event = make_event(kind, begin, end, rank, stream);
  event.bucket = bucket;
  event.detail = static_cast<std::uint8_t>(what);
  event.bytes = bytes;
  event.step = step;
  return event;
}

Event step_event(std::int64_t begin, std::int64_t end, int rank, int step) {
  Event event = make_event(Kind::step, begin, end, rank);
  event.step = step;
  return event;
}

/// One rank's nanoseconds, as sets of points.
struct Reference {
  std::set<std::int64_t> compute, waits;

  explicit Reference(const std::vector<Event>& events, int rank) {
    for (const Event& event : events) {
      if (event.rank != rank || event.stream != StreamId::compute) continue;
      const bool leaf =
          event.kind == Kind::forward || event.kind == Kind::backward || event.kind == Kind::adamw;
      for (std::int64_t t = event.begin_ns; t < event.end_ns; ++t) {
        if (leaf) compute.insert(t);
        if (event.kind == Kind::collective_wait) waits.insert(t);
      }
    }
    for (const std::int64_t t : waits) compute.erase(t);
  }

  /// Over the runs and waits of the rank that `wanted` picks.
  template <class Wanted>
  CommFigures figures(const std::vector<Event>& events, int rank, Wanted wanted) const {
    std::set<std::int64_t> comm, exposed;
    CommFigures result;
    for (const Event& event : events) {
      if (event.rank != rank || !wanted(event)) continue;
      for (std::int64_t t = event.begin_ns; t < event.end_ns; ++t) {
        if (event.kind == Kind::collective_run) comm.insert(t);
        if (event.kind == Kind::collective_wait && event.stream == StreamId::compute) exposed.insert(t);
      }
      if (event.kind != Kind::collective_run) continue;
      result.bytes[event.detail] += event.bytes;
      ++result.runs;
    }
    result.comm_ns = static_cast<std::int64_t>(comm.size());
    result.exposed_ns = static_cast<std::int64_t>(exposed.size());
    result.overlapped_ns =
        std::count_if(comm.begin(), comm.end(), [&](std::int64_t t) { return compute.contains(t); });
    return result;
  }
};

/// The step that an event counts in by the definition, -1: none.
int step_of(const std::vector<Event>& events, const Event& event) {
  const Event* first = nullptr;
  for (const Event& step : events) {
    if (step.kind != Kind::step || step.rank != event.rank || step.end_ns < event.end_ns) continue;
    if (first == nullptr || step.end_ns < first->end_ns) first = &step;
  }
  return first == nullptr ? -1 : first->step;
}

constexpr int random_ranks = 3;
constexpr int random_steps = 3;

/// Intervals as they come: nested, touching, empty, across steps, waits on the wrong stream.
std::vector<Event> random_run(std::mt19937& random) {
  std::vector<Event> events;
  for (int rank = 0; rank < random_ranks; ++rank) {
    std::int64_t at = 0;
    for (int step = 0; step < random_steps; ++step) {
      const std::int64_t begin = at + draw(random, 4);
      const std::int64_t end = begin + 1 + draw(random, 40);
      events.push_back(step_event(begin, end, rank, step));
      at = end;
    }
    constexpr Kind kinds[] = {Kind::forward, Kind::backward, Kind::adamw, Kind::microbatch, Kind::data};
    for (int i = 0; i < 15; ++i) {
      const std::int64_t begin = draw(random, at + 5);
      const std::int64_t end = begin + draw(random, 12);
      const auto what = static_cast<Collective>(draw(random, collective_count));
      const int bucket = static_cast<int>(draw(random, 4)) - 1;
      switch (draw(random, 4)) {
        case 0:
          events.push_back(
              collective(Kind::collective_run, begin, end, rank, bucket, what, draw(random, 100)));
          break;
        case 1: events.push_back(collective(Kind::collective_wait, begin, end, rank, bucket, what)); break;
        case 2:
          events.push_back(collective(Kind::collective_wait, begin, end, rank, bucket, what));
          events.back().stream = StreamId::host;
          break;
        default: events.push_back(make_event(kinds[draw(random, 5)], begin, end, rank)); break;
      }
    }
  }
  return events;
}

/// What the accumulator counts on: a collective that ends in a step has begun in the step before at the
/// earliest, and nothing on the compute stream goes on over the end of a step.
bool foreseeable(const std::vector<Event>& events, const Event& event) {
  if (event.kind == Kind::step) return true;
  const int step = step_of(events, event);
  const int before = (step < 0 ? random_steps : step) - 1;
  return std::none_of(events.begin(), events.end(), [&](const Event& other) {
    if (other.kind != Kind::step || other.rank != event.rank) return false;
    if (event.stream == StreamId::compute)
      return event.begin_ns < other.end_ns && other.end_ns < event.end_ns;
    return other.step == before && event.begin_ns <= other.begin_ns;
  });
}

}  // namespace

TEST_CASE("interval sets against points") {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<Interval> a, b;
    std::set<std::int64_t> points_a, points_b;
    for (std::int64_t i = draw(random, 8); i > 0; --i) {
      const std::int64_t start = draw(random, 50);
      a.push_back({start, start + draw(random, 9) - 1});  // some empty, some backwards
      for (std::int64_t t = start; t < a.back().end_ns; ++t) points_a.insert(t);
    }
    for (std::int64_t i = draw(random, 8); i > 0; --i) {
      const std::int64_t start = draw(random, 50);
      b.push_back({start, start + draw(random, 9)});
      for (std::int64_t t = start; t < b.back().end_ns; ++t) points_b.insert(t);
    }
    const IntervalSet set_a = merged(a);
    const IntervalSet set_b = merged(b);
    for (std::size_t i = 1; i < set_a.size(); ++i) REQUIRE(set_a[i - 1].end_ns < set_a[i].start_ns);
    std::int64_t common = 0;
    for (const std::int64_t t : points_a) common += points_b.contains(t) ? 1 : 0;
    const auto size_a = static_cast<std::int64_t>(points_a.size());
    REQUIRE(length_ns(set_a) == size_a);
    REQUIRE(common_ns(set_a, set_b) == common);
    const IntervalSet rest = subtract(set_a, set_b);
    REQUIRE(length_ns(rest) == size_a - common);
    REQUIRE(common_ns(rest, set_b) == 0);
    REQUIRE(common_ns(rest, set_a) == size_a - common);
  }
}

TEST_CASE("a hand-made step: what is hidden, what is exposed, what counts as computing") {
  Event backward = make_event(Kind::backward, 200, 500, 0);
  backward.step = 4;
  const std::vector<Event> events{
      step_event(0, 1000, 0, 4),
      make_event(Kind::microbatch, 0, 600, 0),  // a container: no compute of its own
      make_event(Kind::forward, 0, 200, 0),
      backward,
      make_event(Kind::data, 550, 600, 0),
      collective(Kind::collective_run, 400, 700, 0, 1, Collective::reduce_scatter, 64, 4),
      collective(Kind::collective_wait, 600, 700, 0, 1, Collective::reduce_scatter),
      make_event(Kind::grad_norm, 700, 900, 0),
      collective(Kind::collective_run, 750, 800, 0, -1, Collective::all_reduce, 8, 4),
      collective(Kind::collective_wait, 750, 810, 0, -1, Collective::all_reduce),  // inside grad_norm
  };
  OverlapReport report = analyze_overlap(events, 1);
  CHECK(report.run.comm_ns == 350);
  CHECK(report.run.exposed_ns == 160);
  CHECK(report.run.overlapped_ns == 100);  // 400 … 500; the all-reduce runs while its rank waits for it
  REQUIRE(report.steps.size() == 1);
  CHECK(report.steps[0].figures.step == 4);
  CHECK(report.steps[0].figures.mean.ms == doctest::Approx(0.001));
  CHECK(report.steps[0].figures.mean.overlap == doctest::Approx(100.0 / 350));
  CHECK(report.steps[0].figures.bytes[0] == 64);
  CHECK(report.steps[0].figures.bytes[2] == 8);
  CHECK(report.buckets.at(1).reduce.comm_ns == 300);
  CHECK(report.buckets.at(1).gather.runs == 0);
  CHECK(report.buckets.at(1).lead_count == 1);
  CHECK(report.buckets.at(1).lead_ns_sum == 100);  // began at 400, backward ended at 500
  CHECK(report.buckets.at(-1).lead_count == 0);
  CHECK(report.buckets.at(-1).all.exposed_ns == 60);
}

TEST_CASE("an all-gather counts in the step in which it ends") {
  const std::vector<Event> events{
      step_event(0, 100, 0, 0),
      step_event(120, 200, 0, 1),
      collective(Kind::collective_run, 90, 100, 0, 0, Collective::all_gather, 1),   // ends with step 0
      collective(Kind::collective_run, 100, 110, 0, 1, Collective::all_gather, 2),  // between: step 1
      collective(Kind::collective_run, 110, 150, 0, 2, Collective::all_gather, 4),  // into step 1
      collective(Kind::collective_run, 190, 230, 0, 3, Collective::all_gather, 8),  // after the last step
  };
  const OverlapReport report = analyze_overlap(events, 1);
  REQUIRE(report.steps.size() == 2);
  CHECK(report.steps[0].figures.bytes[1] == 1);
  CHECK(report.steps[1].figures.bytes[1] == 6);
  CHECK(report.run.bytes[1] == 15);
  CHECK(report.buckets.size() == 4);
}

TEST_CASE("analysis of random runs: run, ranks, steps, buckets") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    std::vector<Event> events = random_run(random);
    std::vector<Event> shuffled = events;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const OverlapReport report = analyze_overlap(shuffled, random_ranks);
    REQUIRE(report.steps.size() == random_steps);
    CommFigures sum;
    for (int rank = 0; rank < random_ranks; ++rank) {
      const Reference reference(events, rank);
      const CommFigures whole = reference.figures(events, rank, [](const Event&) { return true; });
      REQUIRE(report.ranks[static_cast<std::size_t>(rank)] == whole);
      sum += whole;
      for (int step = 0; step < random_steps; ++step) {
        const CommFigures expected = reference.figures(
            events, rank, [&](const Event& event) { return step_of(events, event) == step; });
        REQUIRE(report.steps[static_cast<std::size_t>(step)].ranks[static_cast<std::size_t>(rank)].comm ==
                expected);
      }
    }
    REQUIRE(report.run == sum);
    for (int bucket = -1; bucket < 3; ++bucket) {
      for (int step = 0; step < random_steps; ++step) {
        CommFigures expected;
        for (int rank = 0; rank < random_ranks; ++rank) {
          expected += Reference(events, rank).figures(events, rank, [&](const Event& event) {
            return event.bucket == bucket && step_of(events, event) == step;
          });
        }
        const auto& buckets = report.steps[static_cast<std::size_t>(step)].buckets;
        const auto found = buckets.find(bucket);
        REQUIRE((found == buckets.end() ? CommFigures{} : found->second) == expected);
      }
    }
  }
}

TEST_CASE("the accumulator gives the analysis' figures while the run goes on") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    std::vector<Event> events = random_run(random);
    std::erase_if(events, [&](const Event& event) { return !foreseeable(events, event); });
    const OverlapReport report = analyze_overlap(events, random_ranks);
    // As recorded: by end within a lane, some of the next step's events already there.
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; });
    StepAccumulator accumulator(random_ranks);
    std::size_t added = 0;
    for (int step = 0; step < random_steps; ++step) {
      while (!accumulator.complete(step)) {
        const std::size_t count =
            std::min<std::size_t>(1 + static_cast<std::size_t>(draw(random, 5)), events.size() - added);
        REQUIRE(count > 0);
        accumulator.add(std::span(events).subspan(added, count));
        added += count;
      }
      // Everything that ends when the slowest rank's step ends has been recorded by then.
      std::int64_t end = 0;
      for (const Event& event : events) {
        if (event.kind == Kind::step && event.step == step) end = std::max(end, event.end_ns);
      }
      while (added < events.size() && events[added].end_ns <= end)
        accumulator.add(std::span(events).subspan(added++, 1));
      const StepFigures figures = accumulator.take(step);
      const StepFigures expected = report.steps[static_cast<std::size_t>(step)].figures;
      REQUIRE(figures.ranks == random_ranks);
      REQUIRE(figures.mean.ms == expected.mean.ms);
      REQUIRE(figures.mean.comm_ms == expected.mean.comm_ms);
      REQUIRE(figures.mean.exposed_comm_ms == expected.mean.exposed_comm_ms);
      REQUIRE(figures.mean.overlap == expected.mean.overlap);
      REQUIRE(figures.max.overlap == expected.max.overlap);
      REQUIRE(figures.max.comm_ms == expected.max.comm_ms);
      REQUIRE(figures.bytes == expected.bytes);
      REQUIRE_FALSE(accumulator.complete(step));  // taken
    }
  }
}

TEST_CASE("the accumulator: unknown steps, skipped steps, late events") {
  StepAccumulator accumulator(2);
  CHECK(accumulator.take(0).ranks == 0);
  const std::vector<Event> first{
      step_event(0, 10, 0, 0),
      step_event(10, 20, 0, 1),
      collective(Kind::collective_run, 1, 5, 0, 0, Collective::all_gather, 1),
      collective(Kind::collective_run, 11, 15, 0, 0, Collective::all_gather, 2),
  };
  accumulator.add(first);
  CHECK_FALSE(accumulator.complete(1));  // rank 1 is not there
  const StepFigures second = accumulator.take(1);
  CHECK(second.ranks == 1);
  CHECK(second.bytes[1] == 2);  // step 0's are not step 1's, taken or not
  const std::vector<Event> late{collective(Kind::collective_run, 16, 19, 0, 0, Collective::all_gather, 4),
                                step_event(20, 30, 0, 2)};
  accumulator.add(late);
  CHECK(accumulator.take(2).bytes[1] == 4);
}

TEST_CASE("figures over ranks: the mean, the worst, and ranks that do not communicate") {
  const std::vector<RankStep> ranks{{0, 3, 4'000'000, {2'000'000, 1'000'000, 500'000, {}, 1}},
                                    {1, 3, 8'000'000, {0, 0, 0, {}, 0}},
                                    {2, 3, 6'000'000, {1'000'000, 0, 1'000'000, {}, 1}}};
  const StepFigures figures = summarize(3, ranks);
  CHECK(figures.mean.ms == doctest::Approx(6));
  CHECK(figures.mean.comm_ms == doctest::Approx(1));
  CHECK(figures.mean.exposed_comm_ms == doctest::Approx(1.0 / 3));
  CHECK(figures.mean.overlap == doctest::Approx((0.25 + 1.0) / 2));
  CHECK(figures.max.ms == doctest::Approx(8));
  CHECK(figures.max.exposed_comm_ms == doctest::Approx(1));
  CHECK(figures.max.overlap == doctest::Approx(1));
}
