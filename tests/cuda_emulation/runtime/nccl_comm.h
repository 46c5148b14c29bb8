// What NCCL's communicators and its calls share.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "runtime/nccl_group.h"

/// A handle. A split that is not complete has no member yet.
struct ncclComm {
  cuda_emulation::Ref<cuda_emulation::Member> member;
  cuda_emulation::Ref<cuda_emulation::Member> parent;  ///< of a split under way
  cuda_emulation::Ref<cuda_emulation::SplitRound> split;
  bool blocking;
};

namespace cuda_emulation {

/// Returns `result` and explains it on standard error.
ncclResult_t fail_nccl(ncclResult_t result, const std::string& why);

/// The member, made from a split that has completed meanwhile; null while it has not.
Ref<Member> member_of(ncclComm_t comm);

/// What ncclCommGetAsyncError says.
ncclResult_t state_of(Member& member);

ncclResult_t wait_until_joined(Member& member);

/// What this thread has called since ncclGroupStart.
struct OpenGroup {
  struct PendingCall {
    Ref<Member> member;
    cudaStream_t stream;
    Call call;
  };
  int depth = 0;
  std::vector<PendingCall> calls;
  std::vector<Ref<Member>> initialised;  ///< whose blocking initialisation ncclGroupEnd must await
};

OpenGroup& open_group();

}  // namespace cuda_emulation
