// The events of an index in order of time, filtered: what a list shows.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/trace/recorder.h"
#include "viz/model/event_index.h"

namespace zero1::viz {

struct ListFilter {
  EventFilter fields;
  std::string text;  ///< words that all occur in what the event is called, in any case; empty: any

  friend bool operator==(const ListFilter& a, const ListFilter& b);
};

/// Four bytes per listed event. Rows are ordered by the time at which events were recorded.
class EventList {
 public:
  /// Both outlive the list, or until the next call.
  void show(const EventIndex& events, const trace::RunInfo& info);
  void set_filter(ListFilter filter);
  const ListFilter& filter() const { return filter_; }

  /// Takes over what is new, for about `budget_ms` but some thousand events at least; call it once per frame.
  /// Returns whether all is listed.
  bool update(double budget_ms = 3);

  std::int64_t size() const { return static_cast<std::int64_t>(settled_.size() + tail_.size()); }
  EventId row(std::int64_t index) const;
  /// The last row recorded at or before a time; -1: none.
  std::int64_t row_at(std::int64_t at_ns) const;

 private:
  bool matches(const trace::Event& event);
  void restart();

  const EventIndex* events_ = nullptr;
  const trace::RunInfo* info_ = nullptr;
  ListFilter filter_;
  std::vector<std::string> words_;
  std::unordered_map<std::uint64_t, bool> text_matches_;  ///< by what an event's words depend on
  // In pieces, so that no frame ever moves millions of rows.
  std::deque<std::uint32_t> settled_;  ///< recorded up to settled_ns_, which nothing comes before any more
  std::deque<std::uint32_t> tail_;
  std::int64_t settled_ns_ = INT64_MIN;
  // The pass over what is behind settled_ns_, which may take several frames.
  std::uint64_t revision_ = 0;
  std::int64_t scanned_ns_ = INT64_MIN;
  bool started_ = false;
  bool complete_ = false;
};

}  // namespace zero1::viz
