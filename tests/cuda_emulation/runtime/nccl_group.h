// Where the ranks of a communicator meet. Each rank's stream leaves its input in a round, waits until all
// of them have, and makes its own output from the inputs.
#pragma once

#include <nccl.h>

#include <atomic>
#include <compare>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/queue.h"

namespace cuda_emulation {

enum class CallKind { reduce_scatter, all_gather, all_reduce, broadcast, send, receive };

/// One call of one rank.
struct Call {
  CallKind kind;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  ///< of send and receive; the root of a broadcast

  std::string words() const;  ///< "AllGather of 7 bf16"
};

std::size_t size_of(ncclDataType_t type);

/// The calls of several ranks that belong together: a collective, or a send with its receive.
class Round {
 public:
  struct Seat {
    bool present = false;
    bool left = false;
    Call call{};
    std::vector<char> input;
    Ref<Queue> queue;  ///< whose operation `number` will come here
    std::uint64_t number = 0;
    char sync = 0;
  };

  explicit Round(int size) : seats(static_cast<std::size_t>(size)) {}

  std::vector<Seat> seats;
  bool awaited = false;  ///< somebody waits: lagging streams must come

  bool complete() const;
  bool all_left() const;
  /// What the ranks call, if it does not fit together.
  std::optional<std::string> mismatch() const;
};

/// Tells rounds apart: collectives by their number, messages also by their ends.
struct RoundKey {
  int from = -1;
  int to = -1;
  std::uint64_t number = 0;
  auto operator<=>(const RoundKey&) const = default;
};

/// One rank's wish for an ncclCommSplit.
struct SplitRequest {
  int color;
  int key;
  int device;
  bool blocking;    ///< of the new communicator
  ncclComm_t made;  ///< once the round is complete; null without a color
};

/// The wishes of all ranks, by rank; complete once the last has come.
struct SplitRound {
  explicit SplitRound(int size) : requests(static_cast<std::size_t>(size)) {}
  std::vector<std::optional<SplitRequest>> requests;
  bool complete = false;
};

/// The ranks that share a communicator. Everything here is guarded by `mutex`.
class Group {
 public:
  explicit Group(int size) : devices(static_cast<std::size_t>(size), -1) {}

  int size() const { return static_cast<int>(devices.size()); }
  bool joined() const;  ///< have all ranks initialised?
  bool has_duplicate_device() const;
  Ref<Round> round(const RoundKey& key, int seats);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> devices;  ///< per rank; -1: not yet there
  std::map<RoundKey, Ref<Round>> rounds;
  std::map<std::uint64_t, Ref<SplitRound>> splits;
};

/// One rank's end, shared by its handle and its queued calls.
class Member {
 public:
  Member(Ref<Group> group_, int rank_, int device_, bool blocking_)
      : group(std::move(group_)), rank(rank_), device(device_), blocking(blocking_) {}

  /// Does the calls as one launch: leaves all inputs, then waits for and makes all outputs.
  void run(const std::vector<std::pair<RoundKey, Call>>& calls);

  /// Gives the calls that this launch will run a number in `queue`, for streams that lag.
  void announce(const std::vector<std::pair<RoundKey, Call>>& calls, const Ref<Queue>& queue,
                std::uint64_t number);

  RoundKey next_key(const Call& call);

  const Ref<Group> group;
  const int rank;
  const int device;
  const bool blocking;

  // Guarded by the group's mutex.
  bool aborted = false;
  bool finalized = false;
  bool splitting = false;  ///< a split is under way
  ncclResult_t error = ncclSuccess;
  int outstanding = 0;  ///< launches submitted and not done

  // Used by the rank's own host thread.
  std::uint64_t collectives = 0;
  std::uint64_t splits = 0;
  std::map<std::pair<int, int>, std::uint64_t> messages;

 private:
  std::size_t seat_of(const Call& call) const;
  int seats_of(const Call& call) const;
  void leave_input(const RoundKey& key, const Call& call);
  bool collect(const RoundKey& key, const Call& call);  ///< false: aborted
  void finish(const Call& call, Round& round);
  void wait_for_abort(std::unique_lock<std::mutex>& lock);
};

/// receive = the reduction of elements [first, first + count) of the inputs, in rank order, in fp32 for
/// types narrower than that.
void reduce(void* receive, const std::vector<const char*>& inputs, std::size_t first, std::size_t count,
            ncclDataType_t type, ncclRedOp_t op);

}  // namespace cuda_emulation
