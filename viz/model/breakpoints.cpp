#include "viz/model/breakpoints.h"

#include <algorithm>

namespace zero1::viz {

std::size_t Breakpoints::add(const trace::Breakpoint& where) {
  const auto same = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const BreakpointEntry& entry) { return entry.where == where; });
  if (same == entries_.end()) {
    entries_.push_back({where, true});
    return entries_.size() - 1;
  }
  same->enabled = true;
  return static_cast<std::size_t>(same - entries_.begin());
}

void Breakpoints::remove(std::size_t index) {
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Breakpoints::enable(std::size_t index, bool enabled) {
  entries_.at(index).enabled = enabled;
}

std::vector<trace::Breakpoint> Breakpoints::enabled() const {
  std::vector<trace::Breakpoint> result;
  for (const BreakpointEntry& entry : entries_) {
    if (entry.enabled) result.push_back(entry.where);
  }
  return result;
}

trace::Breakpoint breakpoint_at(const trace::Event& event) {
  using trace::Kind;
  trace::Breakpoint at;
  at.kind = event.kind;
  at.rank = event.rank;
  if (event.bucket >= 0) at.bucket = event.bucket;
  if (event.param >= 0) at.param = event.param;
  if (event.layer >= 0) at.layer = event.layer;
  switch (event.kind) {
    case Kind::bucket_state:
    case Kind::collective_issue:
    case Kind::collective_run:
    case Kind::collective_wait:
    case Kind::memory: at.detail = event.detail; break;
    default: break;
  }
  return at;
}

std::optional<trace::Breakpoint> breakpoint_at(const Selection& selection) {
  trace::Breakpoint at;
  if (selection.param) {
    at.kind = trace::Kind::grad_ready;
    at.param = selection.param;
  } else if (selection.bucket) {
    at.kind = trace::Kind::bucket_state;
    at.bucket = selection.bucket;
    at.detail = static_cast<int>(trace::BucketState::ready);
  } else {
    return std::nullopt;
  }
  at.rank = selection.rank;
  at.step = selection.step;
  return at;
}

}  // namespace zero1::viz
