// All events of a run or a recording, ready to be looked up and drawn.
//
// Events keep the numbers (EventId) that they get in the order of their arrival. The time of an event in
// every question of order is its end_ns, the moment when it was recorded; events of one moment follow their
// numbers. An event that a damaged file or a foreign program made up may hold any value: nothing here
// breaks on it, it only lies where its values put it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/intervals.h"
#include "core/trace/reader.h"
#include "viz/model/selection.h"

namespace zero1::viz {

class EventLane;   // viz/model/event_lanes.h
class EventStore;  // viz/model/event_store.h

/// How long an event took; what 64 bits do not hold is their greatest value.
constexpr std::int64_t duration_ns(const trace::Event& event) {
  const std::uint64_t length =
      static_cast<std::uint64_t>(event.end_ns) - static_cast<std::uint64_t>(event.begin_ns);
  return length > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(length);
}

/// Which events are meant; unset: any.
struct EventFilter {
  std::optional<trace::Kind> kind = std::nullopt;
  std::optional<int> rank = std::nullopt;
  std::optional<int> bucket = std::nullopt;
  std::optional<int> param = std::nullopt;
  std::optional<int> layer = std::nullopt;
  std::optional<int> step = std::nullopt;
  std::optional<trace::StreamId> stream = std::nullopt;
  std::optional<std::uint8_t> detail = std::nullopt;

  bool matches(const trace::Event& event) const;
};

/// Belongs to the thread that draws, except for push and set_dropped, which any thread may call. Holds
/// 2^32 events; what is beyond counts as dropped.
class EventIndex {
 public:
  /// Empty, to be pushed into.
  explicit EventIndex(int ranks);
  EventIndex(const EventIndex&) = delete;
  EventIndex& operator=(const EventIndex&) = delete;
  ~EventIndex();

  /// Reads a recording on a thread of its own; `absorb` makes visible what it has read.
  static std::shared_ptr<EventIndex> open(trace::Reader reader);

  // ---- filling ----

  /// Appends. Batches are taken over in the order of these calls. Any thread; copies under a lock.
  void push(std::span<const trace::Event> events);
  /// How many events the recorder has lost so far. Any thread.
  void set_dropped(std::int64_t count);

  /// Takes over what has come since the last call; once per frame. While a recording loads it takes no longer
  /// than about `budget_ms`; 0: all that is there. Returns whether anything changed.
  bool absorb(double budget_ms = 8);
  /// absorb() until a recording is whole, or has failed.
  void absorb_all();

  bool loading() const;              ///< a recording is not whole yet
  double progress() const;           ///< of loading, 0 … 1; 1 where nothing loads
  const std::string& error() const;  ///< why loading ended early; empty: it did not
  std::uint64_t revision() const;    ///< grows whenever absorb() changed something

  // ---- events ----

  int ranks() const;
  std::int64_t size() const;
  std::int64_t dropped() const;
  /// The whole record, 0 ≤ id < size().
  trace::Event event(EventId id) const;
  /// Least begin and greatest end; {0, 0} without events.
  trace::Interval range() const;

  // ---- order in time ----

  /// The last event that was recorded at or before a time.
  std::optional<EventId> last_at(std::int64_t at_ns, const EventFilter& filter = {}) const;
  /// The first event that was recorded after a time.
  std::optional<EventId> first_after(std::int64_t at_ns, const EventFilter& filter = {}) const;
  /// The neighbours in time of an event, which itself need not match.
  std::optional<EventId> next(EventId id, const EventFilter& filter = {}) const;
  std::optional<EventId> previous(EventId id, const EventFilter& filter = {}) const;
  /// The same for any test. Walks over all events in between, some 20 ns each and the test.
  using Test = std::function<bool(EventId)>;
  std::optional<EventId> next_where(EventId id, const Test& test) const;
  std::optional<EventId> previous_where(EventId id, const Test& test) const;

  /// Calls `visit` for the events recorded in (after_ns, up_to_ns], in order of time, until it returns false.
  /// Asked for a kind in {grad_ready, bucket_state, collective_*}, a rank and a bucket, this and the
  /// functions above cost microseconds in a recording of any size; other filters may walk over it.
  void visit(std::int64_t after_ns, std::int64_t up_to_ns, const EventFilter& filter,
             const std::function<bool(EventId, const trace::Event&)>& visit) const;

  // ---- steps and lanes ----

  struct Step {
    std::int32_t step = -1;
    trace::Interval when;  ///< of all ranks together; of what has ended so far
    std::int32_t ranks = 0;
  };
  /// In order of their first end.
  std::span<const Step> steps() const;
  /// The step whose number this is, or null.
  const Step* find_step(int step) const;

  /// Those that have events, by rank and stream.
  std::span<const EventLane* const> lanes() const;
  const EventStore& store() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::viz
