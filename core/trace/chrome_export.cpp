// The document's frame, its tracks and its file. What one event looks like is in chrome_writer.cpp, which
// arrows there are in flows.cpp.
#include "core/trace/chrome_export.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/trace/chrome_writer.h"
#include "core/trace/flows.h"

namespace zero1::trace {

namespace {

constexpr std::int64_t progress_calls = 200;

/// Slices of one track must nest. Spans of one stream do; where some do not (several collectives at once),
/// they go to the first of the stream's tracks in which they nest.
class TrackAssigner {
 public:
  /// Events come in the order of their begins, the longer first where two begin together.
  int track(const Event& event) {
    std::vector<Stack>& tracks = streams_[key(event)];
    for (std::size_t i = 0;; ++i) {
      if (i == tracks.size()) tracks.emplace_back();
      Stack& open = tracks[i];
      while (!open.empty() && open.back() <= event.begin_ns) open.pop_back();
      if (!open.empty() && open.back() < event.end_ns) continue;
      open.push_back(event.end_ns);
      return static_cast<int>(i);
    }
  }

 private:
  using Stack = std::vector<std::int64_t>;  ///< ends of the slices that are open, the innermost last
  static std::pair<int, StreamId> key(const Event& event) { return {event.rank, event.stream}; }

  std::map<std::pair<int, StreamId>, std::vector<Stack>> streams_;
};

/// By begin, the outer before the inner.
void sort_for_nesting(std::vector<Event>& events) {
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  // Spans are recorded when they end: of those with the same times, the inner ones first.
  for (auto first = events.begin(); first != events.end();) {
    const auto last = std::find_if(first, events.end(), [first](const Event& event) {
      return event.begin_ns != first->begin_ns || event.end_ns != first->end_ns;
    });
    if (first->end_ns > first->begin_ns) std::reverse(first, last);
    first = last;
  }
}

/// What the file will take, by writing a part of it nowhere.
std::int64_t estimated_bytes(const Reader& reader, const Selection& selection, std::span<const Event> events,
                             std::span<const FlowPoint> points) {
  constexpr std::int64_t most_samples = 4096;
  const auto count = static_cast<std::int64_t>(events.size());
  const std::int64_t samples = std::min(count, most_samples);
  ChromeWriter writer(reader, selection);
  const std::int64_t frame_bytes = writer.bytes();
  // Drawn at random: events repeat with every step, so that a fixed stride may meet the same ones always.
  RandomStream random(1);
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t index = samples == count ? i : random.below(count);
    const Event& event = events[static_cast<std::size_t>(index)];
    writer.event(event, 0);
    const auto [first, last] =
        std::equal_range(points.begin(), points.end(), FlowPoint{.event = index},
                         [](const FlowPoint& a, const FlowPoint& b) { return a.event < b.event; });
    for (auto point = first; point != last; ++point) writer.flow(event, 0, *point);
  }
  const auto sampled_bytes = static_cast<double>(writer.bytes() - frame_bytes);
  const double all_bytes =
      samples == 0 ? 0 : sampled_bytes / static_cast<double>(samples) * static_cast<double>(count);
  return writer.finish() + static_cast<std::int64_t>(all_bytes - sampled_bytes);
}

}  // namespace

ExportResult export_chrome(const Reader& reader, const std::string& path, const ExportOptions& options) {
  std::vector<Event> events = read_selected(reader, options.selection);
  sort_for_nesting(events);
  const std::vector<FlowPoint> points = find_flows(events);
  const auto count = static_cast<std::int64_t>(events.size());
  ExportResult result;
  result.events = count;
  result.flows = std::count_if(points.begin(), points.end(),
                               [](const FlowPoint& p) { return p.phase == FlowPhase::start; });
  if (options.on_plan || options.dry_run) {
    result.bytes = estimated_bytes(reader, options.selection, events, points);
    if (options.on_plan) options.on_plan(result);
    if (options.dry_run) return result;
  }

  ChromeWriter writer(reader, options.selection, path);
  TrackAssigner tracks;
  auto point = points.begin();
  const std::int64_t stride = std::max<std::int64_t>(1, count / progress_calls);
  for (std::int64_t i = 0; i < count; ++i) {
    const Event& event = events[static_cast<std::size_t>(i)];
    const int track = is_slice(event) ? tracks.track(event) : 0;
    writer.event(event, track);
    // An arrow's point follows its slice, so that readers that take equal times in file order bind it there.
    for (; point != points.end() && point->event == i; ++point) writer.flow(event, track, *point);
    if (options.progress && i % stride == 0)
      options.progress(static_cast<double>(i) / static_cast<double>(count));
  }
  result.bytes = writer.finish();
  if (options.progress) options.progress(1.0);
  return result;
}

}  // namespace zero1::trace
