#include "viz/model/first_iteration.h"

#include <algorithm>
#include <vector>

namespace zero1::viz {

namespace {

constexpr std::size_t most_compared = 16;
constexpr double longer_by = 1.5;
constexpr double seen_share = 0.005;  // of the first iteration's length

double length_ns(const trace::Interval& when) {
  return static_cast<double>(when.end_ns) - static_cast<double>(when.start_ns);
}

}  // namespace

bool first_prepares(const EventIndex& events) {
  const auto steps = events.steps();
  if (steps.size() < 2) return false;
  std::vector<double> others;
  for (const EventIndex::Step& step : steps.subspan(1, std::min(most_compared, steps.size() - 1)))
    others.push_back(length_ns(step.when));
  const auto median = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), median, others.end());
  return length_ns(steps[0].when) >= longer_by * *median;
}

trace::Interval worth_showing(const EventIndex& events, bool goes_on) {
  trace::Interval range = events.range();
  const auto steps = events.steps();
  if (goes_on && !steps.empty()) {
    const trace::Interval behind{steps[0].when.end_ns, range.end_ns};
    if (length_ns(behind) >= seen_share * length_ns(steps[0].when)) return behind;
  } else if (first_prepares(events)) {
    range.start_ns = steps[1].when.start_ns;
  }
  return range;
}

}  // namespace zero1::viz
