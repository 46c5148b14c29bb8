// NCCL's collectives and messages: checked, grouped, and queued as launches.
#include <nccl.h>

#include <cstddef>
#include <string>

#include "runtime/errors.h"
#include "runtime/machine.h"
#include "runtime/nccl_comm.h"

using namespace cuda_emulation;

namespace {

/// An error that a test wants to show before the launch runs.
ncclResult_t early_error(const Member& member, Shows shows) {
  return static_cast<ncclResult_t>(machine().take_nccl_error(member.device, shows));
}

ncclResult_t launch(const Ref<Member>& member, cudaStream_t stream, const std::vector<Call>& calls) {
  const ncclResult_t result = early_error(*member, Shows::as_result);
  const ncclResult_t error = result != ncclSuccess ? result : early_error(*member, Shows::at_once);
  const Ref<Queue> queue = queue_of(stream);
  std::vector<std::pair<RoundKey, Call>> keyed;
  keyed.reserve(calls.size());
  for (const Call& call : calls) keyed.emplace_back(member->next_key(call), call);
  {
    const Quiet quiet;
    const std::lock_guard lock(member->group->mutex);
    ++member->outstanding;
    if (error != ncclSuccess) member->error = error;
    for (const auto& [key, call] : keyed) {
      const bool message = call.kind == CallKind::send || call.kind == CallKind::receive;
      member->group->round(key, message ? 2 : member->group->size());
    }
  }
  const std::uint64_t number = submit_in_order(queue, [member, keyed] { member->run(keyed); });
  member->announce(keyed, queue, number);
  return result;
}

/// The calls of one communicator and stream become one launch.
ncclResult_t launch_all(std::vector<OpenGroup::PendingCall> pending) {
  ncclResult_t result = ncclSuccess;
  while (!pending.empty()) {
    const Ref<Member> member = pending.front().member;
    cudaStream_t const stream = pending.front().stream;
    std::vector<Call> mine;
    std::vector<OpenGroup::PendingCall> rest;
    for (const OpenGroup::PendingCall& call : pending) {
      if (call.member == member && call.stream == stream) {
        mine.push_back(call.call);
      } else {
        rest.push_back(call);
      }
    }
    const ncclResult_t launched = launch(member, stream, mine);
    if (result == ncclSuccess) result = launched;
    pending.swap(rest);
  }
  return result;
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
  const Ref<Member> member = comm->member;
  const ncclResult_t state = state_of(*member);
  if (state == ncclInProgress) {
    return fail_nccl(ncclInvalidArgument, "a communicator used before its last operation has succeeded");
  }
  if (state != ncclSuccess) return state;
  if (const auto error = check_call(call, *member, stream)) return error;
  if (open_group().depth == 0) return launch(member, stream, {call});
  const Quiet quiet;
  open_group().calls.push_back({member, stream, call});
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGroupStart() {
  ++open_group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_group().depth == 0) return fail_nccl(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--open_group().depth > 0) return ncclSuccess;
  std::vector<OpenGroup::PendingCall> calls;
  std::vector<Ref<Member>> initialised;
  calls.swap(open_group().calls);
  initialised.swap(open_group().initialised);
  for (const Ref<Member>& member : initialised) {
    if (const auto error = wait_until_joined(*member)) return error;
  }
  return launch_all(std::move(calls));
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
