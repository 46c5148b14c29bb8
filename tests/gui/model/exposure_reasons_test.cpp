// One reason per exposed wait, on traces made by hand, and on a real run against core/trace/overlap.
#include <doctest/doctest.h>

#include <vector>

#include "tests/gui/live_support.h"
#include "viz/model/event_index.h"
#include "viz/model/exposure_reasons.h"

using namespace zero1;
using namespace zero1::viz;
using trace::Collective;
using trace::Kind;
using trace::StreamId;

namespace {

/// A step of two ranks, in microseconds; step 2 unless said otherwise.
class Trace {
 public:
  std::vector<trace::Event> events;

  trace::Event& add(Kind kind, int rank, std::int64_t begin_us, std::int64_t end_us) {
    trace::Event event;
    event.kind = kind;
    event.rank = static_cast<std::int16_t>(rank);
    event.begin_ns = begin_us * 1000;
    event.end_ns = end_us * 1000;
    event.step = 2;
    event.stream = kind == Kind::collective_run ? StreamId::communication : StreamId::compute;
    events.push_back(event);
    return events.back();
  }
  void step(int rank, std::int64_t begin_us, std::int64_t end_us, int number = 2) {
    add(Kind::step, rank, begin_us, end_us).step = number;
  }
  void layer(int rank, std::int64_t begin_us, std::int64_t end_us, Kind kind = Kind::backward) {
    add(kind, rank, begin_us, end_us);
  }
  /// Issue, run and wait of one collective on one rank.
  void collective(int rank, int bucket, std::int64_t issue_us, std::int64_t run_us, std::int64_t end_us,
                  std::int64_t wait_us, std::int64_t wait_end_us,
                  Collective what = Collective::reduce_scatter, std::uint16_t flags = 0) {
    const auto mark = [&](trace::Event& event) {
      event.bucket = bucket;
      event.detail = static_cast<std::uint8_t>(what);
      event.flags = flags;
    };
    trace::Event& issue = add(Kind::collective_issue, rank, issue_us, issue_us);
    issue.stream = StreamId::host;
    mark(issue);
    mark(add(Kind::collective_run, rank, run_us, end_us));
    mark(add(Kind::collective_wait, rank, wait_us, wait_end_us));
  }
};

ExposedWait wait_of(const StepExposure& step, int rank, int bucket) {
  for (const ExposedWait& wait : step.waits) {
    if (wait.rank == rank && wait.bucket == bucket) return wait;
  }
  FAIL("no such wait");
  return {};
}

constexpr OverlapFlags both{true, true};

}  // namespace

TEST_CASE("transfer: longer than the layers between issue and wait") {
  Trace t;
  for (int rank = 0; rank < 2; ++rank) {
    t.step(rank, 0, 1000);
    t.layer(rank, 0, 100);
    t.collective(rank, 0, 95, 100, 500, 300, 502);
    t.layer(rank, 100, 300);
  }
  const StepExposure step = explain_step(t.events, 2, 2, both);
  REQUIRE(step.waits.size() == 2);
  const ExposedWait wait = wait_of(step, 0, 0);
  CHECK(wait.reason == ExposureReason::transfer);
  CHECK(wait.queueing_ns == 0);
  CHECK(wait.peers_ns == 0);
  CHECK(wait.transfer_ns == 200'000);
  CHECK(wait.rest_ns == 2'000);
  CHECK(step.all[ExposureReason::transfer] == 2 * 202'000);
  CHECK(step.buckets.at(0).largest() == ExposureReason::transfer);
  CHECK(step.report.buckets.at(0).exposed_ns == 2 * 202'000);
}

TEST_CASE("late: no layer begins between issue and wait") {
  Trace t;
  for (int rank = 0; rank < 2; ++rank) {
    t.step(rank, 0, 1000);
    t.layer(rank, 0, 300);
    t.collective(rank, 0, 290, 300, 400, 301, 400);
    t.layer(rank, 500, 600, Kind::forward);
  }
  CHECK(wait_of(explain_step(t.events, 2, 2, both), 1, 0).reason == ExposureReason::late);
}

TEST_CASE("queueing: the run begins late behind another one") {
  Trace t;
  for (int rank = 0; rank < 2; ++rank) {
    t.step(rank, 0, 2000);
    t.layer(rank, 0, 100);
    t.collective(rank, 0, 95, 100, 900, 1000, 1000);
    t.layer(rank, 100, 200);
    t.collective(rank, 1, 150, 900, 1000, 200, 1000);
    t.layer(rank, 160, 170);
  }
  const StepExposure step = explain_step(t.events, 2, 2, both);
  const ExposedWait wait = wait_of(step, 0, 1);
  CHECK(wait.reason == ExposureReason::queueing);
  CHECK(wait.queueing_ns == 700'000);
  CHECK(wait.transfer_ns == 100'000);
  CHECK(!step.buckets.contains(0));  // its wait had nothing to wait for
}

TEST_CASE("slow peer: it had begun here, and the other rank came later") {
  Trace t;
  for (int rank = 0; rank < 2; ++rank) {
    t.step(rank, 0, 1000);
    t.layer(rank, 0, 100);
    t.layer(rank, 120, 200);
  }
  t.collective(0, 0, 110, 120, 800, 200, 800);
  t.collective(1, 0, 700, 750, 800, 760, 800);
  const StepExposure step = explain_step(t.events, 2, 2, both);
  const ExposedWait slow = wait_of(step, 0, 0);
  CHECK(slow.reason == ExposureReason::slow_peer);
  CHECK(slow.slowest_rank == 1);
  CHECK(slow.peers_ns == 550'000);
  CHECK(slow.transfer_ns == 50'000);
  // Sums count the parts.
  CHECK(step.buckets.at(0)[ExposureReason::slow_peer] == 550'000);
  CHECK(step.buckets.at(0)[ExposureReason::transfer] == 50'000);
  CHECK(step.buckets.at(0)[ExposureReason::late] == 40'000);  // of rank 1
  CHECK(step.all.largest() == ExposureReason::slow_peer);
  CHECK(wait_of(step, 1, 0).reason == ExposureReason::late);
  CHECK(wait_of(step, 1, 0).slowest_rank == -1);
}

TEST_CASE("the largest reason is that of the longest time, whatever most waits are called") {
  Trace t;
  for (int rank = 0; rank < 2; ++rank) {
    t.step(rank, 0, 10'000);
    t.layer(rank, 0, 100);
  }
  // Of each wait of rank 0 a little more is transfer than waiting for rank 1; one wait is for that alone.
  for (int bucket = 0; bucket < 3; ++bucket) {
    const std::int64_t at_us = 1000 * bucket;
    t.layer(0, at_us + 20, at_us + 30);
    t.collective(0, bucket, at_us + 10, at_us + 40, at_us + 250, at_us + 50, at_us + 250);
    t.collective(1, bucket, at_us + 10, at_us + 148, at_us + 250, at_us + 250, at_us + 250);
  }
  t.layer(0, 4010, 4020);
  t.collective(0, 3, 4000, 4030, 4200, 4040, 4200);
  t.collective(1, 3, 4000, 4199, 4200, 4200, 4200);
  const StepExposure step = explain_step(t.events, 2, 2, both);
  for (int bucket = 0; bucket < 3; ++bucket)
    CHECK(wait_of(step, 0, bucket).reason == ExposureReason::transfer);
  CHECK(wait_of(step, 0, 3).reason == ExposureReason::slow_peer);
  CHECK(step.all[ExposureReason::transfer] == 3 * 102'000 + 1'000);
  CHECK(step.all[ExposureReason::slow_peer] == 3 * 98'000 + 159'000);
  CHECK(step.all.largest() == ExposureReason::slow_peer);
}

TEST_CASE("waits of one coalesced launch lie in each other, and the step counts each moment once") {
  Trace t;
  for (int rank = 0; rank < 2; ++rank) {
    t.step(rank, 0, 1000);
    t.layer(rank, 0, 100);
    t.layer(rank, 120, 200);
    t.collective(rank, 0, 110, 150, 600, 300, 620);
    t.collective(rank, 1, 110, 150, 600, 305, 610);
    t.collective(rank, 2, 110, 150, 600, 310, 605);
    t.collective(rank, 3, 610, 615, 700, 615, 700);  // begins within the first
  }
  const StepExposure step = explain_step(t.events, 2, 2, both);
  std::int64_t sum_ns = 0;
  for (const std::int64_t ns : step.all.ns) sum_ns += ns;
  CHECK(sum_ns == 2 * 400'000);
  CHECK(step.buckets.at(1)[ExposureReason::transfer] == 2 * 305'000);
  CHECK(step.all[ExposureReason::transfer] == 2 * 320'000);
  CHECK(step.all[ExposureReason::late] == 2 * 80'000);
}

TEST_CASE("first iteration and missing flags come before everything else") {
  Trace t;
  for (int rank = 0; rank < 2; ++rank) {
    t.step(rank, 0, 3000);
    t.collective(rank, 0, 10, 20, 500, 15, 500, Collective::reduce_scatter, trace::Flags::first_iteration);
    t.collective(rank, 1, 600, 610, 900, 605, 900, Collective::all_gather, trace::Flags::first_iteration);
  }
  const StepExposure overlapping = explain_step(t.events, 2, 2, both);
  CHECK(wait_of(overlapping, 0, 0).reason == ExposureReason::first_iteration);
  CHECK(wait_of(overlapping, 0, 1).reason == ExposureReason::late);  // gathers need no counts
  const StepExposure without = explain_step(t.events, 2, 2, {false, false});
  CHECK(wait_of(without, 0, 0).reason == ExposureReason::no_overlap);
  CHECK(wait_of(without, 0, 1).reason == ExposureReason::no_overlap);
}

TEST_CASE("a wait belongs to the first step that ends after it, and one without a run stays unknown") {
  Trace t;
  for (int rank = 0; rank < 2; ++rank) {
    t.step(rank, 0, 1000, 1);
    t.step(rank, 1000, 2000, 2);
    t.collective(rank, 0, 900, 950, 1200, 1100, 1200, Collective::all_gather);
  }
  t.add(Kind::collective_wait, 0, 1500, 1600).bucket = 7;
  const StepExposure first = explain_step(t.events, 2, 1, both);
  CHECK(first.waits.empty());
  const StepExposure second = explain_step(t.events, 2, 2, both);
  CHECK(second.waits.size() == 3);
  CHECK(wait_of(second, 0, 7).reason == ExposureReason::unknown);
  CHECK(wait_of(second, 0, 7).rest_ns == 0);
  CHECK(explain_step(t.events, 2, 9, both).report.figures.ranks == 0);
}

TEST_CASE("the flags come from the run's settings") {
  trace::RunInfo info;
  CHECK(overlap_flags(info).reduce);
  info.config_json = R"({"overlap_grad_reduce": true, "overlap_param_gather": false})";
  CHECK(overlap_flags(info).reduce);
  CHECK(!overlap_flags(info).gather);
  info.config_json = "no json";
  CHECK(overlap_flags(info).gather);
}

TEST_CASE(
    "a real run over a slow link: the figures are core/trace/overlap's, and every wait has its reason") {
  TrainConfig config = viz::test::small_run(2);
  config.train_iters = 5;
  config.link = {0.05, 10};
  for (const bool overlap : {true, false}) {
    config.data_parallel.overlap_grad_reduce = overlap;
    config.data_parallel.overlap_param_gather = overlap;
    LiveRun live(config);
    const std::vector<trace::Event> events = viz::test::run_out(live);
    EventIndex index(2);
    index.push(events);
    index.absorb_all();
    const trace::OverlapReport whole = trace::analyze_overlap(events, 2);
    const OverlapFlags flags = overlap_flags(live.info());
    CHECK(flags.reduce == overlap);
    REQUIRE(whole.steps.size() == 5);
    for (const trace::StepReport& expected : whole.steps) {
      const StepExposure step = explain_step(index, expected.figures.step, flags);
      CHECK(step.report.figures.ranks == 2);
      CHECK(step.report.figures.mean.comm_ms == expected.figures.mean.comm_ms);
      CHECK(step.report.figures.mean.exposed_comm_ms == expected.figures.mean.exposed_comm_ms);
      CHECK(step.report.figures.mean.overlap == expected.figures.mean.overlap);
      CHECK(step.report.buckets == expected.buckets);
      for (const auto& [bucket, shares] : step.buckets) {
        std::int64_t sum_ns = 0;
        for (const std::int64_t ns : shares.ns) sum_ns += ns;
        CHECK(sum_ns == expected.buckets.at(bucket).exposed_ns);
      }
      for (const ExposedWait& wait : step.waits) {
        CHECK(wait.reason != ExposureReason::unknown);
        CHECK(wait.queueing_ns + wait.peers_ns + wait.transfer_ns + wait.rest_ns ==
              wait.when.end_ns - wait.when.start_ns);
        const bool reduces = wait.collective == Collective::reduce_scatter;
        if (!overlap) CHECK(wait.reason == ExposureReason::no_overlap);
        if (overlap && reduces && expected.figures.step == 1)
          CHECK(wait.reason == ExposureReason::first_iteration);
      }
      CHECK(step.all.largest() != ExposureReason::unknown);
      std::int64_t of_reasons_ns = 0, exposed_ns = 0;
      for (const std::int64_t ns : step.all.ns) of_reasons_ns += ns;
      for (const trace::RankStep& rank : expected.ranks) exposed_ns += rank.comm.exposed_ns;
      CHECK(of_reasons_ns == exposed_ns);
    }
  }
}
