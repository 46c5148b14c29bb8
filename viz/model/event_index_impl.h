// The inside of EventIndex, shared by its source files.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/random.h"
#include "viz/model/event_index.h"
#include "viz/model/event_lanes.h"
#include "viz/model/event_loader.h"
#include "viz/model/event_store.h"

namespace zero1::viz {

/// Kinds whose events are also listed by rank and bucket.
inline bool has_postings(trace::Kind kind) {
  return (kind >= trace::Kind::grad_ready && kind <= trace::Kind::bucket_state) ||
         (kind >= trace::Kind::collective_issue && kind <= trace::Kind::collective_wait);
}

struct EventIndex::Impl {
  struct PostingKey {
    trace::Kind kind;
    int rank, bucket;
    friend bool operator==(const PostingKey&, const PostingKey&) = default;
  };
  struct PostingHash {
    std::size_t operator()(const PostingKey& key) const {
      return mix64((static_cast<std::uint64_t>(key.kind) << 56) ^
                   (static_cast<std::uint64_t>(key.rank) << 32) ^ static_cast<std::uint32_t>(key.bucket));
    }
  };

  int ranks = 1;

  std::mutex mutex;  ///< guards what is pushed
  std::vector<trace::Event> pushed;
  std::int64_t pushed_dropped = 0;
  std::unique_ptr<EventLoader> loader;  ///< until the recording is whole

  EventStore store;
  std::int64_t dropped = 0;
  std::int64_t beyond = 0;                        ///< events that had no number left
  static constexpr EventId last_id = UINT32_MAX;  ///< lists hold 32 bits per event
  std::uint64_t revision = 0;
  std::string error;
  trace::Interval range;
  std::vector<Step> steps;
  std::unordered_map<int, std::size_t> step_places;

  std::map<std::pair<int, int>, std::unique_ptr<EventLane>> lanes;
  std::vector<const EventLane*> ordered_lanes;
  EventLane* last_lane = nullptr;
  bool lanes_changed = false;
  std::unordered_map<PostingKey, TimeList, PostingHash> postings;

  /// Takes blocks from the loader; returns whether anything changed.
  bool load(double budget_ms);
  /// Enters the event, which is in the store.
  void add(EventId id);
  void add_step(std::int32_t step, const Summary& event);
  EventLane& lane(int rank, trace::StreamId stream);

  /// Lists that together hold every event that matches, sorted; each holds an event once.
  std::vector<const TimeList*> lists(const EventFilter& filter) const;

  /// A place in time: by end, then number.
  struct Key {
    std::int64_t end_ns = 0;
    EventId id = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  Key key(EventId id) const { return {store.end_ns(id), id}; }
  /// The greatest key below, and the least above, of what passes; `Check` is a filter or a test, made ready
  /// for walking over events (event_queries.cpp).
  template <class Check>
  std::optional<Key> last_below(Key limit, const EventFilter& filter, Check check) const;
  template <class Check>
  std::optional<Key> first_above(Key limit, const EventFilter& filter, Check check) const;
};

}  // namespace zero1::viz
