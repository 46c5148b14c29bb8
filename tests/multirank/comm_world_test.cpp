// What in-process groups do beyond the conformance suite: time-outs, pausing, failed streams, run_ranks.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/local/local_world.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/support/message.h"

using namespace zero1;
using namespace std::chrono_literals;
using zero1::test::contains;
using zero1::test::message_of;

namespace {

/// One rank's device, communication stream and communicator.
struct Rank {
  Rank(LocalWorld& world, int rank)
      : device(make_cpu_device({})),
        stream(device->create_stream(StreamKind::communication)),
        communicator(world.communicator(rank)) {}

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Communicator> communicator;
};

std::vector<Rank> make_ranks(LocalWorld& world) {
  std::vector<Rank> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.emplace_back(world, rank);
  return ranks;
}

struct Caught {
  int failed_rank = -1;
  std::string what;
};

/// What `work` throws as a PeerError; fails the test if it throws nothing or something else.
Caught peer_error_of(const Work& work) {
  try {
    work.wait();
  } catch (const PeerError& error) {
    return {error.failed_rank(), error.what()};
  }
  FAIL("expected a PeerError");
  return {};
}

}  // namespace

TEST_CASE("a time-out names who has not arrived and what the others called") {
  LocalWorld world(4, {.name = "slow", .timeout = 200ms, .paused = {}});
  auto ranks = make_ranks(world);
  std::promise<void> release;
  dynamic_cast<CpuStream&>(*ranks[3].stream).submit([future = release.get_future().share()] {
    future.wait();
  });
  std::vector<float> data(7);
  const TensorView view(data.data(), DType::fp32, 7);
  std::vector<Work> works;
  for (const int rank : {0, 2, 3}) {
    auto& r = ranks[static_cast<std::size_t>(rank)];
    works.push_back(r.communicator->all_reduce(*r.stream, view, ReduceOp::max));
  }
  for (const int index : {0, 1}) {
    const Caught caught = peer_error_of(works[static_cast<std::size_t>(index)]);
    CHECK(caught.failed_rank == 1);
    for (const char* part :
         {"time-out after", "'slow'", "rank 0: all_reduce float32, 7 elements, max",
          "rank 1: has not arrived: it has issued 0 calls", "rank 2: all_reduce",
          "rank 3: has not arrived: it has issued its call, but its stream has not reached it"}) {
      CHECK_MESSAGE(contains(caught.what, part), caught.what);
    }
  }
  release.set_value();
  CHECK(contains(peer_error_of(works[2]).what, "time-out"));
  CHECK(contains(peer_error_of(ranks[1].communicator->barrier(*ranks[1].stream)).what, "time-out"));
}

TEST_CASE("a pause on purpose stops the time-out's clock") {
  std::atomic<bool> paused{true};
  LocalWorld world(2, {.name = "paused", .timeout = 150ms, .paused = [&] { return paused.load(); }});
  auto ranks = make_ranks(world);
  const Work first = ranks[0].communicator->barrier(*ranks[0].stream);
  std::this_thread::sleep_for(600ms);
  CHECK(!first.completed());
  const Work second = ranks[1].communicator->barrier(*ranks[1].stream);
  first.wait();
  second.wait();
  const Work alone = ranks[0].communicator->barrier(*ranks[0].stream);
  paused = false;
  CHECK(peer_error_of(alone).failed_rank == 1);
}

TEST_CASE("a stream that has failed does not leave its peers waiting") {
  LocalWorld world(2);
  auto ranks = make_ranks(world);
  dynamic_cast<CpuStream&>(*ranks[1].stream).submit([] { throw std::runtime_error("a kernel failed"); });
  const Work lost = ranks[1].communicator->barrier(*ranks[1].stream);
  const Caught caught = peer_error_of(ranks[0].communicator->barrier(*ranks[0].stream));
  CHECK(caught.failed_rank == 1);
  CHECK_MESSAGE(contains(caught.what, "its stream had failed"), caught.what);
  CHECK_THROWS_WITH_AS(lost.wait(), "a kernel failed", std::runtime_error);
}

TEST_CASE("calls on several streams of a rank meet in the order in which they were issued") {
  LocalWorld world(2);
  auto ranks = make_ranks(world);
  std::vector<Work> works;
  std::vector<float> a{1, 10}, b{2, 20};
  const auto view = [](float& value) { return TensorView(&value, DType::fp32, 1); };
  const auto second_stream = ranks[0].device->create_stream(StreamKind::communication);
  works.push_back(ranks[0].communicator->all_reduce(*ranks[0].stream, view(a[0]), ReduceOp::sum));
  works.push_back(ranks[0].communicator->all_reduce(*second_stream, view(b[0]), ReduceOp::sum));
  works.push_back(ranks[1].communicator->all_reduce(*ranks[1].stream, view(a[1]), ReduceOp::sum));
  works.push_back(ranks[1].communicator->all_reduce(*ranks[1].stream, view(b[1]), ReduceOp::sum));
  for (const Work& work : works) work.wait();
  CHECK(a == std::vector<float>{11, 11});
  CHECK(b == std::vector<float>{22, 22});
  CHECK(works[0].started_ns() > 0);
  CHECK(works[0].started_ns() == works[2].started_ns());
  CHECK(works[1].started_ns() == works[3].started_ns());
}

TEST_CASE("collectives run on the inline compute stream too") {
  constexpr int size = 3;
  LocalWorld world(size);
  run_ranks(size, [&](int rank) {
    const auto device = make_cpu_device({});
    const auto stream = device->create_stream(StreamKind::compute);
    const auto communicator = world.communicator(rank);
    double value = rank + 1;
    const Work work = communicator->all_reduce(*stream, {&value, DType::fp64, 1}, ReduceOp::sum);
    if (!work.completed() || value != 6) throw std::logic_error("an inline all_reduce did not complete");
  });
}

TEST_CASE("ranks that were never made count as having left") {
  std::vector<Work> works;
  auto world = std::make_unique<LocalWorld>(3);
  Rank first(*world, 0), second(*world, 1);
  works.push_back(first.communicator->barrier(*first.stream));
  works.push_back(second.communicator->barrier(*second.stream));
  world.reset();
  for (const Work& work : works) CHECK(peer_error_of(work).failed_rank == 2);
}

TEST_CASE("misuse is told at once") {
  CHECK_THROWS_AS(LocalWorld(0), std::invalid_argument);
  CHECK_THROWS_AS(LocalWorld(2, {.name = "x", .timeout = 0ms, .paused = {}}), std::invalid_argument);
  LocalWorld world(2);
  const auto communicator = world.communicator(0);
  CHECK_THROWS_AS(world.communicator(0), std::logic_error);
  CHECK_THROWS_AS(world.communicator(2), std::invalid_argument);
  CHECK_THROWS_AS(world.communicator(-1), std::invalid_argument);
  struct ForeignStream final : Stream {
    StreamKind kind() const override { return StreamKind::communication; }
    void record(Event&) override {}
    void wait(Event&) override {}
    void synchronize() override {}
    void stamp(std::function<void(std::int64_t)>) override {}
  } foreign;
  CHECK(contains(message_of<std::invalid_argument>([&] { communicator->barrier(foreign); }), "CPU streams"));
  CHECK_THROWS_AS(communicator->end_coalescing(foreign), std::logic_error);
  communicator->begin_coalescing();
  CHECK_THROWS_AS(communicator->begin_coalescing(), std::logic_error);
}

TEST_CASE("an abandoned coalesced launch fails the peers") {
  LocalWorld world(2);
  auto ranks = make_ranks(world);
  const Work waiting = ranks[0].communicator->barrier(*ranks[0].stream);
  { const CoalescingScope scope(*ranks[1].communicator, *ranks[1].stream); }
  const Caught caught = peer_error_of(waiting);
  CHECK(caught.failed_rank == 1);
  CHECK_MESSAGE(contains(caught.what, "abandoned"), caught.what);
}

TEST_CASE("run_ranks ends with the first failure that is not a peer's") {
  std::atomic<int> ran{0}, told{0};
  run_ranks(5, [&](int rank) { ran += 1 << rank; });
  CHECK(ran == 31);
  CHECK_THROWS_AS(run_ranks(0, [](int) {}), std::invalid_argument);
  const auto body = [](int rank) {
    if (rank == 1) throw PeerError("rank 2 is gone", 2);
    if (rank == 2) throw InputError("no such file");
  };
  CHECK_THROWS_WITH_AS(run_ranks(3, body, [&](int rank, const std::string&) { told += rank; }),
                       "no such file", InputError);
  CHECK(told == 3);
  const auto peers_only = [](int rank) { throw PeerError(fmt::format("rank {}", rank), rank); };
  CHECK_THROWS_AS(run_ranks(2, peers_only), PeerError);
  CHECK_THROWS_WITH_AS(run_ranks(
                           1, [](int) { throw std::runtime_error("first"); },
                           [](int, const std::string&) { throw std::runtime_error("second"); }),
                       "first", std::runtime_error);
  std::string what;
  CHECK_THROWS_AS(run_ranks(
                      1, [](int) { throw 7; }, [&](int, const std::string& text) { what = text; }),
                  int);
  CHECK(what == "unknown exception");
}
