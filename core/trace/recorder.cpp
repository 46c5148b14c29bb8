#include "core/trace/recorder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/trace/file_writer.h"
#include "core/trace/lane.h"

namespace zero1::trace {

namespace {

constexpr std::size_t stream_count = 3;

/// The rings' pages are made before the run, used or not: many ranks get smaller rings.
std::int64_t ring_capacity(std::int64_t wanted, int ranks) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  const std::int64_t rings = std::int64_t{ranks} * static_cast<std::int64_t>(stream_count);
  const auto most =
      static_cast<std::uint64_t>(most_bytes / (rings * static_cast<std::int64_t>(sizeof(Event))));
  return std::min(wanted, static_cast<std::int64_t>(std::bit_floor(most)));
}

RunInfo checked(RunInfo info) {
  if (info.ranks < 1 || info.ranks > format::max_ranks) {
    throw InputError(fmt::format("trace: {} ranks; a trace holds 1 … {}", info.ranks, format::max_ranks));
  }
  return info;
}

}  // namespace

struct Recorder::Impl {
  RunInfo info;
  RecorderOptions options;
  std::int64_t start_ns = now_ns();

  // Lanes are found and made under their own lock; the lists only grow.
  mutable std::mutex lanes_mutex;
  std::vector<std::array<std::unique_ptr<Lane>, stream_count>> lanes;

  // Whoever holds drain_mutex is the consumer of every ring and owns what follows.
  std::mutex drain_mutex;
  std::optional<FileWriter> file;
  std::vector<Event> batch;
  std::string failure;  ///< the first one
  bool closed = false;
  std::atomic<std::int64_t> recorded{0};

  std::mutex stop_mutex;
  std::condition_variable stop_changed;
  bool stop = false;
  std::thread thread;

  Impl(RunInfo run_info, RecorderOptions recorder_options)
      : info(checked(std::move(run_info))), options(std::move(recorder_options)) {
    lanes.resize(static_cast<std::size_t>(info.ranks));
    batch.reserve(format::max_chunk_events);
    if (!options.path.empty()) file.emplace(options.path, info, start_ns);
  }

  std::vector<Lane*> existing_lanes() const {
    const std::lock_guard lock(lanes_mutex);
    std::vector<Lane*> result;
    for (const auto& of_rank : lanes) {
      for (const auto& lane : of_rank) {
        if (lane) result.push_back(lane.get());
      }
    }
    return result;
  }

  std::int64_t dropped() const {
    std::int64_t total = 0;
    for (const Lane* lane : existing_lanes()) total += lane->dropped();
    return total;
  }

  /// Runs `action`; keeps the first failure's words for close().
  template <class Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const std::exception& error) {
      if (failure.empty()) failure = error.what();
    }
  }

  /// Gives the batch to file and sink. A file that failed once gets nothing more: it would have a hole.
  void emit_batch() {
    if (batch.empty()) return;
    recorded.fetch_add(static_cast<std::int64_t>(batch.size()), std::memory_order_relaxed);
    if (file && failure.empty()) guarded([&] { file->write_chunk(batch, dropped()); });
    if (options.sink) guarded([&] { options.sink(batch); });
    batch.clear();
  }

  /// Under drain_mutex. Takes what is in the rings now; what is pushed meanwhile may stay for the next time.
  void drain_locked() {
    for (Lane* lane : existing_lanes()) {
      // Twice at most: up to the end of the ring, and from its beginning.
      for (int part = 0; part < 2; ++part) {
        std::span<const Event> events = lane->front();
        while (!events.empty()) {
          const std::size_t count = std::min(events.size(), format::max_chunk_events - batch.size());
          batch.insert(batch.end(), events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count));
          lane->pop(count);
          events = events.subspan(count);
          if (batch.size() == format::max_chunk_events) emit_batch();
        }
      }
    }
    emit_batch();
  }

  void drain() {
    const std::lock_guard lock(drain_mutex);
    if (!closed) drain_locked();
  }

  bool any_ring_fills() const {
    for (const Lane* lane : existing_lanes()) {
      if (lane->more_than_quarter_full()) return true;
    }
    return false;
  }

  /// The drain thread: at every flush interval, and earlier when a ring fills up.
  void run() {
    using Clock = std::chrono::steady_clock;
    const auto interval = std::chrono::milliseconds(std::max<std::int64_t>(1, options.flush_interval_ms));
    const auto poll = std::min(interval, std::chrono::milliseconds(5));
    auto next = Clock::now() + interval;
    std::unique_lock lock(stop_mutex);
    while (!stop_changed.wait_for(lock, poll, [this] { return stop; })) {
      if (Clock::now() < next && !any_ring_fills()) continue;
      lock.unlock();
      drain();
      next = Clock::now() + interval;
      lock.lock();
    }
  }

  void join() {
    {
      const std::lock_guard lock(stop_mutex);
      stop = true;
    }
    stop_changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  void close() {
    join();
    const std::lock_guard lock(drain_mutex);
    if (closed) return;
    drain_locked();
    closed = true;
    if (file && failure.empty()) guarded([&] { file->close(dropped()); });
    file.reset();
    if (!failure.empty()) throw Error("trace: " + failure);
  }
};

Recorder::Recorder(RunInfo info, RecorderOptions options)
    : impl_(std::make_unique<Impl>(std::move(info), std::move(options))) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Recorder::~Recorder() {
  try {
    impl_->close();
  } catch (const std::exception& error) {
    say(stderr, "zero1: {}\n", Message{error.what()});
  }
}

Lane& Recorder::lane(int rank, StreamId stream) {
  if (rank < 0 || rank >= impl_->info.ranks) {
    throw Error(fmt::format("trace: rank {} has no lane; the run has {} ranks", rank, impl_->info.ranks));
  }
  const std::lock_guard lock(impl_->lanes_mutex);
  auto& lane = impl_->lanes[static_cast<std::size_t>(rank)].at(static_cast<std::size_t>(stream));
  if (!lane) lane = std::make_unique<Lane>(ring_capacity(impl_->options.ring_events, impl_->info.ranks));
  return *lane;
}

void Recorder::drain() {
  impl_->drain();
}
void Recorder::close() {
  impl_->close();
}
std::int64_t Recorder::recorded() const {
  return impl_->recorded.load(std::memory_order_relaxed);
}
std::int64_t Recorder::dropped() const {
  return impl_->dropped();
}
std::int64_t Recorder::start_ns() const {
  return impl_->start_ns;
}
const RunInfo& Recorder::info() const {
  return impl_->info;
}

}  // namespace zero1::trace
