// NCCL's communicators: made, split, asked, ended.
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "runtime/errors.h"
#include "runtime/machine.h"
#include "runtime/nccl_comm.h"

using namespace cuda_emulation;

namespace cuda_emulation {

ncclResult_t fail_nccl(ncclResult_t result, const std::string& why) {
  explain("NCCL: " + why);
  return result;
}

ncclResult_t state_of(Member& member) {
  const Quiet quiet;
  const std::lock_guard lock(member.group->mutex);
  if (member.error != ncclSuccess) return member.error;
  if (!member.group->joined() || member.splitting) return ncclInProgress;
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

OpenGroup& open_group() {
  thread_local OpenGroup group;
  return group;
}

}  // namespace cuda_emulation

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
  return new ncclComm{member};
}

/// The last rank has asked: makes the new groups, ordered by key and then rank, and their handles.
void complete_split(SplitRound& split) {
  std::map<int, std::vector<SplitRequest*>> by_color;
  for (auto& request : split.requests) by_color[request->color].push_back(&*request);
  for (auto& [color, requests] : by_color) {
    std::stable_sort(requests.begin(), requests.end(),
                     [](const SplitRequest* a, const SplitRequest* b) { return a->key < b->key; });
    const Ref<Group> group = Ref<Group>::make(static_cast<int>(requests.size()));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      SplitRequest& request = *requests[i];
      group->devices[i] = request.device;
      if (color == NCCL_SPLIT_NOCOLOR) continue;
      request.made =
          new_handle(Ref<Member>::make(group, static_cast<int>(i), request.device, request.blocking));
    }
  }
  split.complete = true;
}

/// Waits until the split is complete, and then writes its communicator to `where`.
void deliver(const Ref<Member>& member, const Ref<SplitRound>& round, ncclComm_t* where) {
  Group& group = *member->group;
  ncclComm_t made = nullptr;
  std::unique_lock lock(group.mutex, std::defer_lock);
  {
    const Quiet quiet;
    lock.lock();
    group.changed.wait(lock, [&] { return member->aborted || round->complete; });
    if (!member->aborted) made = round->requests[static_cast<std::size_t>(member->rank)]->made;
  }
  if (made != nullptr) *where = made;
  released(member.get());
  const Quiet quiet;
  member->splitting = false;
  group.changed.notify_all();
  lock.unlock();
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
  if (open_group().depth > 0) {
    open_group().initialised.push_back(member);
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
  const Ref<Member> member = comm->member;
  if (state_of(*member) != ncclSuccess)
    return fail_nccl(ncclInvalidArgument, "split of an unready communicator");
  *split = nullptr;
  const bool blocking = config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT
                            ? member->blocking
                            : config->blocking != 0;
  Group& group = *member->group;
  Ref<SplitRound> round;
  {
    const Quiet quiet;
    const std::lock_guard lock(group.mutex);
    member->splitting = true;
    const std::uint64_t number = member->splits++;
    Ref<SplitRound>& found = group.splits[number];
    if (!found) found = Ref<SplitRound>::make(group.size());
    round = found;
    round->requests[static_cast<std::size_t>(member->rank)] =
        SplitRequest{color, key, member->device, blocking, nullptr};
    if (std::all_of(round->requests.begin(), round->requests.end(),
                    [](const auto& request) { return request.has_value(); })) {
      complete_split(*round);
      group.splits.erase(number);
    }
    group.changed.notify_all();
  }
  if (!member->blocking) {
    // As NCCL does: a thread of its own writes the communicator, some time after the call has returned.
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      deliver(member, round, split);
    }).detach();
    return ncclInProgress;
  }
  deliver(member, round, split);
  acquired(member.get());
  return state_of(*member) == ncclSuccess ? ncclSuccess : ncclRemoteError;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  const Ref<Member> member = comm->member;
  const Quiet quiet;
  std::unique_lock lock(member->group->mutex);
  member->finalized = true;
  if (!member->blocking) return member->outstanding > 0 ? ncclInProgress : ncclSuccess;
  member->group->changed.wait(lock, [&] { return member->outstanding == 0; });
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const Ref<Member> member = comm->member;
  const Quiet quiet;
  std::unique_lock lock(member->group->mutex);
  member->group->changed.wait(lock, [&] { return member->outstanding == 0; });
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const Ref<Member> member = comm->member;
  const Quiet quiet;
  const std::lock_guard lock(member->group->mutex);
  member->aborted = true;
  member->group->changed.notify_all();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  *error = state_of(*comm->member);
  if (*error == ncclSuccess) acquired(comm->member.get());
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  if (comm == nullptr) return ncclInvalidArgument;
  *count = comm->member->group->size();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  if (comm == nullptr) return ncclInvalidArgument;
  *device = comm->member->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  if (comm == nullptr) return ncclInvalidArgument;
  *rank = comm->member->rank;
  return ncclSuccess;
}
