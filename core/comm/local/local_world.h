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
  /// How long a collective waits for a peer that neither arrives nor leaves before it fails with a
  /// PeerError that lists who has not arrived and what the others called.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// While it returns true, the time-out's clock stands still: for programs that hold ranks on purpose
  /// (`[&] { return !gate.running(); }`). Asked some 20 times per second from waiting threads; it must be
  /// thread-safe, quick, and must not throw. Groups that are split off ask it too.
  std::function<bool()> paused;
};

/// The shared side of an in-process group. Each rank reads its peers' memory directly and reduces its
/// piece in rank order in fp32, so that results do not depend on timing. Works on CPU streams.
/// core/comm/local/algorithms.h tells what each collective moves, group.h how the ranks meet.
class LocalWorld {
 public:
  /// Throws std::invalid_argument for a size below 1 or a time-out that is not positive.
  explicit LocalWorld(int size, LocalWorldOptions options = {});
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;
  ~LocalWorld();  ///< ranks whose communicator was never made count as having left

  int size() const;

  /// The communicator of one rank; called once per rank, from any thread. It may outlive the world.
  /// Destroying it is leaving: what the rank has issued still runs, but peers that call more fail.
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
