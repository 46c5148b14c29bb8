#include "core/comm/nccl/watch.h"

#include <vector>

namespace zero1::nccl {
namespace {

constexpr std::chrono::milliseconds interval{25};

}  // namespace

Watch::Watch(LocalWorldOptions options) : options_(std::move(options)), thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopped_changed_.notify_all();
  thread_.join();
}

std::shared_ptr<Clique> Watch::clique(const std::shared_ptr<local::Group>& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(cliques_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Clique>& entry = cliques_[group.get()];
  std::shared_ptr<Clique> clique = entry.lock();
  if (!clique) {
    clique = std::make_shared<Clique>(group, options_);
    entry = clique;
  }
  return clique;
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_changed_.wait_for(lock, interval, [this] { return stopped_; })) {
    lock.unlock();
    // Time counts in intervals, as in Group: a pause on purpose, or a debugger's, adds next to nothing.
    const bool paused = options_.paused && options_.paused();
    inspect_all(paused ? std::chrono::nanoseconds{0} : interval);
    lock.lock();
  }
}

void Watch::inspect_all(std::chrono::nanoseconds elapsed) {
  std::vector<std::shared_ptr<Clique>> cliques;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [group, weak] : cliques_) {
      if (auto clique = weak.lock()) cliques.push_back(std::move(clique));
    }
  }
  for (const auto& clique : cliques) {
    try {
      clique->inspect(elapsed);
    } catch (const std::exception&) {
      // A GPU that answers nothing any more: the rank that uses it gets CUDA's error itself.
    }
  }
}

}  // namespace zero1::nccl
