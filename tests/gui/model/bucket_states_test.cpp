// Bucket states and memory, replayed from the events of real runs.
#include "viz/model/bucket_states.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "core/layout/owners.h"
#include "tests/gui/live_support.h"
#include "viz/model/event_index.h"
#include "viz/model/memory_plan.h"

using namespace zero1;
using namespace zero1::viz;
using trace::BucketState;

using trace::Kind;

namespace {

struct Recorded {
  TrainConfig config;
  std::shared_ptr<const Layout> layout;
  std::unique_ptr<EventIndex> events;
  std::optional<TrainSummary> summary;
};

Recorded record(TrainConfig config) {
  Recorded recorded;
  recorded.config = config;
  LiveRun live(config);
  const std::vector<trace::Event> events = test::run_out(live);
  recorded.layout = live.layout();
  recorded.events = std::make_unique<EventIndex>(config.dp);
  recorded.events->push(events);
  recorded.events->absorb_all();
  recorded.summary = *live.summary();
  return recorded;
}

/// What a rank's bucket has gone through, as own/others pairs, asked at every one of its events.
std::vector<std::pair<PieceState, PieceState>> life(const Recorded& run, int rank, int bucket) {
  BucketStates states(*run.events);
  std::vector<std::pair<PieceState, PieceState>> seen;
  run.events->visit(-1, run.events->range().end_ns,
                    {.kind = Kind::bucket_state, .rank = rank, .bucket = bucket},
                    [&](EventId, const trace::Event& event) {
                      const BucketMoment moment = states.at(rank, bucket, event.end_ns);
                      if (seen.empty() || seen.back() != std::pair(moment.own, moment.others)) {
                        seen.emplace_back(moment.own, moment.others);
                      }
                      return true;
                    });
  return seen;
}

}  // namespace

TEST_CASE("a bucket goes through its states, its own shard apart from the others'") {
  TrainConfig config = test::small_run(2);
  config.train_iters = 2;
  const Recorded run = record(config);
  using P = PieceState;
  const std::vector<std::pair<P, P>> one_step{{P::accumulating, P::accumulating},
                                              {P::ready, P::ready},
                                              {P::reducing, P::reducing},
                                              {P::reduced, P::left_over},
                                              {P::stepped, P::stale},
                                              {P::stepped, P::gathering},
                                              {P::current, P::current}};
  for (int rank = 0; rank < 2; ++rank) {
    for (int bucket = 0; bucket < run.layout->bucket_count(); ++bucket) {
      CAPTURE(bucket);
      const auto seen = life(run, rank, bucket);
      // Gathers of a step are waited for in the next one's forward, after its first state; so two steps
      // are told as a walk through the states, each of which must have been seen.
      std::set<std::pair<P, P>> all(seen.begin(), seen.end());
      for (const auto& state : one_step) CHECK(all.contains(state));
      CHECK(all.size() == one_step.size());
    }
  }
}

TEST_CASE("with all-reduce every shard is reduced") {
  TrainConfig config = test::small_run(2);
  config.data_parallel.use_distributed_optimizer = false;
  config.data_parallel.overlap_param_gather = false;
  const Recorded run = record(resolve(config));
  const auto seen = life(run, 1, 0);
  const std::set<std::pair<PieceState, PieceState>> all(seen.begin(), seen.end());
  CHECK(all.contains({PieceState::reduced, PieceState::reduced}));
  CHECK_FALSE(all.contains({PieceState::reduced, PieceState::left_over}));
}

TEST_CASE("the gradient buffer's content is told through updates and gathers, owner and others apart") {
  TrainConfig config = test::small_run(2);
  for (const bool sharded : {true, false}) {
    CAPTURE(sharded);
    config.data_parallel.use_distributed_optimizer = sharded;
    config.data_parallel.overlap_param_gather = sharded;
    const Recorded run = record(config);
    const auto says = [&](bool owner) {
      std::vector<std::string> seen;
      run.events->visit(-1, run.events->range().end_ns, {.rank = 1}, [&](EventId, const trace::Event& event) {
        const std::string content = gradient_content(*run.events, 1, 0, owner, event.end_ns);
        if (!content.empty() && (seen.empty() || seen.back() != content)) seen.push_back(content);
        return true;
      });
      return seen;
    };
    std::vector<std::string> owners, others;
    for (const char* step : {"1", "2", "3"}) {
      for (const char* what :
           {"local, still accumulating", "local, complete, not reduced", "being reduced"}) {
        owners.push_back(std::string(what) + ", iteration " + step);
        others.push_back(owners.back());
      }
      owners.push_back(std::string("reduced, iteration ") + step);
      others.push_back(std::string(sharded ? "stale, left over by the reduction" : "reduced") +
                       ", iteration " + step);
    }
    CHECK(says(true) == owners);
    CHECK(says(false) == others);
  }
  const EventIndex none(1);
  CHECK(gradient_content(none, 0, 0, true, 1000).empty());
}

TEST_CASE("ready counts grow to the number that the first iteration has taught") {
  const Recorded run = record(test::small_run(2));
  // Each parameter reports once, tied embeddings twice: count it from the first step's events.
  std::map<int, int> expected;
  run.events->visit(-1, run.events->range().end_ns, {.kind = Kind::grad_ready, .rank = 1, .step = 1},
                    [&](EventId, const trace::Event& event) {
                      ++expected[event.bucket];
                      return true;
                    });
  BucketStates states(*run.events);
  for (int bucket = 0; bucket < run.layout->bucket_count(); ++bucket) {
    CAPTURE(bucket);
    std::map<int, int> last;  // by step
    int events = 0;
    run.events->visit(-1, run.events->range().end_ns, {.kind = Kind::grad_ready, .rank = 1, .bucket = bucket},
                      [&](EventId, const trace::Event& event) {
                        const BucketMoment moment = states.at(1, bucket, event.end_ns);
                        CHECK(moment.ready == last[event.step] + 1);
                        CHECK(moment.golden == expected[bucket]);
                        last[event.step] = moment.ready;
                        ++events;
                        return true;
                      });
    CHECK(events == 3 * expected[bucket]);
    for (int step = 1; step <= 3; ++step) CHECK(last[step] == expected[bucket]);
  }
}

TEST_CASE("before its first event a bucket's state is not known, nor that of a bucket there is none of") {
  const EventIndex empty(2);
  BucketStates states(empty);
  CHECK(states.at(0, 0, 1'000'000).own == PieceState::unknown);
  CHECK(states.at(7, -3, 0).own == PieceState::unknown);
  CHECK(states.at(0, 0, 0).golden == 0);
}

TEST_CASE("memory is what the run has measured, and the plan counts the same bytes") {
  const Recorded run = record(test::small_run(3));
  const std::int64_t end = run.events->range().end_ns;
  const MemoryReport sharded = states_of_rank(*run.layout, true);
  const MemoryReport plain = states_of_rank(*run.layout, false);
  for (int rank = 0; rank < 3; ++rank) {
    const auto told = memory_at(*run.events, rank, end);
    REQUIRE(told);
    const MemoryReport& measured = run.summary->memory[static_cast<std::size_t>(rank)];
    CHECK(told->parameters == measured.parameters);
    CHECK(told->gradients == measured.gradients);
    CHECK(told->optimizer == measured.optimizer);
    CHECK(told->activations > 0);
    CHECK(told->activations <= measured.activations);
    CHECK(sharded.parameters == measured.parameters);
    CHECK(sharded.gradients == measured.gradients);
    // The optimizer keeps a few scalars beside its states.
    CHECK(measured.optimizer >= sharded.optimizer);
    CHECK(measured.optimizer - sharded.optimizer < 4096);
  }
  CHECK(plain.optimizer == run.summary->plain_data_parallel.optimizer);
  CHECK_FALSE(memory_at(*run.events, 0, -1));
  CHECK_FALSE(memory_at(*run.events, 9, end));
}
