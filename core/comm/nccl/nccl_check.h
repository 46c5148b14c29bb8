// Turns NCCL's error codes into exceptions.
#pragma once

#include <nccl.h>

#include <string>

#include "core/base/error.h"

namespace zero1 {

/// An NCCL call failed. The message has the call, its place, NCCL's words for the error, and what it last
/// logged, which names the system call or the peer.
class NcclError : public Error {
 public:
  NcclError(ncclResult_t code, const char* call, const char* file, int line, ncclComm_t comm = nullptr);
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

/// "NCCL 2.28.9"
std::string nccl_version();

}  // namespace zero1

/// Non-blocking communicators answer ncclInProgress: the call has been taken, its outcome is to be polled.
#define ZERO1_NCCL_CHECK(call)                                                 \
  do {                                                                         \
    const ncclResult_t zero1_nccl_code = (call);                               \
    if (zero1_nccl_code != ncclSuccess && zero1_nccl_code != ncclInProgress) { \
      throw ::zero1::NcclError(zero1_nccl_code, #call, __FILE__, __LINE__);    \
    }                                                                          \
  } while (false)

namespace zero1::nccl {

/// Calls between its construction and `end` are one NCCL launch. NCCL's group is the thread's, so it has to
/// be closed also where an exception passes.
class NcclGroup {
 public:
  NcclGroup() { ZERO1_NCCL_CHECK(ncclGroupStart()); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() {
    if (!ended_) static_cast<void>(ncclGroupEnd());
  }
  void end() {
    ended_ = true;
    ZERO1_NCCL_CHECK(ncclGroupEnd());
  }

 private:
  bool ended_ = false;
};

}  // namespace zero1::nccl
