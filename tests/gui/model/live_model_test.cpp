// Breakpoints, waits, the way back through a record and the list of events, on events made by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "viz/model/breakpoints.h"
#include "viz/model/event_index.h"
#include "viz/model/event_list.h"
#include "viz/model/event_words.h"
#include "viz/model/history.h"
#include "viz/model/waiting.h"

using namespace zero1;
using namespace zero1::viz;
using trace::BucketState;
using trace::Collective;
using trace::Kind;
using trace::StreamId;
using At = trace::Probe::At;

namespace {

trace::RunInfo names() {
  trace::RunInfo info;
  info.ranks = 3;
  info.params = {"wte.weight", "ln.bias"};
  info.layers = {"embedding", "h.0", "head"};
  info.buckets.resize(4);
  return info;
}

trace::Event event_of(Kind kind, int rank = 0, int bucket = -1, std::int64_t end_ns = 0) {
  trace::Event event;
  event.kind = kind;
  event.rank = static_cast<std::int16_t>(rank);
  event.bucket = bucket;
  event.step = 4;
  event.begin_ns = event.end_ns = end_ns;
  event.stream = kind == Kind::collective_run ? StreamId::communication : StreamId::compute;
  return event;
}

trace::Event backward(int rank, int layer) {
  trace::Event event = event_of(Kind::backward, rank);
  event.layer = static_cast<std::int16_t>(layer);
  event.microbatch = 1;
  return event;
}

trace::Event state_of(int rank, int bucket, BucketState state) {
  trace::Event event = event_of(Kind::bucket_state, rank, bucket);
  event.detail = static_cast<std::uint8_t>(state);
  event.stream = StreamId::host;
  return event;
}

const Wait* line_of(const std::vector<Wait>& waits, int rank, bool held) {
  const auto found = std::find_if(waits.begin(), waits.end(), [&](const Wait& wait) {
    return wait.rank == rank && wait.held.has_value() == held;
  });
  return found == waits.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("events and breakpoints in words") {
  const trace::RunInfo info = names();
  CHECK(what(backward(0, 1), info) == "backward of h.0");
  CHECK(when(backward(0, 1)) == "step 4, microbatch 1");
  trace::Event run = event_of(Kind::collective_run, 2, 3);
  CHECK(what(run, info) == "reduce-scatter of bucket 3");
  run.kind = Kind::collective_wait;
  CHECK(what(run, info) == "wait for the reduce-scatter of bucket 3");
  trace::Event ready = event_of(Kind::grad_ready, 0, 1);
  ready.param = 1;
  CHECK(what(ready, info) == "gradient of ln.bias is ready");
  ready.param = 77;
  CHECK(what(ready, info) == "gradient of parameter 77 is ready");
  CHECK(what(state_of(0, 2, BucketState::reducing), info) == "bucket 2 is reducing");
  CHECK(what(event_of(Kind::adamw, 0, 2), info) == "AdamW of bucket 2");
  CHECK(what(event_of(static_cast<Kind>(200)), info) == "kind 200");

  CHECK(describe(trace::Breakpoint{}, info) == "before every event");
  CHECK(describe(breakpoint_at(backward(2, 1)), info) == "before backward of h.0 · rank 2");
  trace::Breakpoint any_run;
  any_run.kind = Kind::collective_run;
  any_run.step = 3;
  CHECK(describe(any_run, info) == "before collective · step 3");
  any_run.kind = Kind::collective_wait;
  any_run.bucket = 2;
  CHECK(describe(any_run, info) == "before wait for a collective of bucket 2 · step 3");
  // Without names: no identifier of the code is shown to anybody.
  for (int kind = 1; kind <= static_cast<int>(Kind::memory); ++kind) {
    CAPTURE(kind);
    const std::string words = what_happened(static_cast<Kind>(kind), 0);
    CHECK(!words.empty());
    CHECK(words.find('_') == std::string::npos);
  }
  CHECK(ranks_in_words({4}) == "rank 4");
  CHECK(ranks_in_words({0, 1, 3}) == "ranks 0, 1 and 3");
}

TEST_CASE("a breakpoint at an event stops at its like, and at nothing else") {
  trace::Event run = event_of(Kind::collective_run, 1, 2);
  const trace::Breakpoint at = breakpoint_at(run);
  CHECK(at.matches(run));
  run.step = 99;  // in every step
  CHECK(at.matches(run));
  run.detail = static_cast<std::uint8_t>(Collective::all_gather);
  CHECK(!at.matches(run));
  CHECK(!breakpoint_at(backward(0, 1)).matches(backward(0, 2)));
  CHECK(!breakpoint_at(backward(0, 1)).matches(backward(1, 1)));

  Selection selection;
  CHECK(!breakpoint_at(selection));
  selection.bucket = 2;
  selection.rank = 1;
  CHECK(breakpoint_at(selection)->matches(state_of(1, 2, BucketState::ready)));
  CHECK(!breakpoint_at(selection)->matches(state_of(1, 2, BucketState::reduced)));
  selection.param = 1;
  trace::Event ready = event_of(Kind::grad_ready, 1, 2);
  ready.param = 1;
  CHECK(breakpoint_at(selection)->matches(ready));
}

TEST_CASE("the list of breakpoints holds each once, and only enabled ones stop") {
  Breakpoints list;
  const trace::Breakpoint a = breakpoint_at(backward(0, 1));
  const trace::Breakpoint b = breakpoint_at(backward(0, 2));
  CHECK(list.add(a) == 0);
  CHECK(list.add(b) == 1);
  list.enable(0, false);
  CHECK(list.enabled() == std::vector{b});
  CHECK(list.add(a) == 0);
  CHECK(list.enabled().size() == 2);
  list.remove(0);
  CHECK(list.entries().size() == 1);
  CHECK(list.entries()[0].where == b);
}

TEST_CASE("rank 2 waits in a reduce-scatter for rank 0, which is held before backward") {
  const trace::RunInfo info = names();
  std::vector<RankState> ranks(3);
  const trace::Event run1 = event_of(Kind::collective_run, 1, 3);
  const trace::Event run2 = event_of(Kind::collective_run, 2, 3);
  advance(ranks[1], run1, At::begin);
  advance(ranks[2], run2, At::begin);
  advance(ranks[2], event_of(Kind::collective_wait, 2, 3), At::begin);
  advance(ranks[1], backward(1, 0), At::begin);
  advance(ranks[0], backward(0, 2), At::end);
  const std::vector<trace::Event> held{backward(0, 1)};
  const std::vector<Wait> waits = find_waits(ranks, held, info);
  REQUIRE(waits.size() == 3);
  CHECK(line_of(waits, 0, true)->text == "rank 0 is held before backward of h.0 (step 4, microbatch 1)");
  CHECK(line_of(waits, 2, false)->text ==
        "rank 2 waits in the reduce-scatter of bucket 3 for rank 0, which is held before backward of h.0 "
        "(step 4, microbatch 1)");
  CHECK(line_of(waits, 2, false)->for_ranks == std::vector{0});
  CHECK(line_of(waits, 2, false)->bucket == 3);
  CHECK(line_of(waits, 1, false)
            ->text.find("rank 1's communication stream waits in the reduce-scatter of bucket 3") !=
        std::string::npos);

  CHECK(at_rest(ranks, 0, held));
  CHECK(at_rest(ranks, 2, held));
  CHECK(!at_rest(ranks, 1, held));  // it computes
  advance(ranks[0], event_of(Kind::collective_run, 0, 3), At::begin);
  CHECK(!at_rest(ranks, 2, held));  // now data moves
  CHECK(!at_rest(ranks, 0, held));
  CHECK(line_of(find_waits(ranks, held, info), 2, false)->for_ranks.empty());
  for (int rank = 0; rank < 3; ++rank)
    advance(ranks[static_cast<std::size_t>(rank)], event_of(Kind::collective_run, rank, 3), At::end);
  advance(ranks[2], event_of(Kind::collective_wait, 2, 3), At::end);
  CHECK(at_rest(ranks, 0, held));
  CHECK(find_waits(ranks, held, info).size() == 1);
}

TEST_CASE("a rank may wait for its own communication stream, which is held") {
  std::vector<RankState> ranks(2);
  advance(ranks[0], event_of(Kind::collective_wait, 0, 1), At::begin);
  const std::vector<trace::Event> held{event_of(Kind::collective_run, 0, 1)};
  const std::vector<Wait> waits = find_waits(ranks, held, names());
  REQUIRE(waits.size() == 2);
  CHECK(
      line_of(waits, 0, false)->text ==
      "rank 0 waits in the reduce-scatter of bucket 1 for its own communication stream, which is held before "
      "reduce-scatter of bucket 1");
  CHECK(at_rest(ranks, 0, held));
}

TEST_CASE("the small all-reduces of loss and norm are waits too") {
  std::vector<RankState> ranks(2);
  advance(ranks[0], state_of(0, 0, BucketState::reduced), At::instant);
  advance(ranks[1], backward(1, 1), At::begin);
  std::vector<Wait> waits = find_waits(ranks, {}, names());
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].text ==
        "rank 0 waits in the all-reduce of the loss for rank 1, which is in backward of h.0 "
        "(step 4, microbatch 1)");
  advance(ranks[1], state_of(1, 0, BucketState::reduced), At::instant);
  CHECK(find_waits(ranks, {}, names()).empty());
  advance(ranks[1], event_of(Kind::grad_norm, 1), At::begin);
  waits = find_waits(ranks, {}, names());
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].rank == 1);
  CHECK(waits[0].text.find("all-reduce of the gradient norm for rank 0") != std::string::npos);
  CHECK(at_rest(ranks, 1, {}));
}

namespace {

/// Two steps: kinds A A B(bucket 0) B(bucket 0) C(bucket 1) step, twice, 10 ns apart.
std::unique_ptr<EventIndex> record() {
  auto index = std::make_unique<EventIndex>(1);
  std::vector<trace::Event> events;
  std::int64_t at_ns = 0;
  for (int step = 1; step <= 2; ++step) {
    for (const auto& [kind, bucket] : {std::pair{Kind::forward, -1},
                                       {Kind::forward, -1},
                                       {Kind::grad_ready, 0},
                                       {Kind::grad_ready, 0},
                                       {Kind::adamw, 1},
                                       {Kind::step, -1}}) {
      events.push_back(event_of(kind, 0, bucket, at_ns += 10));
      events.back().step = step;
      if (kind == Kind::grad_ready) events.back().param = 1;
    }
  }
  index->push(events);
  index->absorb_all();
  return index;
}

}  // namespace

TEST_CASE("the view goes back and forth event by event, by bucket, by phase and by iteration") {
  const auto index = record();
  const auto back = [&](std::int64_t at_ns, StepUnit unit) { return step_view(*index, at_ns, unit, false); };
  const auto ahead = [&](std::int64_t at_ns, StepUnit unit) { return step_view(*index, at_ns, unit, true); };
  CHECK(back(120, StepUnit::event) == 110);
  CHECK(back(115, StepUnit::event) == 100);
  CHECK(ahead(10, StepUnit::event) == 20);
  CHECK(ahead(15, StepUnit::event) == 20);
  CHECK(!ahead(120, StepUnit::event));
  CHECK(!back(10, StepUnit::event));
  CHECK(ahead(20, StepUnit::phase) == 30);
  CHECK(ahead(30, StepUnit::phase) == 50);
  CHECK(back(50, StepUnit::phase) == 40);
  CHECK(back(40, StepUnit::phase) == 20);
  CHECK(ahead(40, StepUnit::bucket) == 50);
  CHECK(ahead(60, StepUnit::bucket) == 90);
  CHECK(back(60, StepUnit::bucket) == 40);
  CHECK(ahead(10, StepUnit::iteration) == 60);
  CHECK(ahead(60, StepUnit::iteration) == 120);
  CHECK(back(120, StepUnit::iteration) == 60);
  CHECK(!back(60, StepUnit::iteration));
}

TEST_CASE("going back moves the document's moment, marks what lies between, and following returns") {
  Document document;
  document.events = record();
  take_over(document);
  CHECK(document.moment.follow);
  CHECK(document.moment.at_ns == 120);
  go_back(document, StepUnit::phase);
  CHECK(!document.moment.follow);
  CHECK(document.moment.at_ns == 110);
  go_back(document, StepUnit::phase);
  CHECK(document.moment.at_ns == 100);
  CHECK(document.change.buckets == std::set<int>{1});
  CHECK(document.change.from_ns == 100);
  CHECK(document.change.to_ns == 110);
  go_back(document, StepUnit::phase);
  CHECK(document.moment.at_ns == 80);
  CHECK(document.change.params == std::set<int>{1});
  for (int i = 0; i < 9; ++i) go_back(document, StepUnit::event);
  CHECK(document.moment.at_ns == 10);
  take_over(document);
  CHECK(document.moment.at_ns == 10);  // stays where the user went
  go_forward(document, StepUnit::iteration);
  CHECK(document.moment.at_ns == 60);
  CHECK(document.change.buckets == std::set<int>{0, 1});
  go_forward(document, StepUnit::iteration);
  go_forward(document, StepUnit::iteration);
  CHECK(document.moment.follow);
  CHECK(document.change.empty());
  go_back(document, StepUnit::event);
  follow(document);
  CHECK(document.moment.follow);
  go_forward(document, StepUnit::event);  // nothing lies ahead of now
  CHECK(document.moment.follow);
}

TEST_CASE("the list shows events in order of time, filtered by fields and by words") {
  const trace::RunInfo info = names();
  EventIndex index(3);
  std::vector<trace::Event> lanes;
  for (int i = 0; i < 50; ++i) lanes.push_back(event_of(Kind::adamw, 0, i % 4, 1000 + i * 20));
  for (int i = 0; i < 50; ++i) {  // another lane, drained later
    lanes.push_back(event_of(Kind::grad_ready, 1, 2, 1010 + i * 20));
    lanes.back().param = i % 2;
  }
  index.push(lanes);
  index.absorb_all();
  EventList list;
  list.show(index, info);
  CHECK(list.update());
  REQUIRE(list.size() == 100);
  for (std::int64_t i = 1; i < 100; ++i)
    CHECK(index.event(list.row(i - 1)).end_ns <= index.event(list.row(i)).end_ns);
  CHECK(list.row_at(999) == -1);
  CHECK(list.row_at(1010) == 1);
  CHECK(list.row_at(1'000'000) == 99);

  ListFilter filter;
  filter.fields.bucket = 2;
  list.set_filter(filter);
  CHECK(list.update());
  CHECK(list.size() == 50 + 12);
  filter.text = "LN.bias  ready";
  list.set_filter(filter);
  CHECK(list.update());
  CHECK(list.size() == 25);
  filter.text = "nothing like it";
  list.set_filter(filter);
  CHECK(list.update());
  CHECK(list.size() == 0);
  list.set_filter({});

  // What arrives later is listed, also where it belongs before what is there.
  CHECK(list.update());
  index.push(std::vector{event_of(Kind::clip, 2, -1, 1995), event_of(Kind::clip, 2, -1, 5'000'000'000),
                         event_of(Kind::clip, 2, -1, 5'000'000'001)});
  index.absorb_all();
  CHECK(list.update());
  REQUIRE(list.size() == 103);
  CHECK(index.event(list.row(100)).end_ns <= 1995);
  index.push(std::vector{event_of(Kind::clip, 1, -1, 4'999'999'999)});
  index.absorb_all();
  CHECK(list.update());
  REQUIRE(list.size() == 104);
  CHECK(index.event(list.row(101)).end_ns == 4'999'999'999);
}

TEST_CASE("a list of many events takes its time in pieces, and loses none") {
  EventIndex index(1);
  std::vector<trace::Event> events;
  for (int i = 0; i < 200'000; ++i) events.push_back(event_of(Kind::adamw, 0, i % 7, i / 3));
  index.push(events);
  index.absorb_all();
  EventList list;
  list.show(index, names());
  int pieces = 1;
  while (!list.update(0.01)) ++pieces;
  CHECK(pieces > 1);
  REQUIRE(list.size() == 200'000);
  for (std::int64_t i = 0; i < list.size(); i += 997) CHECK(index.event(list.row(i)).end_ns == i / 3);
}
