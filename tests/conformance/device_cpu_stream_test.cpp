// What only the CPU's streams promise: closures, the threads that run them, and their exceptions.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"

namespace zero1 {
namespace {

CpuStream& closures(Stream& stream) {
  return dynamic_cast<CpuStream&>(stream);
}

struct Streams {
  std::unique_ptr<Device> device = make_cpu_device({.threads = 1});
  std::unique_ptr<Stream> compute = device->create_stream(StreamKind::compute);
  std::unique_ptr<Stream> communication = device->create_stream(StreamKind::communication);
  std::unique_ptr<Event> event = device->create_event();
};

void fail(const char* message) {
  throw Error(message);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("the compute stream runs inline, the communication stream on one thread of its own") {
  Streams s;
  std::thread::id compute_thread, first, second;
  closures(*s.compute).submit([&] { compute_thread = std::this_thread::get_id(); });
  closures(*s.communication).submit([&] { first = std::this_thread::get_id(); });
  closures(*s.communication).submit([&] { second = std::this_thread::get_id(); });
  s.communication->synchronize();
  CHECK(compute_thread == std::this_thread::get_id());
  CHECK(first != std::this_thread::get_id());
  CHECK(first == second);
}

TEST_CASE("an event is not reached before the work recorded in it") {
  Streams s;
  std::atomic<bool> go{false};
  closures(*s.communication).submit([&] {
    while (!go) std::this_thread::yield();
  });
  s.communication->record(*s.event);
  CHECK(!s.event->reached());
  go = true;
  s.event->synchronize();
  CHECK(s.event->reached());
}

TEST_CASE("the compute stream lets exceptions out at the call and stays usable") {
  Streams s;
  CHECK(message_of([&] { closures(*s.compute).submit([] { fail("direct"); }); }) == "direct");
  int ran = 0;
  closures(*s.compute).submit([&] { ++ran; });
  s.compute->record(*s.event);
  s.event->synchronize();
  s.compute->synchronize();
  CHECK(ran == 1);
}

TEST_CASE("a failed communication stream skips what follows; everyone who waits sees the first error") {
  Streams s;
  const auto before = s.device->create_event();
  const auto again = s.device->create_event();
  const auto other = s.device->create_stream(StreamKind::communication);
  int ran = 0, stamps = 0;
  closures(*s.communication).submit([&] { ++ran; });
  s.communication->record(*before);
  closures(*s.communication).submit([] { fail("first"); });
  closures(*s.communication).submit([&] { ++ran; });
  closures(*s.communication).submit([] { fail("second"); });
  s.communication->stamp([&](std::int64_t) { ++stamps; });
  s.communication->record(*s.event);
  other->wait(*s.event);
  closures(*other).submit([&] { ++ran; });
  other->record(*again);

  before->synchronize();
  CHECK(message_of([&] { s.event->synchronize(); }) == "first");
  CHECK(s.event->reached());
  CHECK(message_of([&] { s.compute->wait(*s.event); }) == "first");
  CHECK(message_of([&] { other->synchronize(); }) == "first");
  CHECK(message_of([&] { again->synchronize(); }) == "first");
  CHECK(message_of([&] { s.communication->synchronize(); }) == "first");
  CHECK(message_of([&] { s.communication->synchronize(); }) == "first");
  closures(*s.communication).submit([&] { ++ran; });
  CHECK(message_of([&] { s.communication->synchronize(); }) == "first");
  CHECK(ran == 1);
  CHECK(stamps == 0);
}

TEST_CASE("a bad target on the communication stream surfaces at synchronize") {
  Streams s;
  const DeviceMemory logits = s.device->allocate(12, MemoryKind::other),
                     loss = s.device->allocate(8, MemoryKind::other);
  const std::int32_t target = 7;
  s.device->ops().fill(*s.communication, logits.view(DType::fp32), 0);
  s.device->ops().fill(*s.communication, loss.view(DType::fp64), 0);
  s.device->ops().cross_entropy(*s.communication, loss.view(DType::fp64), logits.view(DType::fp32), &target,
                                1, 3, 1);
  CHECK(message_of([&] { s.communication->synchronize(); }).find("target 7") != std::string::npos);
}

TEST_CASE("destroying a stream drains it, also after an error, without throwing") {
  std::atomic<int> ran{0};
  {
    Streams s;
    for (int i = 0; i < 100; ++i) closures(*s.communication).submit([&] { ++ran; });
  }
  CHECK(ran == 100);
  {
    Streams s;
    closures(*s.communication).submit([&] { ++ran; });
    closures(*s.communication).submit([] { fail("seen by nobody, logged"); });
    closures(*s.communication).submit([&] { ++ran; });
  }
  CHECK(ran == 101);
}

TEST_CASE("captured objects are released as soon as their work has run") {
  Streams s;
  auto owner = std::make_shared<int>(1);
  closures(*s.communication).submit([owner] { (void)*owner; });
  s.communication->synchronize();
  for (int i = 0; i < 1000 && owner.use_count() > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(owner.use_count() == 1);
}

TEST_CASE("many streams pass a token around by events") {
  constexpr int ring = 5, rounds = 200;
  const auto device = make_cpu_device({.threads = 1});
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < ring; ++i) {
    streams.push_back(device->create_stream(StreamKind::communication));
    events.push_back(device->create_event());
  }
  std::int64_t token = 0;  // not atomic: events must order its accesses
  for (int step = 0; step < ring * rounds; ++step) {
    const auto here = static_cast<std::size_t>(step % ring),
               last = static_cast<std::size_t>((step + ring - 1) % ring);
    streams[here]->wait(*events[last]);
    closures(*streams[here]).submit([&token, step] { token += token == step ? 1 : 1000000; });
    streams[here]->record(*events[here]);
  }
  for (const auto& stream : streams) stream->synchronize();
  CHECK(token == ring * rounds);
}

class ForeignStream final : public Stream {
 public:
  StreamKind kind() const override { return StreamKind::compute; }
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize() override {}
  void stamp(std::function<void(std::int64_t)>) override {}
};

TEST_CASE("a stream of another kind of device is refused") {
  Streams s;
  ForeignStream foreign;
  const DeviceMemory x = s.device->allocate(4, MemoryKind::other);
  CHECK_THROWS_AS(s.device->ops().fill(foreign, x.view(DType::fp32), 1), std::invalid_argument);
  CHECK_THROWS_AS(make_cpu_device({.threads = 0}), InputError);
}

}  // namespace
}  // namespace zero1
