// The thread that looks after NCCL's launches while the ranks' threads do something else.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "core/comm/nccl/clique.h"

namespace zero1::nccl {

/// NCCL has its kernels wait on the device for their peers, where no host call can look: a rank that waits
/// for its stream would wait forever for a peer that is gone. The watch inspects all groups of a world some
/// 40 times per second, finds errors and time-outs, and makes the streams go on. Thread-safe.
class Watch {
 public:
  explicit Watch(LocalWorldOptions options);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  const LocalWorldOptions& options() const { return options_; }

  /// The clique of a group; the first rank to ask makes it.
  std::shared_ptr<Clique> clique(const std::shared_ptr<local::Group>& group);

 private:
  void run();
  void inspect_all(std::chrono::nanoseconds elapsed);

  LocalWorldOptions options_;
  std::mutex mutex_;
  std::condition_variable stopped_changed_;
  bool stopped_ = false;
  std::map<const local::Group*, std::weak_ptr<Clique>> cliques_;
  std::thread thread_;  ///< last: it uses all of the above
};

}  // namespace zero1::nccl
