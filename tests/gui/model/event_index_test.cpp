// The index of events against a plain list of them.
#include "viz/model/event_index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "core/base/random.h"
#include "tests/gui/timeline_random_trace.h"
#include "tests/unit/trace_sample_run.h"
#include "viz/model/event_lanes.h"

namespace zero1::viz {

using trace::Event;
using trace::Kind;

namespace {

bool same(const Event& a, const Event& b) {
  return std::memcmp(&a, &b, sizeof(Event)) == 0;
}

/// The questions answered by looking at every event.
struct Plain {
  std::vector<Event> events;

  std::vector<EventId> ordered(const EventFilter& filter) const {
    std::vector<EventId> ids;
    for (EventId id = 0; id < static_cast<EventId>(events.size()); ++id) {
      if (filter.matches(events[static_cast<std::size_t>(id)])) ids.push_back(id);
    }
    std::stable_sort(ids.begin(), ids.end(), [&](EventId a, EventId b) { return end(a) < end(b); });
    return ids;
  }
  std::int64_t end(EventId id) const { return events[static_cast<std::size_t>(id)].end_ns; }
  std::optional<EventId> last_at(std::int64_t at, const EventFilter& filter) const {
    std::optional<EventId> found;
    for (const EventId id : ordered(filter)) {
      if (end(id) <= at) found = id;
    }
    return found;
  }
  std::optional<EventId> first_after(std::int64_t at, const EventFilter& filter) const {
    for (const EventId id : ordered(filter)) {
      if (end(id) > at) return id;
    }
    return {};
  }
  std::optional<EventId> next(EventId from, const EventFilter& filter) const {
    for (const EventId id : ordered(filter)) {
      if (std::pair(end(id), id) > std::pair(end(from), from)) return id;
    }
    return {};
  }
  std::optional<EventId> previous(EventId from, const EventFilter& filter) const {
    std::optional<EventId> found;
    for (const EventId id : ordered(filter)) {
      if (std::pair(end(id), id) < std::pair(end(from), from)) found = id;
    }
    return found;
  }
};

void check_questions(const EventIndex& index, const Plain& plain, RandomStream& random) {
  const std::vector<EventFilter> filters{
      {},
      {.rank = 1},
      {.kind = Kind::grad_ready},
      {.kind = Kind::bucket_state, .rank = 0, .bucket = 1},
      {.kind = Kind::grad_ready, .rank = 1, .bucket = 0, .param = 2},
      {.kind = Kind::collective_wait, .rank = 1, .bucket = 7},
      {.rank = 1, .layer = 2},
      {.bucket = 1, .step = 3},
      {.stream = trace::StreamId::communication},
      {.kind = Kind::checkpoint_load},
      {.detail = std::uint8_t{3}},
  };
  const trace::Interval range = index.range();
  for (const EventFilter& filter : filters) {
    for (int i = 0; i < 12; ++i) {
      const auto id = static_cast<EventId>(random.below(index.size()));
      // Wrapping, since ranges of hostile times have no length that fits.
      const std::uint64_t length =
          static_cast<std::uint64_t>(range.end_ns) - static_cast<std::uint64_t>(range.start_ns);
      const std::uint64_t offset = length == UINT64_MAX ? random.next() : random.next() % (length + 1);
      const auto at = static_cast<std::int64_t>(static_cast<std::uint64_t>(range.start_ns) + offset);
      CHECK(index.last_at(at, filter) == plain.last_at(at, filter));
      CHECK(index.first_after(at, filter) == plain.first_after(at, filter));
      CHECK(index.last_at(plain.end(id), filter) == plain.last_at(plain.end(id), filter));
      CHECK(index.next(id, filter) == plain.next(id, filter));
      CHECK(index.previous(id, filter) == plain.previous(id, filter));
    }
    std::vector<EventId> visited;
    const std::int64_t middle = plain.end(static_cast<EventId>(random.below(index.size())));
    index.visit(middle, range.end_ns, filter, [&](EventId id, const Event& event) {
      CHECK(same(event, plain.events[static_cast<std::size_t>(id)]));
      visited.push_back(id);
      return true;
    });
    std::vector<EventId> expected;
    for (const EventId id : plain.ordered(filter)) {
      if (plain.end(id) > middle) expected.push_back(id);
    }
    CHECK(visited == expected);
  }
}

}  // namespace

TEST_CASE("every event comes back whole, whatever its values") {
  RandomStream random(1);
  std::vector<Event> events = test::random_trace(2, 40, 1);
  for (int i = 0; i < 3000; ++i) {  // any bits at all
    Event event;
    std::uint64_t words[8];
    for (std::uint64_t& word : words) word = i % 3 == 0 ? random.next() : random.next() >> random.below(64);
    std::memcpy(&event, words, sizeof event);
    event.reserved = 0;
    events.push_back(event);
  }
  EventIndex index(2);
  for (std::size_t at = 0; at < events.size();) {
    const std::size_t count =
        std::min<std::size_t>(events.size() - at, 1 + static_cast<std::size_t>(random.below(700)));
    index.push(std::span(events).subspan(at, count));
    index.absorb();
    at += count;
  }
  REQUIRE(index.size() == static_cast<std::int64_t>(events.size()));
  for (std::size_t i = 0; i < events.size(); ++i)
    REQUIRE(same(index.event(static_cast<EventId>(i)), events[i]));
}

TEST_CASE("questions of order are answered as by looking at every event") {
  RandomStream random(2);
  SUBCASE("a run's events, as they arrive") {
    Plain plain{test::random_trace(3, 12, 7)};
    EventIndex index(3);
    index.push(plain.events);
    index.absorb();
    check_questions(index, plain, random);
  }
  SUBCASE("events in no order at all, overlapping") {
    Plain plain{test::random_trace(2, 6, 8)};
    for (std::size_t i = plain.events.size() - 1; i > 0; --i)
      std::swap(plain.events[i],
                plain.events[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
    for (std::size_t i = 0; i < plain.events.size(); i += 17) plain.events[i].begin_ns -= 1'000'000;
    EventIndex index(2);
    index.push(std::span(plain.events).first(plain.events.size() / 2));
    index.absorb();
    index.last_at(0);
    index.push(std::span(plain.events).subspan(plain.events.size() / 2));
    index.absorb();
    check_questions(index, plain, random);
  }
  SUBCASE("the extremes of time") {
    Plain plain{test::random_trace(2, 4, 9)};
    plain.events[3].begin_ns = INT64_MIN;
    plain.events[5].end_ns = INT64_MAX;
    plain.events[9].begin_ns = plain.events[9].end_ns = INT64_MAX;
    plain.events[11].begin_ns = plain.events[11].end_ns = INT64_MIN;
    EventIndex index(2);
    index.push(plain.events);
    index.absorb();
    check_questions(index, plain, random);
  }
}

TEST_CASE("events lie in rows by kind, and overlap in none") {
  const std::vector<Event> events = test::random_trace(2, 10, 3);
  EventIndex index(2);
  index.push(events);
  index.absorb();
  std::int64_t count = 0;
  REQUIRE(index.lanes().size() == 6);
  for (const EventLane* lane : index.lanes()) {
    int last_level = -1;
    for (const EventRow* row : lane->rows()) {
      CHECK(row->level() >= last_level);
      last_level = row->level();
      CHECK(row->disjoint());
      std::int64_t last_end = INT64_MIN;
      for (std::int64_t i = 0; i < row->events().size(); ++i) {
        const Event event = index.event(row->events().arrived(i));
        CHECK(event.rank == lane->rank());
        CHECK(event.stream == lane->stream());
        CHECK(level_of(event.kind) == row->level());
        CHECK(event.begin_ns >= last_end);
        last_end = event.end_ns;
      }
      count += row->events().size();
    }
  }
  CHECK(count == index.size());
}

TEST_CASE("steps are the hull of all ranks' spans") {
  const trace::test::SampleRun run(3, 4);
  EventIndex index(3);
  index.push(run.events());
  CHECK(index.size() == 0);
  CHECK(index.absorb());
  CHECK_FALSE(index.absorb());
  REQUIRE(index.steps().size() == 4);
  CHECK(index.steps()[2].step == 2);
  CHECK(index.steps()[2].ranks == 3);
  CHECK(index.steps()[2].when == trace::Interval{20'002, 20'002 + 8000 + 14});
  REQUIRE(index.find_step(3) != nullptr);
  CHECK(index.find_step(3)->when.start_ns == 30'003);
  CHECK(index.find_step(4) == nullptr);
}

TEST_CASE("a recording is read in the background, whole and in order") {
  const test::RandomTraceFile file(3, 300);
  auto index = EventIndex::open(trace::Reader(file.path()));
  index->absorb_all();
  CHECK_FALSE(index->loading());
  CHECK(index->progress() == 1);
  CHECK(index->error().empty());
  REQUIRE(index->size() == static_cast<std::int64_t>(file.events().size()));
  REQUIRE(index->size() > 3 * EventBlock::capacity);
  for (std::size_t i = 0; i < file.events().size(); ++i)
    REQUIRE(same(index->event(static_cast<EventId>(i)), file.events()[i]));
}

TEST_CASE("a recording that is damaged inside gives what lies before, and says why it ends") {
  const test::RandomTraceFile file(2, 300);
  std::string bytes = read_file(file.path());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  const test::TemporaryTrace damaged(bytes);
  auto index = EventIndex::open(trace::Reader(damaged.path()));
  index->absorb_all();
  CHECK_FALSE(index->loading());
  CHECK(index->error().find("damaged") != std::string::npos);
  CHECK(index->size() > 0);
  CHECK(index->size() < static_cast<std::int64_t>(file.events().size()));
}

TEST_CASE("an index that goes while it loads, and one that is pushed into by several threads") {
  const test::RandomTraceFile file(3, 300);
  EventIndex::open(trace::Reader(file.path()))->absorb(1);

  EventIndex index(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&index, rank] {
      for (int i = 0; i < 500; ++i) {
        const Event event = trace::test::make_event(Kind::forward, 10 * i, 10 * i + 9, rank);
        index.push({&event, 1});
        index.set_dropped(i);
      }
    });
  }
  while (index.size() < 2000) index.absorb();
  for (std::thread& thread : threads) thread.join();
  index.absorb();
  CHECK(index.dropped() == 499);
  for (const EventLane* lane : index.lanes()) {
    REQUIRE(lane->rows().size() == 1);
    CHECK(lane->rows()[0]->events().size() == 500);
    CHECK(lane->rows()[0]->disjoint());
  }
}

}  // namespace zero1::viz
