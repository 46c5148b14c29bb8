#include "viz/model/event_search.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "viz/model/event_store.h"
#include "viz/model/event_words.h"

namespace zero1::viz {

namespace {

using trace::Kind;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool contains(std::string_view text, const std::string& word) {
  return lower(text).find(word) != std::string::npos;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// The number behind one of the prefixes.
std::optional<int> number_behind(std::string_view word, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (!word.starts_with(prefix)) continue;
    if (const auto value = number(word.substr(prefix.size()))) return value;
  }
  return {};
}

std::vector<std::string> split(std::string_view query) {
  std::vector<std::string> words;
  std::istringstream text{lower(query)};
  for (std::string word; text >> word;) {
    const bool belongs = number(word) && !words.empty() &&
                         (words.back() == "bucket" || words.back() == "step" || words.back() == "rank");
    if (belongs)
      words.back() += word;
    else
      words.push_back(word);
  }
  return words;
}

std::vector<bool> named(const std::vector<std::string>& names, const std::string& word) {
  std::vector<bool> result;
  for (const std::string& name : names) result.push_back(contains(name, word));
  return result;
}

bool has(const std::vector<bool>& set, std::int64_t index) {
  return index >= 0 && index < static_cast<std::int64_t>(set.size()) && set[static_cast<std::size_t>(index)];
}

constexpr int most_details = 16;  // of a kind that have a name of their own

}  // namespace

EventSearch::EventSearch(std::string_view query, const trace::RunInfo& info) {
  for (const std::string& text : split(query)) {
    Word word;
    for (int kind = 0; kind < 256; ++kind) {
      const auto as_kind = static_cast<Kind>(kind);
      const std::string_view name = trace::name(as_kind);
      word.kinds[static_cast<std::size_t>(kind)] = name != "unknown" && contains(name, text);
      for (int detail = 0; detail < most_details && name != "unknown"; ++detail) {
        if (contains(what_happened(as_kind, static_cast<std::uint8_t>(detail)), text))
          word.details.insert({kind, detail});
      }
    }
    word.params = named(info.params, text);
    word.layers = named(info.layers, text);
    word.bucket = number_behind(text, {"bucket", "b"});
    word.step = number_behind(text, {"step", "s"});
    word.rank = number_behind(text, {"rank", "r"});
    words_.push_back(std::move(word));
  }
}

bool EventSearch::matches(const EventIndex& events, EventId id) const {
  const EventStore& store = events.store();
  return std::all_of(words_.begin(), words_.end(), [&](const Word& word) {
    const std::int64_t kind = store.value(Column::kind, id);
    return word.kinds[static_cast<std::size_t>(kind & 255)] ||
           word.details.contains(
               {static_cast<int>(kind), static_cast<int>(store.value(Column::detail, id))}) ||
           has(word.params, store.value(Column::param, id)) ||
           has(word.layers, store.value(Column::layer, id)) ||
           (word.bucket && store.value(Column::bucket, id) == *word.bucket) ||
           (word.step && store.value(Column::step, id) == *word.step) ||
           (word.rank && store.value(Column::rank, id) == *word.rank);
  });
}

std::optional<EventId> EventSearch::next(const EventIndex& events, EventId from) const {
  if (empty() || events.size() == 0) return {};
  const EventIndex::Test test = [&](EventId id) { return matches(events, id); };
  if (from >= 0 && from < events.size()) {
    if (const auto found = events.next_where(from, test)) return found;
  }
  const auto first = events.first_after(INT64_MIN);
  if (!first) return {};
  return matches(events, *first) ? first : events.next_where(*first, test);
}

std::optional<EventId> EventSearch::previous(const EventIndex& events, EventId from) const {
  if (empty() || events.size() == 0) return {};
  const EventIndex::Test test = [&](EventId id) { return matches(events, id); };
  if (from >= 0 && from < events.size()) {
    if (const auto found = events.previous_where(from, test)) return found;
  }
  const auto last = events.last_at(INT64_MAX);
  if (!last) return {};
  return matches(events, *last) ? last : events.previous_where(*last, test);
}

}  // namespace zero1::viz
