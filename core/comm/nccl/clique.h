// The NCCL communicators of one group's ranks, and the launches that they have under way.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/gpu/cuda_resources.h"
#include "core/comm/local/group.h"

namespace zero1::nccl {

/// A launch between the ranks' meeting for it and its end on the device.
struct Flight {
  explicit Flight(std::string calls, std::shared_ptr<StreamFailure> stream_failure)
      : what(std::move(calls)), failure(std::move(stream_failure)) {}

  bool over() const { return queued && done.reached(); }

  std::string what;
  gpu::StreamPoint ready;  ///< the stream has come to the launch
  gpu::StreamPoint done;   ///< and has passed it
  /// `done` has been recorded. Of a launch that fails before, nobody can tell how much of it runs: it is over
  /// only when NCCL has been aborted.
  std::atomic<bool> queued = false;
  std::shared_ptr<StreamFailure> failure;
};

/// All ranks of a group live in this process, so their NCCL communicators are kept together: they are made,
/// aborted and destroyed as one, since NCCL's calls for that are collective while a rank may leave alone.
///
/// NCCL's communicators are not thread-safe; each has a lock here, held for no longer than one non-blocking
/// call, so that the watch can look at it and abort it while the rank's thread is polling. Thread-safe.
class Clique {
 public:
  /// No communicators yet: they arrive from ncclCommInitRankConfig or ncclCommSplit.
  Clique(std::shared_ptr<local::Group> group, const LocalWorldOptions& options);
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;
  ~Clique();  ///< every rank has left: destroys the communicators

  /// How every communicator is configured.
  static ncclConfig_t config();

  int size() const { return static_cast<int>(seats_.size()); }

  /// Where NCCL is to put rank `rank`'s communicator. Until it is done, threads of its own may write there
  /// (ncclCommSplit, non-blocking), so nobody looks at it before `arrived`.
  ncclComm_t* arrival(int rank) { return &seat(rank).arriving; }

  /// NCCL has put it there: from now on the rank can use it, and the watch sees it.
  void arrived(int rank);

  /// Keeps `made`, whose communicators were to be split off these, until these are gone: NCCL may still write
  /// to its `arrival` although the split has failed.
  void keep(std::shared_ptr<Clique> made);

  /// Hands rank `rank`'s communicator to a non-blocking NCCL call, or to several within a group. Throws
  /// NcclError, or the group's failure if the communicators have been aborted.
  void call(int rank, const std::function<void(ncclComm_t)>& issue);

  /// Polls until NCCL has taken what was issued (has it on the stream; has made the communicator). Throws
  /// as `call`, and after the time-out Error naming `what`.
  void settle(int rank, const std::string& what);

  /// Shows the launch to the watch, from before anything of it is issued: whatever happens then, the stream
  /// will not be left waiting.
  void take_off(int rank, std::shared_ptr<Flight> flight);

  /// Forgets the flights that have ended; are any left?
  bool in_flight();

  /// What the watch asks again and again; `elapsed` is the time since the last time, pauses not counted.
  /// Finds errors that NCCL reports asynchronously and launches that take too long, and fails the group.
  /// When a failed group's launches do not end by themselves within the grace period, aborts NCCL, which
  /// lets the streams go on, and fails these streams.
  void inspect(std::chrono::nanoseconds elapsed);

 private:
  struct Seat {
    ncclComm_t arriving = nullptr;  ///< NCCL's to write
    std::mutex mutex;
    bool taken = false;  ///< what arrived is `comm`, or has been
    ncclComm_t comm = nullptr;
    std::deque<std::shared_ptr<Flight>> flights;
  };

  Seat& seat(int rank) { return *seats_[static_cast<std::size_t>(rank)]; }
  void find_async_errors();
  void fail_late();
  void abort_all();

  std::shared_ptr<local::Group> group_;
  std::chrono::nanoseconds timeout_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::mutex kept_mutex_;
  std::vector<std::shared_ptr<Clique>> kept_;
  // Of the watch:
  std::weak_ptr<Flight> oldest_;
  std::chrono::nanoseconds waited_{0};  ///< for `oldest_`
  std::chrono::nanoseconds failed_{0};  ///< since the group was found to have failed
  bool aborted_ = false;
};

}  // namespace zero1::nccl
