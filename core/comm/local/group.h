// Where the ranks of one in-process group meet.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/local/call.h"
#include "core/comm/local/local_world.h"

namespace zero1::local {

class Group;

/// What a rank shows its peers beside its calls: a backend's own, such as events that order their streams.
struct Attachment {
  virtual ~Attachment() = default;
};

/// One rendezvous: all ranks' n-th call. Between `arrive` and `depart` every rank may read the others'
/// launches and the memory they point to, and write what its algorithm assigns to it.
struct Round {
  explicit Round(int size)
      : launches(static_cast<std::size_t>(size), nullptr), attachments(static_cast<std::size_t>(size)) {}

  std::vector<const Launch*> launches;                   ///< by rank; complete once `ready`
  std::vector<std::shared_ptr<Attachment>> attachments;  ///< by rank, as `launches`; may be null
  int arrived = 0;
  std::atomic<bool> ready{false};  ///< all have arrived and their launches fit each other
  std::atomic<int> departed{0};
  std::int64_t started_ns = 0;  ///< when the last rank arrived

  /// Of a split: each rank's new group and its rank there.
  struct Place {
    std::shared_ptr<Group> group;
    int rank = 0;
  };
  std::vector<Place> places;
};

/// The shared state of a group: it matches the ranks' calls and knows who has failed or left.
///
/// The contract, in the order in which a call lives:
/// - A rank numbers its calls when it issues them, from 0. Calls with the same number meet, on whatever
///   stream or thread each rank runs them; so a split (on the host) keeps its place among collectives
///   that are still queued.
/// - `arrive` blocks until all ranks have arrived. The last one compares the calls; if they do not fit,
///   all throw the same Error.
/// - From then on nothing can fail: the ranks only move memory. Nobody waits for anybody until `depart`,
///   which blocks until all ranks are done, so that no buffer changes or dies while a peer reads it,
///   even when the group is aborted meanwhile.
/// - A failure (mismatch, abort, a rank that left, a time-out) is kept: whoever waits in `arrive` now or
///   comes later throws it. The first failure is the one that all report.
///
/// Waiting: a few microseconds of spinning when every rank can have a core, then a condition variable.
/// Thread-safe throughout. Locks of two groups are held at once only from a parent to its children.
class Group : public std::enable_shared_from_this<Group> {
 public:
  /// `world_ranks`: each rank's number in the group that was not split from another.
  Group(std::string name, std::vector<int> world_ranks, const LocalWorldOptions& options,
        std::shared_ptr<Group> parent);

  int size() const { return static_cast<int>(world_ranks_.size()); }
  const std::string& name() const { return name_; }

  /// The next number of a rank's calls.
  std::int64_t issue(int rank);

  /// `launch` must live until `depart` or an exception.
  std::shared_ptr<Round> arrive(int rank, std::int64_t number, const Launch& launch,
                                std::shared_ptr<Attachment> attachment = nullptr);
  void depart(Round& round);

  /// The rank will issue no more calls. Those it has issued still run.
  void leave(int rank);

  /// The rank has stopped: fails this group, and with `everywhere` its whole family (see
  /// Communicator::abort).
  enum class Reach { this_group, everywhere };
  void abort(int rank, std::string_view reason, Reach reach) noexcept;

  /// What `arrive` would throw by now; null while nothing has failed.
  std::exception_ptr failure();

 private:
  struct Failure {
    std::string message;
    std::optional<int> culprit;  ///< a world rank: thrown as PeerError, else as Error
  };

  void complete(Round& round);
  void form_groups(Round& round);
  void await_arrivals(std::unique_lock<std::mutex>& lock, Round& round, std::int64_t number);
  void fail(Failure failure);
  void fail_family(const Failure& failure);
  void fail_if_left(std::int64_t number);
  void fail_late(const Round& round, std::int64_t number);
  [[noreturn]] void throw_failure(std::string_view context) const;
  [[noreturn]] void throw_failure(const Launch& launch) const;
  std::string rank_name(int rank) const;

  const std::string name_;
  const std::vector<int> world_ranks_;
  const LocalWorldOptions options_;
  const std::shared_ptr<Group> parent_;
  const bool may_spin_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, std::shared_ptr<Round>> rounds_;  ///< waiting for arrivals, by number
  std::vector<std::int64_t> issued_;                       ///< by rank
  std::vector<bool> left_;                                 ///< by rank
  std::optional<Failure> failure_;
  std::vector<std::weak_ptr<Group>> children_;
};

}  // namespace zero1::local
