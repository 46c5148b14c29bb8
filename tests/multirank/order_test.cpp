// The order of the pipeline's events, asserted from the events and never from how long things took.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/multirank/scripted_run.h"

using namespace zero1;
using namespace zero1::test;
using trace::BucketState;
using trace::Collective;
using trace::Kind;

namespace {

/// Records a run of 4 parameters in 4 buckets on 2 ranks, and keeps one rank's events.
class OrderedRun {
 public:
  OrderedRun(bool overlap, int steps) {
    ScriptedRun run;
    run.specs = {{"first", {70}}, {"second", {70}}, {"third", {70}}, {"fourth", {70}}};
    run.dp = 2;
    run.steps = steps;
    run.microbatches = 2;
    run.data_parallel.bucket_size_elems = 64;
    run.data_parallel.overlap_grad_reduce = overlap;
    run.data_parallel.overlap_param_gather = overlap;
    trace::RunInfo info;
    info.ranks = run.dp;
    trace::RecorderOptions options;
    std::mutex mutex;
    options.sink = [&](std::span<const trace::Event> events) {
      const std::lock_guard lock(mutex);
      for (const trace::Event& e : events) {
        if (e.rank == 0) events_.push_back(e);
      }
    };
    trace::Recorder recorder(info, std::move(options));
    run.recorder = &recorder;
    run_scripted(run);
    recorder.close();
    CHECK(recorder.dropped() == 0);
  }

  std::vector<trace::Event> find(Kind kind, int step, int bucket = -1) const {
    std::vector<trace::Event> found;
    for (const trace::Event& e : events_) {
      if (e.kind == kind && e.step == step && (bucket < 0 || e.bucket == bucket)) found.push_back(e);
    }
    std::sort(found.begin(), found.end(),
              [](const trace::Event& a, const trace::Event& b) { return a.begin_ns < b.begin_ns; });
    return found;
  }

  trace::Event collective(Kind kind, Collective what, int step, int bucket) const {
    for (const trace::Event& e : find(kind, step, bucket)) {
      if (e.detail == static_cast<std::uint8_t>(what)) return e;
    }
    FAIL("no such event");
    return {};
  }

  trace::Event state(BucketState what, int step, int bucket) const {
    for (const trace::Event& e : find(Kind::bucket_state, step, bucket)) {
      if (e.detail == static_cast<std::uint8_t>(what)) return e;
    }
    FAIL("no such state");
    return {};
  }

 private:
  std::vector<trace::Event> events_;
};

constexpr int buckets = 4;

}  // namespace

TEST_CASE("a bucket's reduction follows its gradients, and precedes its wait and the step") {
  for (const bool overlap : {false, true}) {
    const OrderedRun run(overlap, 3);
    for (int step = 1; step <= 3; ++step) {
      for (int b = 0; b < buckets; ++b) {
        const auto ready = run.find(Kind::grad_ready, step, b);
        REQUIRE(ready.size() == 1);  // once per parameter, in the last microbatch only
        const trace::Event issue =
            run.collective(Kind::collective_issue, Collective::reduce_scatter, step, b);
        const trace::Event ran = run.collective(Kind::collective_run, Collective::reduce_scatter, step, b);
        const trace::Event wait = run.collective(Kind::collective_wait, Collective::reduce_scatter, step, b);
        CHECK(ready[0].end_ns <= run.state(BucketState::ready, step, b).begin_ns);
        CHECK(run.state(BucketState::ready, step, b).end_ns <= issue.begin_ns);
        CHECK(issue.end_ns <= ran.begin_ns);
        CHECK(ran.end_ns <= run.state(BucketState::reduced, step, b).begin_ns);
        CHECK(wait.end_ns <= run.find(Kind::grad_norm, step)[0].begin_ns);
        CHECK(ran.end_ns <= run.find(Kind::adamw, step, b)[0].begin_ns);
        CHECK(run.find(Kind::grad_norm, step)[0].end_ns <= run.find(Kind::adamw, step, b)[0].begin_ns);
      }
    }
  }
}

TEST_CASE("the first iteration reduces after backward, later ones as buckets complete") {
  const OrderedRun run(true, 3);
  const auto last_backward_end = [&](int step) { return run.find(Kind::backward, step).back().end_ns; };
  for (int b = 0; b < buckets; ++b) {
    CHECK(run.collective(Kind::collective_issue, Collective::reduce_scatter, 1, b).begin_ns >=
          last_backward_end(1));
  }
  for (int step = 2; step <= 3; ++step) {
    for (int b = 0; b < buckets; ++b) {
      const trace::Event issue = run.collective(Kind::collective_issue, Collective::reduce_scatter, step, b);
      CHECK(issue.begin_ns <= last_backward_end(step));
      if (b + 1 < buckets) {  // before the next bucket's gradient has come
        CHECK(issue.begin_ns <= run.find(Kind::grad_ready, step, b + 1)[0].begin_ns);
      }
    }
  }
}

TEST_CASE("without overlap everything is reduced in one coalesced launch after backward") {
  const OrderedRun run(false, 2);
  for (int step = 1; step <= 2; ++step) {
    const auto last_backward = run.find(Kind::backward, step).back();
    for (int b = 0; b < buckets; ++b) {
      const trace::Event issue = run.collective(Kind::collective_issue, Collective::reduce_scatter, step, b);
      CHECK(issue.begin_ns >= last_backward.end_ns);
      CHECK((issue.flags & trace::Flags::coalesced) != 0);
    }
  }
}

TEST_CASE("gathers run in the order of forward, each dispatched when the one before has been waited for") {
  const OrderedRun run(true, 3);
  for (int step = 1; step <= 2; ++step) {
    // The gathers that publish a step's update carry that step's number or, from forward on, the next one's.
    std::vector<trace::Event> issues;
    for (const int s : {step, step + 1}) {
      for (const trace::Event& e : run.find(Kind::collective_issue, s)) {
        if (e.detail == static_cast<std::uint8_t>(Collective::all_gather)) issues.push_back(e);
      }
    }
    const auto adamw = run.find(Kind::adamw, step);
    const auto next = run.find(Kind::backward, step + 1);
    std::erase_if(issues, [&](const trace::Event& e) {
      return e.begin_ns < adamw.back().end_ns || e.begin_ns > next.front().begin_ns;
    });
    REQUIRE(issues.size() == buckets);
    for (int i = 0; i < buckets; ++i) CHECK(issues[static_cast<std::size_t>(i)].bucket == buckets - 1 - i);
    // Layer i reads parameter i, which lies in bucket 3 - i: its gather has ended before its forward begins,
    // and the next layer's gather was dispatched before that forward.
    const auto forwards = run.find(Kind::forward, step + 1);
    for (int layer = 0; layer < buckets; ++layer) {
      const trace::Event& forward = forwards[static_cast<std::size_t>(layer)];
      CHECK(forward.layer == layer);
      const int bucket = buckets - 1 - layer;
      CHECK(run.state(BucketState::current, step + 1, bucket).end_ns <= forward.begin_ns);
      if (layer + 1 < buckets)
        CHECK(issues[static_cast<std::size_t>(layer + 1)].begin_ns <= forward.begin_ns);
    }
  }
}

TEST_CASE("without overlap all parameters are gathered before the step ends") {
  const OrderedRun run(false, 2);
  for (int step = 1; step <= 2; ++step) {
    const trace::Event whole = run.find(Kind::step, step)[0];
    for (int b = 0; b < buckets; ++b) {
      const trace::Event ran = run.collective(Kind::collective_run, Collective::all_gather, step, b);
      CHECK(ran.begin_ns >= run.find(Kind::adamw, step).back().end_ns);
      CHECK(ran.end_ns <= whole.end_ns);
    }
  }
}
