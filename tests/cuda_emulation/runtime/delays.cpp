#include "runtime/delays.h"

#include "runtime/tsan.h"

namespace cuda_emulation {
namespace {

using namespace std::chrono_literals;

/// How long nothing else has to happen before a held operation starts. It only bounds what a delay costs.
constexpr auto patience = 2ms;
constexpr auto demanded_patience = 100us;

std::uint64_t mixed(std::uint64_t z) {  // splitmix64
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace

unsigned Delays::turns(std::uint64_t stream, std::uint64_t number) const {
  if (!on()) return 0;
  const std::uint64_t bits = mixed(mixed(seed_.load(std::memory_order_relaxed) + stream) + number);
  return bits % 4 == 0 ? 1 + static_cast<unsigned>(bits >> 32) % 16 : 0;
}

void Delays::hold(unsigned turns, const std::atomic<std::uint64_t>& demanded, std::uint64_t number) {
  const Quiet quiet;
  std::unique_lock lock(mutex_);
  const std::uint64_t until = ended_ + turns;
  while (ended_ < until) {
    const std::uint64_t seen = ended_;
    const bool awaited = demanded.load(std::memory_order_relaxed) >= number;
    const auto wait = awaited ? std::chrono::microseconds(demanded_patience) : patience;
    if (!ended_changed_.wait_for(lock, wait, [&] { return ended_ != seen; })) return;
  }
}

void Delays::operation_ended() {
  if (!on()) return;
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  ++ended_;
  ended_changed_.notify_all();
}

}  // namespace cuda_emulation
