// The events of one rank and stream in the rows in which they are drawn, each with a pyramid of summaries.
//
// A row's level follows from the kind alone, so that no event moves when the one around it ends: steps above
// microbatches above layers and phases above waits; instants lie below in thin rows. Events of one level that
// overlap in time (two collectives at once) go to further rows of that level.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/intervals.h"
#include "viz/model/event_store.h"
#include "viz/model/segments.h"

namespace zero1::viz {

/// Which level events of this kind lie in, 0 at the top.
int level_of(trace::Kind kind);
/// Levels of instants, which need no room for text.
bool is_thin(int level);
inline constexpr int level_count = 10;

/// Some events of one row, merged.
struct Summary {
  std::int64_t begin_ns = 0;  ///< least
  std::int64_t end_ns = 0;    ///< greatest
  std::uint64_t weight = 0;   ///< by how much the look below outweighs the others; see merge
  std::int32_t bucket = -1;
  trace::Kind kind = trace::Kind::none;
  std::uint8_t detail = 0;
  bool exposed = false;   ///< one of them is exposed communication
  bool modelled = false;  ///< one of them includes a modelled link

  bool looks_like(const Summary& other) const {
    return kind == other.kind && bucket == other.bucket && detail == other.detail;
  }
  /// Keeps the look (kind, detail, bucket) that takes more than half of the time, if one does: the vote of
  /// Boyer and Moore, weighted with durations.
  void merge(const Summary& other);
};

/// A list of events in the order in which they arrived, which is that of time but in strange files.
class TimeList {
 public:
  void append(EventId id, std::int64_t end_ns) {
    sorted_ = sorted_ && (ids_.size() == 0 || end_ns >= last_end_ns_);
    last_end_ns_ = end_ns;
    ids_.push_back(static_cast<std::uint32_t>(id));
  }
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  /// In order of arrival.
  EventId arrived(std::int64_t index) const { return ids_[static_cast<std::size_t>(index)]; }

  /// Brings the order by (end, number) up to date; before `at` and `after`, whenever something was appended.
  void sort(const EventStore& store) const;
  /// By (end, number).
  EventId at(std::int64_t index) const {
    return sorted_ ? arrived(index) : EventId{by_end_[static_cast<std::size_t>(index)]};
  }
  /// The first index whose (end, number) is greater.
  std::int64_t after(const EventStore& store, std::int64_t end_ns, EventId id) const;
  bool contains(const EventStore& store, EventId id) const;

 private:
  Segments<std::uint32_t, 6> ids_;
  mutable std::vector<std::uint32_t> by_end_;  ///< only where arrivals are not sorted
  std::int64_t last_end_ns_ = 0;
  bool sorted_ = true;
};

/// One row. Events do not overlap but in the last row of a level, which takes what no other can.
class EventRow {
 public:
  EventRow(int level, int sub) : level_(level), sub_(sub) {}

  int level() const { return level_; }
  int sub() const { return sub_; }
  bool disjoint() const { return disjoint_; }
  const TimeList& events() const { return events_; }

  /// May an event that begins then lie here without overlapping?
  bool fits(std::int64_t begin_ns) const { return events_.size() == 0 || begin_ns >= last_end_ns_; }
  void append(EventId id, const Summary& event);

  /// Calls `emit(const Summary&, first, count)` for what intersects `window`, in order of arrival: events
  /// one by one (count 1) where they are at least `resolution_ns` long, else as much as can be merged into a
  /// summary shorter than that. `first` is an index into events(). Where events are in disorder, summaries
  /// may be longer once `most` have been emitted.
  template <class Emit>
  void visit(const EventStore& store, trace::Interval window, std::int64_t resolution_ns, std::int64_t most,
             Emit&& emit) const;

  /// The summary of one event.
  static Summary summary(const EventStore& store, EventId id);

 private:
  static constexpr int log2_fan = 3;
  static constexpr std::int64_t fan = 1 << log2_fan;
  using Level = Segments<Summary, 4>;

  template <class Emit>
  struct Visit;

  TimeList events_;
  std::vector<Level> pyramid_;  ///< level k: one summary per fan^(k+1) events, whole groups only
  Summary open_;                ///< of the events behind the last whole group of level 0
  std::int64_t last_end_ns_ = 0;
  int level_;
  int sub_;
  bool disjoint_ = true;
};

/// All rows of one rank and stream.
class EventLane {
 public:
  EventLane(int rank, trace::StreamId stream) : rank_(rank), stream_(stream) {}

  int rank() const { return rank_; }
  trace::StreamId stream() const { return stream_; }
  /// From top to bottom: by level, then sub-row.
  std::span<const EventRow* const> rows() const { return ordered_; }

  /// `event` is the summary of event `id`, which comes after all that were added before.
  void append(EventId id, const Summary& event);

 private:
  static constexpr std::size_t most_sub_rows = 8;

  int rank_;
  trace::StreamId stream_;
  std::vector<std::unique_ptr<EventRow>> levels_[level_count];
  std::vector<const EventRow*> ordered_;
};

// ---- EventRow::visit ----

template <class Emit>
struct EventRow::Visit {
  const EventRow& row;
  const EventStore& store;
  trace::Interval window;
  std::uint64_t resolution_ns;
  std::int64_t left;
  Emit& emit;

  bool outside(const Summary& s) const { return s.end_ns < window.start_ns || s.begin_ns > window.end_ns; }
  bool small(const Summary& s) const {
    return static_cast<std::uint64_t>(s.end_ns) - static_cast<std::uint64_t>(s.begin_ns) < resolution_ns;
  }

  void event(std::int64_t index) {
    const Summary s = summary(store, row.events_.arrived(index));
    if (outside(s)) return;
    --left;
    emit(s, index, std::int64_t{1});
  }

  /// The summary `index` of pyramid level `level`.
  void node(std::size_t level, std::int64_t index) {
    const Summary& s = row.pyramid_[level][static_cast<std::size_t>(index)];
    if (outside(s)) return;
    const int shift = log2_fan * static_cast<int>(level + 1);
    if (small(s) || (left <= 0 && !row.disjoint_)) {
      --left;
      emit(s, index << shift, std::int64_t{1} << shift);
      return;
    }
    for (std::int64_t child = index * fan; child < (index + 1) * fan; ++child) {
      if (level == 0)
        event(child);
      else
        node(level - 1, child);
    }
  }
};

template <class Emit>
void EventRow::visit(const EventStore& store, trace::Interval window, std::int64_t resolution_ns,
                     std::int64_t most, Emit&& emit) const {
  Visit<Emit> visit{*this, store, window, static_cast<std::uint64_t>(resolution_ns), most, emit};
  std::int64_t covered = 0;  // in events, from the left
  for (std::size_t level = pyramid_.size(); level-- > 0;) {
    const int shift = log2_fan * static_cast<int>(level + 1);
    const auto count = static_cast<std::int64_t>(pyramid_[level].size());
    for (std::int64_t index = covered >> shift; index < count; ++index) visit.node(level, index);
    covered = count << shift;
  }
  for (; covered < events_.size(); ++covered) visit.event(covered);
}

}  // namespace zero1::viz
