// Finds events by words: what happened, parameter, bucket, layer, step, rank.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/recorder.h"
#include "viz/model/event_index.h"

namespace zero1::viz {

/// A query is some words; an event is found when every word fits something of it. Letter case is ignored. A
/// word fits a part of the name of what happened ("reduce", "adamw", "wait"), of the parameter or of the
/// layer, and "b3" or "bucket3" fits that bucket, "s7" or "step7" that step, "r1" or "rank1" that rank. A
/// number behind "bucket", "step" or "rank" may stand apart: "bucket 3".
class EventSearch {
 public:
  EventSearch(std::string_view query, const trace::RunInfo& info);

  bool empty() const { return words_.empty(); }
  bool matches(const EventIndex& events, EventId id) const;

  /// The next and the previous that match, in order of time, from `from` (-1: the first and the last). Past
  /// the end the search goes on at the other one.
  std::optional<EventId> next(const EventIndex& events, EventId from) const;
  std::optional<EventId> previous(const EventIndex& events, EventId from) const;

 private:
  struct Word {
    std::array<bool, 256> kinds{};          ///< whatever the detail
    std::set<std::pair<int, int>> details;  ///< (kind, detail)
    std::vector<bool> params, layers;       ///< by index
    std::optional<int> bucket, step, rank;
  };

  std::vector<Word> words_;
};

}  // namespace zero1::viz
