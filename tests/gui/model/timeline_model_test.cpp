// Search, arrows, figures of a range and the order of causes, each against looking at every event.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/trace/flows.h"
#include "core/trace/overlap.h"
#include "tests/gui/timeline_random_trace.h"
#include "viz/model/event_fields.h"
#include "viz/model/event_search.h"
#include "viz/model/event_words.h"
#include "viz/model/flow_arrows.h"
#include "viz/model/logical_order.h"
#include "viz/model/range_statistics.h"

namespace zero1::viz {

using trace::Collective;
using trace::Event;
using trace::Kind;
using trace::StreamId;

namespace {

struct Recorded {
  std::vector<Event> events;
  EventIndex index;
  trace::RunInfo info;

  Recorded(std::vector<Event> all, int ranks)
      : events(std::move(all)), index(ranks), info(test::random_trace_info(ranks)) {
    index.push(events);
    index.absorb();
  }
  const Event& at(EventId id) const { return events[static_cast<std::size_t>(id)]; }
};

std::vector<EventId> all_matches(const Recorded& recorded, const EventSearch& search) {
  std::vector<EventId> found;
  for (EventId id = 0; id < recorded.index.size(); ++id) {
    if (search.matches(recorded.index, id)) found.push_back(id);
  }
  std::stable_sort(found.begin(), found.end(),
                   [&](EventId a, EventId b) { return recorded.at(a).end_ns < recorded.at(b).end_ns; });
  return found;
}

}  // namespace

TEST_CASE("words find kinds, parameters, layers, buckets, steps and ranks") {
  Recorded recorded(test::random_trace(2, 4, 31), 2);
  const auto check = [&](const char* query, auto expected) {
    INFO(query);
    const EventSearch search(query, recorded.info);
    int found = 0;
    for (EventId id = 0; id < recorded.index.size(); ++id) {
      const bool matches = search.matches(recorded.index, id);
      CHECK(matches == expected(recorded.at(id)));
      found += matches ? 1 : 0;
    }
    CHECK(found > 0);
  };
  check("adamw", [](const Event& e) { return e.kind == Kind::adamw; });
  check("h.2.weight", [](const Event& e) { return e.param == 2; });
  check("Block 1", [](const Event& e) { return e.layer == 1; });
  check("bucket 2 rank 1", [](const Event& e) { return e.bucket == 2 && e.rank == 1; });
  check("b2 s3", [](const Event& e) { return e.bucket == 2 && e.step == 3; });
  check("reduce-scatter issued", [](const Event& e) {
    return e.kind == Kind::collective_issue &&
           e.detail == static_cast<std::uint8_t>(Collective::reduce_scatter);
  });
  check("wait all-gather", [](const Event& e) {
    return e.kind == Kind::collective_wait && e.detail == static_cast<std::uint8_t>(Collective::all_gather);
  });
  check("BACKWARD 2", [](const Event& e) { return e.kind == Kind::backward && e.layer == 2; });
  CHECK(EventSearch("   ", recorded.info).empty());
  const EventSearch nothing("no such thing", recorded.info);
  CHECK_FALSE(nothing.next(recorded.index, -1));
  CHECK_FALSE(nothing.previous(recorded.index, 3));
}

TEST_CASE("the search goes through all matches in order of time, and around") {
  Recorded recorded(test::random_trace(2, 4, 32), 2);
  const EventSearch search("forward 1", recorded.info);
  const std::vector<EventId> matches = all_matches(recorded, search);
  REQUIRE(matches.size() > 5);
  EventId at = -1;
  for (const EventId expected : matches) {
    at = search.next(recorded.index, at).value();
    CHECK(at == expected);
  }
  CHECK(search.next(recorded.index, at) == matches.front());
  at = matches.front();
  for (auto expected = matches.rbegin(); expected != matches.rend(); ++expected) {
    at = search.previous(recorded.index, at).value();
    CHECK(at == *expected);
  }
}

TEST_CASE("arrows are those of the trace") {
  Recorded recorded(test::random_trace(2, 4, 33), 2);
  std::vector<EventId> order(recorded.events.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<EventId>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](EventId a, EventId b) { return recorded.at(a).begin_ns < recorded.at(b).begin_ns; });
  std::vector<Event> sorted;
  for (const EventId id : order) sorted.push_back(recorded.at(id));
  std::map<std::uint32_t, std::vector<trace::FlowPoint>> chains;
  for (const trace::FlowPoint& point : trace::find_flows(sorted)) chains[point.id].push_back(point);
  std::multiset<std::pair<EventId, EventId>> expected;
  for (auto& [id, points] : chains) {
    std::stable_sort(points.begin(), points.end(),
                     [](const auto& a, const auto& b) { return a.phase < b.phase; });
    for (std::size_t i = 1; i < points.size(); ++i)
      expected.insert({order[static_cast<std::size_t>(points[i - 1].event)],
                       order[static_cast<std::size_t>(points[i].event)]});
  }
  const auto arrows = find_arrows(recorded.index, recorded.index.range(), {}, {});
  REQUIRE(arrows);
  std::multiset<std::pair<EventId, EventId>> found;
  for (const FlowArrow& arrow : *arrows) {
    found.insert({arrow.from, arrow.to});
    CHECK(arrow.from_ns >= recorded.at(arrow.from).begin_ns);
    CHECK(arrow.to_ns <= recorded.at(arrow.to).end_ns);
    if (arrow.readiness) CHECK(recorded.at(arrow.from).kind == Kind::grad_ready);
  }
  CHECK(found == expected);
  CHECK(found.size() > 50);

  const auto narrow = find_arrows(recorded.index, recorded.index.range(), 1, 2);
  REQUIRE(narrow);
  CHECK(narrow->size() > 5);
  for (const FlowArrow& arrow : *narrow) {
    CHECK(recorded.at(arrow.to).rank == 1);
    CHECK(recorded.at(arrow.to).bucket == 2);
  }
  CHECK_FALSE(find_arrows(recorded.index, recorded.index.range(), {}, {}, 10));
}

TEST_CASE("figures of a range") {
  Recorded recorded(test::random_trace(3, 8, 34), 3);
  const trace::Interval all = recorded.index.range();
  SUBCASE("of everything: those of the whole trace") {
    RangeStatistics statistics(recorded.index, {all.start_ns, all.end_ns + 1});
    CHECK(statistics.advance(0));
    const trace::OverlapReport report = trace::analyze_overlap(recorded.events, 3);
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(statistics.ranks().at(rank).comm_ns == report.ranks[static_cast<std::size_t>(rank)].comm_ns);
      CHECK(statistics.ranks().at(rank).exposed_ns ==
            report.ranks[static_cast<std::size_t>(rank)].exposed_ns);
      CHECK(statistics.ranks().at(rank).overlapped_ns ==
            report.ranks[static_cast<std::size_t>(rank)].overlapped_ns);
    }
  }
  SUBCASE("of parts") {
    RandomStream random(35);
    for (int i = 0; i < 20; ++i) {
      const std::int64_t start = random.below(all.end_ns), end = start + 1 + random.below(20'000);
      RangeStatistics statistics(recorded.index, {start, end});
      while (!statistics.advance(1e-6)) CHECK(statistics.progress() <= 1);
      std::map<RangeStatistics::What, RangeStatistics::KindFigures> expected;
      std::vector<Event> inside;
      for (Event event : recorded.events) {
        const bool instant = event.begin_ns == event.end_ns;
        if (event.begin_ns >= end || (instant ? event.end_ns < start : event.end_ns <= start)) continue;
        event.begin_ns = std::max(event.begin_ns, start);
        event.end_ns = std::min(event.end_ns, end);
        const bool collective = event.kind >= Kind::collective_issue && event.kind <= Kind::collective_wait;
        auto& figures = expected[{event.kind, collective ? event.detail : std::uint8_t{0}}];
        ++figures.count;
        figures.sum_ns += event.end_ns - event.begin_ns;
        inside.push_back(event);
      }
      REQUIRE(statistics.kinds().size() == expected.size());
      for (const auto& [what, figures] : expected) {
        CHECK(statistics.kinds().at(what).count == figures.count);
        CHECK(statistics.kinds().at(what).sum_ns == figures.sum_ns);
      }
      const trace::OverlapReport report = trace::analyze_overlap(inside, 3);
      for (const auto& [rank, figures] : statistics.ranks()) {
        CHECK(figures.exposed_ns == report.ranks[static_cast<std::size_t>(rank)].exposed_ns);
        CHECK(figures.overlapped_ns == report.ranks[static_cast<std::size_t>(rank)].overlapped_ns);
      }
    }
  }
}

TEST_CASE("the order of causes") {
  Recorded recorded(test::random_trace(3, 4, 36), 3);
  const LogicalOrder order = logical_order(recorded.index, recorded.index.range());
  REQUIRE(order.complete);
  REQUIRE(order.events->size() == recorded.index.size());
  constexpr std::int64_t unit = LogicalOrder::unit_ns;
  std::vector<Event> placed(recorded.events.size());
  for (EventId n = 0; n < order.events->size(); ++n) {
    const EventId id = order.originals[static_cast<std::size_t>(n)];
    CHECK(order.number_of(id) == n);
    const Event event = order.events->event(n);
    CHECK(event.kind == recorded.at(id).kind);
    CHECK(event.rank == recorded.at(id).rank);
    CHECK(event.begin_ns % unit == 0);
    CHECK(event.end_ns >= event.begin_ns + unit);
    placed[static_cast<std::size_t>(id)] = event;
  }
  const auto place = [&](EventId id) { return placed[static_cast<std::size_t>(id)]; };

  SUBCASE("what follows on a stream of a rank follows here, and leaves are one unit wide") {
    for (EventId a = 0; a < recorded.index.size(); ++a) {
      if (recorded.at(a).kind == Kind::adamw || recorded.at(a).kind == Kind::collective_run)
        CHECK(place(a).end_ns - place(a).begin_ns == unit);
      for (EventId b = 0; b < recorded.index.size(); ++b) {
        if (recorded.at(a).rank != recorded.at(b).rank || recorded.at(a).stream != recorded.at(b).stream)
          continue;
        if (recorded.at(a).end_ns > recorded.at(b).begin_ns || a == b) continue;
        // An instant at the very begin or end of a span may lie inside or outside.
        const bool instant = recorded.at(a).begin_ns == recorded.at(a).end_ns ||
                             recorded.at(b).begin_ns == recorded.at(b).end_ns;
        if (recorded.at(a).end_ns == recorded.at(b).begin_ns && instant) continue;
        CHECK(place(a).end_ns <= place(b).begin_ns);
      }
    }
  }
  SUBCASE("issue, run and wait come one after the other") {
    const auto arrows = find_arrows(recorded.index, recorded.index.range(), {}, {});
    int checked = 0;
    for (const FlowArrow& arrow : *arrows) {
      CHECK(place(arrow.from).end_ns <= place(arrow.to).end_ns - unit);
      ++checked;
    }
    CHECK(checked > 50);
  }
  SUBCASE("a collective runs on all ranks at once, and not before all can") {
    std::map<std::tuple<int, int, int>, std::map<int, int>> seen;
    std::map<std::tuple<int, int, int, int>, std::set<std::int64_t>> begins;
    for (EventId id = 0; id < recorded.index.size(); ++id) {
      const Event& event = recorded.at(id);
      if (event.kind != Kind::collective_run) continue;
      const int times = seen[{event.step, event.bucket, event.detail}][event.rank]++;
      begins[{event.step, event.bucket, event.detail, times}].insert(place(id).begin_ns);
    }
    CHECK(begins.size() == 4 * 6);
    for (const auto& [key, places] : begins) CHECK(places.size() == 1);
  }
  SUBCASE("a span reaches over what lies in it") {
    for (EventId outer = 0; outer < recorded.index.size(); ++outer) {
      if (recorded.at(outer).kind != Kind::microbatch) continue;
      for (EventId inner = 0; inner < recorded.index.size(); ++inner) {
        const Event &o = recorded.at(outer), &i = recorded.at(inner);
        if (i.rank != o.rank || i.stream != o.stream || i.begin_ns < o.begin_ns || i.end_ns > o.end_ns)
          continue;
        if (i.begin_ns == o.end_ns) continue;
        CHECK(place(outer).begin_ns <= place(inner).begin_ns);
        CHECK(place(outer).end_ns >= place(inner).end_ns);
      }
    }
  }
}

TEST_CASE("the order of causes ends where it becomes too much, and survives disorder") {
  Recorded recorded(test::random_trace(2, 6, 37), 2);
  const LogicalOrder part = logical_order(recorded.index, recorded.index.range(), 100);
  CHECK_FALSE(part.complete);
  CHECK(part.events->size() == 100);
  CHECK(part.when.end_ns < recorded.index.range().end_ns);

  RandomStream random(38);
  std::vector<Event> strange = test::random_trace(2, 4, 39);
  for (Event& event : strange) {
    event.begin_ns = random.below(1000);
    event.end_ns = event.begin_ns + random.below(300);
    event.rank = static_cast<std::int16_t>(random.below(3));
  }
  Recorded disorder(strange, 2);
  const LogicalOrder order = logical_order(disorder.index, disorder.index.range());
  CHECK(order.events->size() == disorder.index.size());
}

TEST_CASE("events in words and units") {
  const trace::RunInfo info = test::random_trace_info(2);
  Event event =
      trace::test::make_event(Kind::collective_run, 1'000'000, 3'000'000, 1, StreamId::communication);
  event.bucket = 2;
  event.bytes = 2 << 20;
  event.flags = trace::modelled_link;
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : event_fields(event, info)) fields[name] = value;
  CHECK(fields["duration"] == "2.00 ms");
  CHECK(fields["rank"] == "1");
  CHECK(fields["bucket"].starts_with("2 of buffer 0"));
  CHECK(fields["contributes"] == "2.00 MiB");
  CHECK(fields["rate"] == "1000.00 MiB/s");
  CHECK(fields["note"].find("modelled") != std::string::npos);
  CHECK(what_happened(Kind::collective_wait, 1) == "wait for all-gather");
  CHECK(what_happened(static_cast<Kind>(200), 0) == "kind 200");
  CHECK(time_label(1.25e6, 1e4) == "1.25 ms");
  CHECK(time_label(2e9, 1e9) == "2 s");
  CHECK(time_label(1500, 100) == "1.5 µs");
  event.begin_ns = INT64_MIN;
  event.end_ns = INT64_MAX;
  event.param = event.layer = -30'000;
  event.bytes = INT64_MAX;
  CHECK_FALSE(event_fields(event, info).empty());
}

}  // namespace zero1::viz
