// What NCCL's communicators and its calls share.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "runtime/nccl_group.h"

/// A handle.
struct ncclComm {
  cuda_emulation::Ref<cuda_emulation::Member> member;
};

namespace cuda_emulation {

/// Returns `result` and explains it on standard error.
ncclResult_t fail_nccl(ncclResult_t result, const std::string& why);

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
