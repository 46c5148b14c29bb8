#include "core/trace/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"

namespace zero1::trace {
namespace {

/// A whole number of 0 or more that 31 bits hold, and nothing else.
std::optional<std::int32_t> parse_number(std::string_view text) {
  std::int32_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// The steps that occur on the selected ranks.
std::string steps_of(const Reader& reader, const Selection& selection) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = -1;
  reader.for_each_chunk([&](std::span<const Event> events) {
    for (const Event& event : events) {
      if (event.step < 0 || !selection.has_rank(event.rank)) continue;
      first = std::min<std::int64_t>(first, event.step);
      last = std::max<std::int64_t>(last, event.step);
    }
  });
  return last < 0 ? "there are no steps" : fmt::format("there are steps [{}, {})", first, last + 1);
}

}  // namespace

bool Selection::has_rank(int rank) const {
  return ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), rank);
}

bool Selection::has_step(std::int64_t step) const {
  if (all_steps()) return true;
  return step >= first_step.value_or(0) && (!end_step || step < *end_step);
}

void parse_steps(const std::string& text, Selection& selection) {
  const std::size_t colon = text.find(':');
  const std::string_view front = std::string_view(text).substr(0, colon);
  const std::string_view back =
      colon == std::string::npos ? std::string_view() : std::string_view(text).substr(colon + 1);
  selection.first_step = parse_number(front);
  selection.end_step = parse_number(back);
  bool good = (front.empty() || selection.first_step) && (back.empty() || selection.end_step);
  if (colon == std::string::npos && selection.first_step) selection.end_step = *selection.first_step + 1;
  good = good && !selection.all_steps() &&
         (!selection.end_step || selection.first_step.value_or(0) < *selection.end_step);
  if (good) return;
  throw InputError(fmt::format(
      "'{}': expected A:B, the steps from A up to B without B, or one step A; either end of A:B may "
      "be left out",
      printable(text)));
}

void parse_ranks(const std::string& text, Selection& selection) {
  constexpr std::int32_t most = std::numeric_limits<std::int16_t>::max();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = std::string_view(text).substr(at, end - at);
    const std::size_t dash = std::min(item.find('-'), item.size());
    const std::optional<std::int32_t> first = parse_number(item.substr(0, dash));
    const std::optional<std::int32_t> last =
        dash == item.size() ? first : parse_number(item.substr(dash + 1));
    if (!first || !last || *first > *last || *last > most) {
      throw InputError(
          fmt::format("'{}': expected ranks with commas between them, A-B for those from A to B, as in 0,2-3",
                      printable(text)));
    }
    for (std::int32_t rank = *first; rank <= *last; ++rank) selection.ranks.push_back(rank);
    at = end + 1;
  }
  std::sort(selection.ranks.begin(), selection.ranks.end());
  selection.ranks.erase(std::unique(selection.ranks.begin(), selection.ranks.end()), selection.ranks.end());
}

std::string describe(const Selection& selection) {
  std::string text;
  if (!selection.ranks.empty()) {
    text = fmt::format("{} {}", selection.ranks.size() == 1 ? "rank" : "ranks",
                       fmt::join(selection.ranks, ", "));
  }
  if (selection.all_steps()) return text;
  if (!text.empty()) text += ", ";
  const std::int64_t first = selection.first_step.value_or(0);
  return text + (selection.end_step ? fmt::format("steps [{}, {})", first, *selection.end_step)
                                    : fmt::format("steps from {} on", first));
}

std::vector<Event> read_selected(const Reader& reader, const Selection& selection) {
  const int ranks = reader.info().ranks;
  if (!selection.ranks.empty() && selection.ranks.back() >= ranks) {
    throw InputError(fmt::format("{}: has no rank {}: there are ranks [0, {})", reader.path(),
                                 selection.ranks.back(), ranks));
  }
  if (selection.ranks.empty() && selection.all_steps()) return reader.read_all();
  std::vector<Event> selected;
  reader.for_each_chunk([&](std::span<const Event> events) {
    std::copy_if(events.begin(), events.end(), std::back_inserter(selected), [&](const Event& event) {
      return selection.has_rank(event.rank) && selection.has_step(event.step);
    });
  });
  if (selected.empty()) {
    throw InputError(fmt::format("{}: has no event of {}: {}", reader.path(), describe(selection),
                                 steps_of(reader, selection)));
  }
  return selected;
}

}  // namespace zero1::trace
