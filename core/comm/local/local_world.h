// Ranks as threads of one process, on CPU devices.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "core/comm/communicator.h"

namespace zero1 {

struct LocalWorldOptions {
  std::string name = "data-parallel";
  /// How long a collective waits for a peer that neither arrives nor leaves before it fails.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// The shared side of an in-process group. Each rank reads its peers' memory directly and reduces its
/// piece in rank order in fp32, so that results do not depend on timing.
class LocalWorld {
 public:
  explicit LocalWorld(int size, LocalWorldOptions options = {});
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;
  ~LocalWorld();

  int size() const;

  /// The communicator of one rank; called once per rank, from any thread. It may outlive the world.
  std::unique_ptr<Communicator> communicator(int rank);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Runs `body(rank)` on one thread per rank and waits for all. When a rank throws, `on_failure(rank,
/// what)` is called at once (to abort its communicators); after all have ended the first failure that
/// is not a PeerError is rethrown, else the first PeerError.
void run_ranks(int size, const std::function<void(int rank)>& body,
               const std::function<void(int rank, const std::string& what)>& on_failure = {});

}  // namespace zero1
