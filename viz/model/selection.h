// What is selected, in every panel at once, and the moment that is looked at.
#pragma once

#include <cstdint>
#include <optional>

namespace zero1::viz {

/// The number of an event in an EventIndex; stays the same while events are appended.
using EventId = std::int64_t;

/// Whatever the user has clicked, searched or stepped to. Unset fields: nothing of that kind. Panels write
/// it through `set`, read it every frame and compare `revision` where they scroll or zoom to what is new.
struct Selection {
  std::optional<int> rank;
  std::optional<int> bucket;            ///< global bucket number
  std::optional<int> param;             ///< index into the model's parameters, in model order
  std::optional<std::int64_t> element;  ///< flat index within `param`
  std::optional<int> step;
  std::optional<EventId> event;
  std::uint64_t revision = 0;  ///< grows with every `set`

  void set(Selection next) {
    next.revision = revision + 1;
    *this = next;
  }
  void clear() { set({}); }
};

/// The moment whose state is shown: "now" while it follows, else a time that the user has gone back to.
/// The run does not go back with it.
struct Moment {
  bool follow = true;
  std::int64_t at_ns = 0;  ///< on the run's clock; the newest event's end while following
};

}  // namespace zero1::viz
