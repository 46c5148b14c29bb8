// The link model's times: the formulas, and that streams keep to them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/clock.h"
#include "core/comm/link_model.h"
#include "core/comm/local/local_world.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/support/sanitizers.h"

using namespace zero1;

namespace {

/// Issues `call` on `size` ranks behind `link` a few times; the smallest time, in us, that any rank's
/// stream was busy from when all had arrived until it had passed the collective.
template <class Call>
double busy_us(int size, const LinkModel& link, const Call& call) {
  LocalWorld world(size);
  std::mutex mutex;
  double least_us = 1e12;
  run_ranks(size, [&](int rank) {
    const auto device = make_cpu_device({});
    const auto stream = device->create_stream(StreamKind::communication);
    const auto communicator = with_link_model(world.communicator(rank), link);
    for (int i = 0; i < 9; ++i) {
      std::int64_t end_ns = 0;
      const Work work = call(*communicator, *stream);
      stream->stamp([&](std::int64_t now) { end_ns = now; });
      stream->synchronize();
      const std::lock_guard lock(mutex);
      least_us = std::min(least_us, static_cast<double>(end_ns - work.started_ns()) * 1e-3);
    }
  });
  return least_us;
}

/// Never shorter than modelled; and precise, as soon as the machine has a quiet moment. Sanitizers may make
/// moving the data slower than the modelled link: then only the lower bound holds.
template <class Call>
void check_time(int size, const LinkModel& link, double expected_us, const Call& call) {
  constexpr double tolerance_us = 50;
  double least_us = 1e12;
  for (int attempt = 0; attempt < 10 && least_us > expected_us + tolerance_us; ++attempt) {
    const double us = busy_us(size, link, call);
    CHECK(us >= expected_us - 1e-3);
    least_us = std::min(least_us, us);
    if (test::sanitized) return;
  }
  CHECK(least_us <= expected_us + tolerance_us);
}

constexpr std::int64_t numel = 100'000;  // 400,000 bytes

/// Two buffers of the calling rank's own thread.
TensorView view_a(std::int64_t n = numel) {
  thread_local std::vector<float> data(numel);
  return {data.data(), DType::fp32, n};
}
TensorView view_b(std::int64_t n = numel) {
  thread_local std::vector<float> data(numel);
  return {data.data(), DType::fp32, n};
}

}  // namespace

TEST_CASE("modelled durations are those of ring algorithms") {
  const LinkModel link{.gbit_per_s = 8, .latency_us = 5};  // one byte per ns
  CHECK(link.duration_ns(4, 3, 3000) == 3 * 5000 + 3000);
  CHECK(link.duration_ns(1, 3, 3000) == 0);
  CHECK(LinkModel{.gbit_per_s = 0, .latency_us = 5}.duration_ns(2, 2, 1 << 30) == 10000);
  CHECK(LinkModel{.gbit_per_s = 8, .latency_us = 0}.duration_ns(2, 2, 12345) == 12345);
  CHECK(!LinkModel{}.enabled());
}

TEST_CASE("a stream is busy for the modelled time of each collective") {
  const LinkModel link{.gbit_per_s = 8, .latency_us = 300};
  check_time(4, link, 3 * 300 + 300, [&](Communicator& c, Stream& s) {
    return c.reduce_scatter(s, view_a(numel / 4), view_b(), ReduceOp::sum);
  });
  check_time(4, link, 3 * 300 + 300,
             [&](Communicator& c, Stream& s) { return c.all_gather(s, view_a(), view_b(numel / 4)); });
  check_time(4, link, 6 * 300 + 600,
             [&](Communicator& c, Stream& s) { return c.all_reduce(s, view_a(), ReduceOp::sum); });
  check_time(2, link, 300 + 400, [&](Communicator& c, Stream& s) { return c.broadcast(s, view_a(), 1); });
  check_time(2, link, 300 + 300, [&](Communicator& c, Stream& s) {
    const std::int64_t quarter = numel / 4;
    const std::vector<std::int64_t> own_less{quarter, 3 * quarter}, own_more{3 * quarter, quarter};
    const auto& counts = c.rank() == 0 ? own_less : own_more;
    return c.all_to_all(s, view_a(), counts, view_b(), counts);
  });
  check_time(3, link, 4 * 300, [&](Communicator& c, Stream& s) { return c.barrier(s); });
}

TEST_CASE("a coalesced launch pays the latency once and the bytes of all calls") {
  const LinkModel link{.gbit_per_s = 8, .latency_us = 300};
  check_time(2, link, 300 + 3 * 200, [&](Communicator& c, Stream& s) {
    thread_local std::vector<float> data(300'000);
    CoalescingScope scope(c, s);
    for (int i = 0; i < 3; ++i) {
      const TensorView whole(data.data() + i * 100'000, DType::fp32, 100'000);
      c.reduce_scatter(s, whole.slice({c.rank() * 50'000, (c.rank() + 1) * 50'000}), whole, ReduceOp::sum);
    }
    return scope.finish();
  });
}

TEST_CASE("what is modelled says so, in split groups too") {
  LocalWorld world(1);
  auto plain = world.communicator(0);
  CHECK(!plain->modelled());
  const Communicator* same = plain.get();
  plain = with_link_model(std::move(plain), {});
  CHECK(plain.get() == same);
  CHECK_THROWS_AS(with_link_model(nullptr, {.gbit_per_s = -1, .latency_us = 0}), std::invalid_argument);
  const auto modelled = with_link_model(std::move(plain), {.gbit_per_s = 10, .latency_us = 5});
  CHECK(modelled->modelled());
  CHECK(modelled->description() == "in-process + modelled link (10 Gbit/s, 5 us)");
  CHECK(modelled->split(0, 0, "part")->modelled());
}
