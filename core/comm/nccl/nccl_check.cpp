#include "core/comm/nccl/nccl_check.h"

#include <fmt/format.h>

namespace zero1 {
namespace {

std::string last_error(ncclComm_t comm) {
  const char* text = ncclGetLastError(comm);
  return text == nullptr || *text == '\0' ? "" : fmt::format(" ({})", text);
}

}  // namespace

NcclError::NcclError(ncclResult_t code, const char* call, const char* file, int line, ncclComm_t comm)
    : Error(fmt::format("{} failed at {}:{}: {}{}; NCCL_DEBUG=INFO shows more", call, file, line,
                        ncclGetErrorString(code), last_error(comm))),
      code_(code) {}

std::string nccl_version() {
  int version = 0;
  ZERO1_NCCL_CHECK(ncclGetVersion(&version));
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace zero1
