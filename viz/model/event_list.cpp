#include "viz/model/event_list.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <sstream>
#include <tuple>
#include <utility>

#include "viz/model/event_words.h"

namespace zero1::viz {

namespace {

using Clock = std::chrono::steady_clock;

/// Lanes are drained one after the other: what ended this long ago has arrived from all of them.
constexpr std::int64_t settling_ns = 100'000'000;
constexpr int events_between_looks_at_the_clock = 256;
/// However late it is: a busy machine must not stop the list. About a millisecond's worth.
constexpr int least_events_per_update = 16'384;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// All that an event's words depend on.
std::uint64_t words_key(const trace::Event& event) {
  std::uint64_t key = static_cast<std::uint8_t>(event.kind);
  key = key * 256 + event.detail;
  key = key * 65599 + static_cast<std::uint32_t>(event.bucket);
  key = key * 65599 + static_cast<std::uint32_t>(event.param);
  return key * 65599 + static_cast<std::uint16_t>(event.layer);
}

}  // namespace

bool operator==(const ListFilter& a, const ListFilter& b) {
  const auto all = [](const ListFilter& f) {
    return std::tie(f.fields.kind, f.fields.rank, f.fields.bucket, f.fields.param, f.fields.layer,
                    f.fields.step, f.fields.stream, f.fields.detail, f.text);
  };
  return all(a) == all(b);
}

void EventList::show(const EventIndex& events, const trace::RunInfo& info) {
  info_ = &info;
  if (&events == events_) return;
  events_ = &events;
  restart();
}

void EventList::set_filter(ListFilter filter) {
  if (filter == filter_) return;
  filter_ = std::move(filter);
  words_.clear();
  std::istringstream stream(lower(filter_.text));
  for (std::string word; stream >> word;) words_.push_back(word);
  restart();
}

void EventList::restart() {
  settled_.clear();
  tail_.clear();
  text_matches_.clear();
  settled_ns_ = INT64_MIN;
  started_ = false;
}

bool EventList::matches(const trace::Event& event) {
  if (!filter_.fields.matches(event)) return false;
  if (words_.empty()) return true;
  const auto [known, is_new] = text_matches_.try_emplace(words_key(event), false);
  if (is_new) {
    std::string text = what(event, *info_) + " " + std::string(name(event.kind));
    if (event.param >= 0) text += " " + param_name(event.param, *info_);
    text = lower(std::move(text));
    known->second = std::all_of(words_.begin(), words_.end(), [&](const std::string& word) {
      return text.find(word) != std::string::npos;
    });
  }
  return known->second;
}

bool EventList::update(double budget_ms) {
  if (events_ == nullptr || events_->loading()) return false;
  if (!started_ || revision_ != events_->revision()) {
    started_ = true;
    complete_ = false;
    revision_ = events_->revision();
    scanned_ns_ = settled_ns_;
    tail_.clear();
  }
  if (complete_) return true;
  const auto deadline = Clock::now() + std::chrono::duration<double, std::milli>(budget_ms);
  const std::int64_t settles_ns = events_->range().end_ns - settling_ns;
  // Only between two times may it stop: it goes on behind the last one that it has listed whole.
  int until_look = least_events_per_update;
  complete_ = true;
  events_->visit(scanned_ns_, INT64_MAX, {}, [&](EventId id, const trace::Event& event) {
    if (--until_look <= 0 && event.end_ns != scanned_ns_) {
      until_look = events_between_looks_at_the_clock;
      complete_ = Clock::now() < deadline;
      if (!complete_) return false;
    }
    scanned_ns_ = event.end_ns;
    if (matches(event))
      (event.end_ns <= settles_ns ? settled_ : tail_).push_back(static_cast<std::uint32_t>(id));
    return true;
  });
  settled_ns_ = std::max(settled_ns_, std::min(scanned_ns_, settles_ns));
  return complete_;
}

EventId EventList::row(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  return i < settled_.size() ? settled_[i] : tail_[i - settled_.size()];
}

std::int64_t EventList::row_at(std::int64_t at_ns) const {
  std::int64_t low = 0;
  std::int64_t high = size();
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (events_->event(row(middle)).end_ns <= at_ns) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

}  // namespace zero1::viz
