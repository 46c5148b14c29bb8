// NVTX's nested ranges, kept for tests.
#include <nvtx3/nvToolsExt.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_emulation/control.h"
#include "runtime/tsan.h"

struct nvtxDomainRegistration_st {
  std::string name;
};

namespace cuda_emulation {
namespace {

struct Watched {
  std::mutex mutex;
  bool on = false;
  std::vector<Range> ranges;
};

Watched& watched() {
  static Watched& the_watched = *new Watched;
  return the_watched;
}

/// Titles of the ranges that this thread has open, by domain.
std::vector<std::string>& open_ranges(nvtxDomainHandle_t domain) {
  thread_local std::map<nvtxDomainHandle_t, std::vector<std::string>> open;
  return open[domain];
}

}  // namespace

void watch_ranges(bool on) {
  const Quiet quiet;
  const std::lock_guard lock(watched().mutex);
  watched().on = on;
  watched().ranges.clear();
}

std::vector<Range> ranges() {
  const std::lock_guard lock(watched().mutex);
  return watched().ranges;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

nvtxDomainHandle_t nvtxDomainCreateA(const char* name) {
  return new nvtxDomainRegistration_st{name};
}

int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const Quiet quiet;
  std::vector<std::string>& open = open_ranges(domain);
  open.emplace_back(attributes->message.ascii);
  return static_cast<int>(open.size()) - 1;
}

int nvtxDomainRangePop(nvtxDomainHandle_t domain) {
  const Quiet quiet;
  std::vector<std::string>& open = open_ranges(domain);
  if (open.empty()) return -1;
  const std::lock_guard lock(watched().mutex);
  if (watched().on)
    watched().ranges.push_back({domain->name, open.back(), static_cast<int>(open.size()) - 1});
  open.pop_back();
  return static_cast<int>(open.size());
}
