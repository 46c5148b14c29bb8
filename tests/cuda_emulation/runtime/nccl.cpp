// NCCL's functions: communicators, grouping of calls, and checks of what a call is given.
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/errors.h"
#include "runtime/machine.h"
#include "runtime/nccl_group.h"

using namespace cuda_emulation;

/// A handle. A split that is not complete has no member yet.
struct ncclComm {
  Ref<Member> member;
  Ref<Member> parent;  ///< of a split under way
  Ref<SplitRound> split;
};

namespace {

/// Groups by their unique id.
struct Registry {
  std::mutex mutex;
  std::map<std::string, Ref<Group>> groups;
  unsigned next_id = 0;
};

Registry& registry() {
  static Registry& the_registry = *new Registry;
  return the_registry;
}

struct PendingCall {
  Ref<Member> member;
  cudaStream_t stream;
  Call call;
};

/// What this thread has called since ncclGroupStart.
struct OpenGroup {
  int depth = 0;
  std::vector<PendingCall> calls;
  std::vector<Ref<Member>> initialised;  ///< whose blocking initialisation ncclGroupEnd must await
};

thread_local OpenGroup open_group;

ncclResult_t fail_nccl(ncclResult_t result, const std::string& why) {
  explain("NCCL: " + why);
  return result;
}

/// The member, made from a split that has completed meanwhile; null while it has not.
Ref<Member> member_of(ncclComm_t comm) {
  if (comm->member || !comm->split) return comm->member;
  const Quiet quiet;
  const std::lock_guard lock(comm->parent->group->mutex);
  if (!comm->split->complete) return {};
  const auto rank = static_cast<std::size_t>(comm->parent->rank);
  const Ref<Group> group = comm->split->by_color.at(comm->split->requests[rank]->color);
  comm->member =
      Ref<Member>::make(group, comm->split->new_ranks[rank], comm->parent->device, comm->parent->blocking);
  return comm->member;
}

/// What ncclCommGetAsyncError says.
ncclResult_t state_of(Member& member) {
  const Quiet quiet;
  const std::lock_guard lock(member.group->mutex);
  if (member.error != ncclSuccess) return member.error;
  if (!member.group->joined()) return ncclInProgress;
  if (member.group->has_duplicate_device()) return ncclInvalidUsage;
  if (member.finalized && member.outstanding > 0) return ncclInProgress;
  return ncclSuccess;
}

ncclResult_t wait_until_joined(Member& member) {
  {
    const Quiet quiet;
    std::unique_lock lock(member.group->mutex);
    member.group->changed.wait(lock, [&] { return member.aborted || member.group->joined(); });
  }
  const ncclResult_t state = state_of(member);
  return state == ncclInvalidUsage ? fail_nccl(state, "two ranks of a communicator use one GPU") : state;
}

Ref<Member> join(const Ref<Group>& group, int rank, int device, bool blocking) {
  const Quiet quiet;
  Ref<Member> member = Ref<Member>::make(group, rank, device, blocking);
  const std::lock_guard lock(group->mutex);
  group->devices[static_cast<std::size_t>(rank)] = device;
  group->changed.notify_all();
  return member;
}

ncclComm_t new_handle(const Ref<Member>& member) {
  const Quiet quiet;
  return new ncclComm{member, {}, {}};
}

// ---- issuing calls ----

void launch(const Ref<Member>& member, cudaStream_t stream, const std::vector<Call>& calls) {
  const Ref<Queue> queue = queue_of(stream);
  std::vector<std::pair<RoundKey, Call>> keyed;
  keyed.reserve(calls.size());
  for (const Call& call : calls) keyed.emplace_back(member->next_key(call), call);
  {
    const Quiet quiet;
    const std::lock_guard lock(member->group->mutex);
    ++member->outstanding;
    for (const auto& [key, call] : keyed) {
      const bool message = call.kind == CallKind::send || call.kind == CallKind::receive;
      member->group->round(key, message ? 2 : member->group->size());
    }
  }
  const std::uint64_t number = submit_in_order(queue, [member, keyed] { member->run(keyed); });
  member->announce(keyed, queue, number);
}

/// The calls of one communicator and stream become one launch.
void launch_all(std::vector<PendingCall> pending) {
  while (!pending.empty()) {
    const Ref<Member> member = pending.front().member;
    cudaStream_t const stream = pending.front().stream;
    std::vector<Call> mine;
    std::vector<PendingCall> rest;
    for (const PendingCall& call : pending) {
      if (call.member == member && call.stream == stream) {
        mine.push_back(call.call);
      } else {
        rest.push_back(call);
      }
    }
    launch(member, stream, mine);
    pending.swap(rest);
  }
}

struct Buffer {
  const char* name;
  const void* data;
  std::size_t bytes;
};

ncclResult_t check_buffer(const Buffer& buffer, int device) {
  if (buffer.bytes == 0) return ncclSuccess;
  const Place place = machine().locate(buffer.data);
  const std::string what = std::string(buffer.name) + " buffer " + hex(buffer.data);
  if (place.kind == Place::Kind::pageable) return fail_nccl(ncclInvalidArgument, what + " is host memory");
  if (!place.live) return fail_nccl(ncclInvalidArgument, what + " is freed memory of a GPU");
  if (place.kind == Place::Kind::device && !machine().can_reach(device, place.device)) {
    return fail_nccl(ncclInvalidArgument, what + " is memory of GPU " + std::to_string(place.device) +
                                              ", the communicator's is GPU " + std::to_string(device));
  }
  const auto offset = reinterpret_cast<std::uintptr_t>(buffer.data) - place.start;
  if (offset + buffer.bytes > place.bytes) {
    return fail_nccl(ncclInvalidArgument, what + " has " + std::to_string(place.bytes - offset) +
                                              " bytes, needed are " + std::to_string(buffer.bytes));
  }
  return ncclSuccess;
}

/// In place is allowed at one offset only; any other overlap is undefined in NCCL.
ncclResult_t check_overlap(const Buffer& send, const Buffer& receive, std::ptrdiff_t in_place_offset) {
  if (send.bytes == 0 || receive.bytes == 0) return ncclSuccess;
  const auto* const from = static_cast<const char*>(send.data);
  const auto* const to = static_cast<const char*>(receive.data);
  const bool overlap = from < to + receive.bytes && to < from + send.bytes;
  if (!overlap || to - from == in_place_offset) return ncclSuccess;
  return fail_nccl(ncclInvalidArgument, "send and receive buffers overlap, and not as an in-place call");
}

ncclResult_t check_call(const Call& call, const Member& member, cudaStream_t stream) {
  if (queue_of(stream)->device() != member.device) {
    return fail_nccl(ncclInvalidUsage, "a stream of another GPU than the communicator's");
  }
  const int size = member.group->size();
  const bool has_peer =
      call.kind == CallKind::broadcast || call.kind == CallKind::send || call.kind == CallKind::receive;
  if (has_peer && (call.peer < 0 || call.peer >= size)) {
    return fail_nccl(ncclInvalidArgument, "no rank " + std::to_string(call.peer));
  }
  const std::size_t one = call.count * size_of(call.type);
  const std::size_t all = one * static_cast<std::size_t>(size);
  const bool sends =
      call.kind != CallKind::receive && (call.kind != CallKind::broadcast || call.peer == member.rank);
  const Buffer send{"send", call.send, !sends ? 0 : call.kind == CallKind::reduce_scatter ? all : one};
  const Buffer receive{"receive", call.receive,
                       call.kind == CallKind::send         ? 0
                       : call.kind == CallKind::all_gather ? all
                                                           : one};
  if (const auto error = check_buffer(send, member.device)) return error;
  if (const auto error = check_buffer(receive, member.device)) return error;
  const auto mine = static_cast<std::ptrdiff_t>(one) * member.rank;
  const std::ptrdiff_t in_place = call.kind == CallKind::reduce_scatter ? mine
                                  : call.kind == CallKind::all_gather   ? -mine
                                                                        : 0;
  return check_overlap(send, receive, in_place);
}

ncclResult_t issue(const Call& call, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return fail_nccl(ncclInvalidArgument, "no communicator");
  const Ref<Member> member = member_of(comm);
  const ncclResult_t state = member ? state_of(*member) : ncclInProgress;
  if (state == ncclInProgress) {
    return fail_nccl(ncclInvalidArgument, "a communicator used before its last operation has succeeded");
  }
  if (state != ncclSuccess) return state;
  if (const auto error = check_call(call, *member, stream)) return error;
  if (open_group.depth == 0) {
    launch(member, stream, {call});
  } else {
    const Quiet quiet;
    open_group.calls.push_back({member, stream, call});
  }
  return ncclSuccess;
}

// ---- splitting ----

/// The last rank has asked: makes the new groups, ordered by key and then rank.
void complete_split(SplitRound& split, const Group& parent) {
  split.new_ranks.assign(split.requests.size(), -1);
  std::map<int, std::vector<std::size_t>> members;
  for (std::size_t rank = 0; rank < split.requests.size(); ++rank) {
    if (split.requests[rank]->color != NCCL_SPLIT_NOCOLOR)
      members[split.requests[rank]->color].push_back(rank);
  }
  for (auto& [color, ranks] : members) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](std::size_t a, std::size_t b) {
      return split.requests[a]->key < split.requests[b]->key;
    });
    const Ref<Group> group = Ref<Group>::make(static_cast<int>(ranks.size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      split.new_ranks[ranks[i]] = static_cast<int>(i);
      group->devices[i] = parent.devices[ranks[i]];
    }
    split.by_color[color] = group;
  }
  split.complete = true;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclNumResults: break;
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) {
  return "see the emulation's lines on standard error";
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Quiet quiet;
  const std::lock_guard lock(registry().mutex);
  std::snprintf(id->internal, sizeof id->internal, "emulated-%u", ++registry().next_id);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (nranks < 1 || rank < 0 || rank >= nranks) return fail_nccl(ncclInvalidArgument, "rank out of range");
  if (machine().device_count() == 0) return ncclUnhandledCudaError;
  const bool blocking = config == nullptr || config->blocking != 0;
  Ref<Group> group;
  {
    const Quiet quiet;
    const std::lock_guard lock(registry().mutex);
    Ref<Group>& found = registry().groups[id.internal];
    if (!found) found = Ref<Group>::make(nranks);
    group = found;
  }
  if (group->size() != nranks)
    return fail_nccl(ncclInvalidArgument, "ranks disagree on the communicator's size");
  const Ref<Member> member = join(group, rank, current_device(), blocking);
  *comm = new_handle(member);
  if (!blocking) return ncclInProgress;
  if (open_group.depth > 0) {
    open_group.initialised.push_back(member);
    return ncclSuccess;
  }
  return wait_until_joined(*member);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (count < 1 || count > machine().device_count()) return ncclInvalidArgument;
  const Ref<Group> group = Ref<Group>::make(count);
  for (int rank = 0; rank < count; ++rank) {
    comms[rank] = new_handle(join(group, rank, devices == nullptr ? rank : devices[rank], true));
  }
  return wait_until_joined(*comms[0]->member);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* split, ncclConfig_t* config) {
  if (comm == nullptr || split == nullptr || color < NCCL_SPLIT_NOCOLOR) return ncclInvalidArgument;
  const Ref<Member> member = member_of(comm);
  if (!member || state_of(*member) != ncclSuccess)
    return fail_nccl(ncclInvalidArgument, "split of an unready communicator");
  *split = nullptr;
  const bool blocking = config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT
                            ? member->blocking
                            : config->blocking != 0;
  Group& group = *member->group;
  const Quiet quiet;
  std::unique_lock lock(group.mutex);
  Ref<SplitRound>& found = group.splits[member->splits++];
  if (!found) found = Ref<SplitRound>::make(group.size());
  const Ref<SplitRound> round = found;
  round->requests[static_cast<std::size_t>(member->rank)] = SplitRequest{color, key};
  const bool all = std::all_of(round->requests.begin(), round->requests.end(),
                               [](const auto& r) { return r.has_value(); });
  if (all) complete_split(*round, group);
  group.changed.notify_all();
  if (color != NCCL_SPLIT_NOCOLOR) *split = new ncclComm{{}, member, round};
  if (!blocking) return ncclInProgress;
  group.changed.wait(lock, [&] { return member->aborted || round->complete; });
  return round->complete ? ncclSuccess : ncclRemoteError;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  const Ref<Member> member = member_of(comm);
  if (!member) return ncclInvalidArgument;
  const Quiet quiet;
  std::unique_lock lock(member->group->mutex);
  member->finalized = true;
  if (!member->blocking) return member->outstanding > 0 ? ncclInProgress : ncclSuccess;
  member->group->changed.wait(lock, [&] { return member->outstanding == 0; });
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  if (const Ref<Member> member = member_of(comm)) {
    const Quiet quiet;
    std::unique_lock lock(member->group->mutex);
    member->group->changed.wait(lock, [&] { return member->outstanding == 0; });
  }
  const Quiet quiet;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  if (const Ref<Member> member = member_of(comm)) {
    const Quiet quiet;
    const std::lock_guard lock(member->group->mutex);
    member->aborted = true;
    member->group->changed.notify_all();
  }
  const Quiet quiet;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  const Ref<Member> member = member_of(comm);
  *error = member ? state_of(*member) : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  const Ref<Member> member = comm == nullptr ? Ref<Member>() : member_of(comm);
  if (!member) return ncclInvalidArgument;
  *count = member->group->size();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  const Ref<Member> member = comm == nullptr ? Ref<Member>() : member_of(comm);
  if (!member) return ncclInvalidArgument;
  *device = member->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  const Ref<Member> member = comm == nullptr ? Ref<Member>() : member_of(comm);
  if (!member) return ncclInvalidArgument;
  *rank = member->rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++open_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_group.depth == 0) return fail_nccl(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--open_group.depth > 0) return ncclSuccess;
  std::vector<PendingCall> calls;
  std::vector<Ref<Member>> initialised;
  calls.swap(open_group.calls);
  initialised.swap(open_group.initialised);
  for (const Ref<Member>& member : initialised) {
    if (const auto error = wait_until_joined(*member)) return error;
  }
  launch_all(std::move(calls));
  return ncclSuccess;
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue({CallKind::reduce_scatter, send, receive, receive_count, type, op, 0}, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue({CallKind::all_gather, send, receive, send_count, type, ncclSum, 0}, comm, stream);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue({CallKind::all_reduce, send, receive, count, type, op, 0}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue({CallKind::broadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return issue({CallKind::send, send, nullptr, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return issue({CallKind::receive, nullptr, receive, count, type, ncclSum, peer}, comm, stream);
}
