// Reads a recording into blocks of events on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/trace/reader.h"
#include "viz/model/event_store.h"

namespace zero1::viz {

class EventLoader {
 public:
  explicit EventLoader(trace::Reader reader);
  EventLoader(const EventLoader&) = delete;
  EventLoader& operator=(const EventLoader&) = delete;
  ~EventLoader();  ///< stops reading

  /// The next block, in order of the file; null: not read yet, or `finished`.
  std::unique_ptr<EventBlock> take();
  /// Waits until there is a block to take, or none will come.
  void wait();
  /// All blocks have been taken.
  bool finished() const;
  /// Why it ended early; empty: it did not. Once `finished`.
  std::string error() const;

  std::int64_t count() const { return reader_.count(); }
  std::int64_t dropped() const { return reader_.dropped(); }

 private:
  void run();
  void give(std::unique_ptr<EventBlock> block);

  trace::Reader reader_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<EventBlock>> blocks_;
  std::string error_;
  bool ended_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace zero1::viz
