// Streams, events and stamps, as far as every device has them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/base/clock.h"
#include "device_harness.h"

namespace zero1::test {

TEST_CASE("a stream knows its kind") {
  on_each_backend([](Rig& rig) {
    CHECK(rig.stream.kind() == StreamKind::compute);
    CHECK(rig.device->create_stream(StreamKind::communication)->kind() == StreamKind::communication);
  });
}

TEST_CASE("an event that was never recorded is reached") {
  on_each_backend([](Rig& rig) {
    const auto event = rig.device->create_event();
    CHECK(event->reached());
    event->synchronize();
    rig.stream.wait(*event);
    rig.stream.synchronize();
  });
}

TEST_CASE("work of one stream runs in order") {
  on_each_backend([](Rig& rig) {
    for (const StreamKind kind : {StreamKind::compute, StreamKind::communication}) {
      const auto stream = rig.device->create_stream(kind);
      const Tensor x(rig, DType::fp32, std::vector<double>{1, 1, 1});
      for (int i = 0; i < 20; ++i) {
        rig.ops.scale(*stream, x, 2);
        rig.ops.accumulate(*stream, x, x);
        rig.ops.scale(*stream, x, 0.25F);
      }
      rig.ops.scale(*stream, x, 3);
      stream->synchronize();
      check_equal(x.read(), std::vector<double>{3, 3, 3});
    }
  });
}

TEST_CASE("events order two streams both ways") {
  on_each_backend([](Rig& rig) {
    const auto communication = rig.device->create_stream(StreamKind::communication);
    const auto there = rig.device->create_event();
    const auto back = rig.device->create_event();
    const Tensor x(rig, DType::fp32, std::vector<double>(10000, 1));
    for (int i = 0; i < 50; ++i) {
      rig.ops.scale(rig.stream, x, 2);  // would be lost or doubled in any other order
      rig.stream.record(*there);
      communication->wait(*there);
      rig.ops.scale(*communication, x, 0.5F);
      communication->record(*back);
      rig.stream.wait(*back);
    }
    rig.stream.synchronize();
    CHECK(back->reached());
    check_equal(x.read(), std::vector<double>(10000, 1));
  });
}

TEST_CASE("recording again moves an event, but not the waits that are queued") {
  on_each_backend([](Rig& rig) {
    const auto communication = rig.device->create_stream(StreamKind::communication);
    const auto event = rig.device->create_event();
    for (int i = 0; i < 100; ++i) {
      rig.stream.record(*event);
      communication->wait(*event);
      // Were the wait moved to this record, the stream would wait for its own end.
      communication->record(*event);
    }
    event->synchronize();
    CHECK(event->reached());
  });
}

TEST_CASE("stamps come in stream order, on the clock of now_ns, before synchronize returns") {
  on_each_backend([](Rig& rig) {
    for (const StreamKind kind : {StreamKind::compute, StreamKind::communication}) {
      const auto stream = rig.device->create_stream(kind);
      std::vector<std::int64_t> times;
      const std::int64_t before = now_ns();
      const Tensor x(rig, DType::fp32, std::vector<double>(1000, 1));
      for (int i = 0; i < 10; ++i) {
        stream->stamp([&times](std::int64_t ns) { times.push_back(ns); });
        rig.ops.scale(*stream, x, 1);
      }
      stream->synchronize();
      const std::int64_t after = now_ns();
      REQUIRE(times.size() == 10);
      for (std::size_t i = 0; i < times.size(); ++i) {
        CHECK(times[i] >= (i == 0 ? before : times[i - 1]));
        CHECK(times[i] <= after);
      }
    }
  });
}

TEST_CASE("a stream that is destroyed has run its work") {
  on_each_backend([](Rig& rig) {
    const Tensor x(rig, DType::fp32, std::vector<double>(50000, 1));
    {
      const auto stream = rig.device->create_stream(StreamKind::communication);
      for (int i = 0; i < 10; ++i) rig.ops.scale(*stream, x, 2);
    }
    check_equal(x.read(), std::vector<double>(50000, 1024));
  });
}

}  // namespace zero1::test
