#include "core/device/cuda/stamp_resolver.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/base/clock.h"
#include "core/base/terminal.h"
#include "core/device/cuda/cuda_check.h"

namespace zero1::cuda {

namespace {

/// Between two looks at the events: far below a step, far above the cost of a look.
constexpr auto polling_interval = std::chrono::microseconds(100);

}  // namespace

class StampResolver::Line {
 public:
  struct Stamp {
    cudaEvent_t event = nullptr;
    std::int64_t called_ns = 0;
    Reached reached;
  };
  std::deque<Stamp> queue;   ///< guarded by queue_mutex_
  std::int64_t last_ns = 0;  ///< guarded by resolve_mutex_
};

StampResolver::StampResolver(int ordinal) : ordinal_(ordinal), thread_([this] { run(); }) {}

StampResolver::~StampResolver() {
  {
    const std::lock_guard lock(queue_mutex_);
    closing_ = true;
  }
  work_changed_.notify_one();
  thread_.join();
  cudaSetDevice(ordinal_);
  for (cudaEvent_t event : pool_) cudaEventDestroy(event);
}

std::shared_ptr<StampResolver::Line> StampResolver::add_line() {
  auto line = std::make_shared<Line>();
  const std::lock_guard lock(queue_mutex_);
  lines_.push_back(line);
  return line;
}

void StampResolver::remove_line(const std::shared_ptr<Line>& line) {
  const std::lock_guard lock(queue_mutex_);
  pending_ -= static_cast<std::int64_t>(line->queue.size());  // those of a stream that failed
  line->queue.clear();
  lines_.erase(std::remove(lines_.begin(), lines_.end(), line), lines_.end());
}

void StampResolver::stamp(Line& line, cudaStream_t stream, Reached reached) {
  const std::int64_t called_ns = now_ns();
  const std::lock_guard lock(queue_mutex_);
  cudaEvent_t event = take_event();
  ZERO1_CUDA_CHECK(cudaEventRecord(event, stream));
  line.queue.push_back({event, called_ns, std::move(reached)});
  if (++pending_ == 1) work_changed_.notify_one();
}

cudaEvent_t StampResolver::take_event() {
  if (pool_.empty()) {
    cudaEvent_t event = nullptr;
    ZERO1_CUDA_CHECK(cudaEventCreate(&event));
    return event;
  }
  cudaEvent_t event = pool_.back();
  pool_.pop_back();
  return event;
}

void StampResolver::resolve(Line& line) {
  const std::lock_guard lock(resolve_mutex_);
  while (resolve_passed(line)) {
  }
}

/// Resolves the line's first stamp if the stream has passed it. Under resolve_mutex_.
bool StampResolver::resolve_passed(Line& line) {
  Line::Stamp stamp;
  {
    const std::lock_guard lock(queue_mutex_);
    if (line.queue.empty() || cudaEventQuery(line.queue.front().event) != cudaSuccess) return false;
    stamp = std::move(line.queue.front());
    line.queue.pop_front();
    --pending_;
  }
  const std::int64_t seen_ns = now_ns();
  const std::int64_t gpu_ns = clock_.host_ns(stamp.event);
  line.last_ns = std::clamp(gpu_ns, std::max(stamp.called_ns, line.last_ns), seen_ns);
  stamp.reached(line.last_ns);
  const std::lock_guard lock(queue_mutex_);
  pool_.push_back(stamp.event);
  return true;
}

void StampResolver::run() try {
  ZERO1_CUDA_CHECK(cudaSetDevice(ordinal_));
  std::unique_lock lock(queue_mutex_);
  while (true) {
    work_changed_.wait(lock, [&] { return closing_ || pending_ > 0; });
    if (closing_) return;
    const auto lines = lines_;
    lock.unlock();
    {
      const std::lock_guard resolving(resolve_mutex_);
      clock_.refresh();
      for (const auto& line : lines) {
        while (resolve_passed(*line)) {
        }
      }
    }
    std::this_thread::sleep_for(polling_interval);
    lock.lock();
  }
} catch (const std::exception& error) {
  // Times are lost, the run goes on: what failed on the GPU reaches the rank by its own calls.
  say(stderr, "zero1: GPU {} takes no more time stamps: {}\n", ordinal_, Message{error.what()});
}

}  // namespace zero1::cuda
