#include "viz/model/event_loader.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace zero1::viz {

EventLoader::EventLoader(trace::Reader reader) : reader_(std::move(reader)), thread_([this] { run(); }) {}

EventLoader::~EventLoader() {
  stop_ = true;
  thread_.join();
}

void EventLoader::run() {
  constexpr auto capacity = static_cast<std::size_t>(EventBlock::capacity);
  std::string error;
  std::vector<trace::Event> rest;
  try {
    std::vector<trace::Event> chunk;
    for (std::size_t c = 0; c < reader_.chunks().size() && !stop_; ++c) {
      reader_.read_chunk(c, chunk);
      std::span<const trace::Event> events = chunk;
      while (!events.empty() && !stop_) {
        if (rest.empty() && events.size() >= capacity) {
          give(std::make_unique<EventBlock>(events.first(capacity)));
          events = events.subspan(capacity);
          continue;
        }
        const std::size_t count = std::min(events.size(), capacity - rest.size());
        rest.insert(rest.end(), events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count));
        events = events.subspan(count);
        if (rest.size() < capacity) continue;
        give(std::make_unique<EventBlock>(rest));
        rest.clear();
      }
    }
  } catch (const std::exception& exception) {
    error = exception.what();
  }
  // Also of a recording that is damaged inside: what lies before the damage is whole.
  if (!rest.empty()) give(std::make_unique<EventBlock>(rest));
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  ended_ = true;
  changed_.notify_all();
}

void EventLoader::give(std::unique_ptr<EventBlock> block) {
  const std::lock_guard lock(mutex_);
  blocks_.push_back(std::move(block));
  changed_.notify_all();
}

std::unique_ptr<EventBlock> EventLoader::take() {
  const std::lock_guard lock(mutex_);
  if (blocks_.empty()) return nullptr;
  auto block = std::move(blocks_.front());
  blocks_.pop_front();
  return block;
}

void EventLoader::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !blocks_.empty(); });
}

bool EventLoader::finished() const {
  const std::lock_guard lock(mutex_);
  return ended_ && blocks_.empty();
}

std::string EventLoader::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace zero1::viz
