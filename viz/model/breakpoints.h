// The places that a user wants a run to stop at: a list that can be edited, and its words.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/trace/gate.h"
#include "viz/model/selection.h"

namespace zero1::viz {

struct BreakpointEntry {
  trace::Breakpoint where;
  bool enabled = true;
};

/// In the order in which they were added. Belongs to the drawing thread.
class Breakpoints {
 public:
  /// Adds at the end, enabled. One that is there already is enabled instead. The position it has.
  std::size_t add(const trace::Breakpoint& where);
  void remove(std::size_t index);
  void enable(std::size_t index, bool enabled);
  void clear() { entries_.clear(); }

  std::span<const BreakpointEntry> entries() const { return entries_; }
  /// What the gate is told.
  std::vector<trace::Breakpoint> enabled() const;

 private:
  std::vector<BreakpointEntry> entries_;
};

/// "Break here": in front of events like `event`, in every step: its kind, and of rank, bucket, parameter and
/// layer those that it has.
trace::Breakpoint breakpoint_at(const trace::Event& event);

/// From what is selected without an event: a parameter (its gradient is ready), else a bucket (it is ready to
/// be reduced); on the selected rank and in the selected step where there are such. Nothing where neither is.
std::optional<trace::Breakpoint> breakpoint_at(const Selection& selection);

}  // namespace zero1::viz
