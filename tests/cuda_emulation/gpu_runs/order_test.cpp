// The overlap of a run on virtual GPUs, asserted from its trace: from the order of events, never from how
// long things took.
#include <doctest/doctest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "core/device/cuda/cuda_device.h"
#include "core/trace/reader.h"
#include "core/train/machine_cuda.h"
#include "core/train/trainer.h"
#include "cuda_emulation/control.h"
#include "tests/cuda_emulation/gpu_runs/overlapped_gpt.h"

using namespace zero1;
using trace::Collective;
using TraceEvent = trace::Event;
using trace::Kind;

namespace {

constexpr int ranks = 2;
constexpr int steps = 3;

TrainConfig overlapped_gpt(const char* comm) {
  return test::overlapped_gpt(comm, ranks, steps);
}

/// The events of a run.
class RecordedRun {
 public:
  explicit RecordedRun(const TrainConfig& config) {
    std::mutex mutex;
    TrainObserver observer;
    observer.on_events = [&](std::span<const TraceEvent> batch) {
      const std::lock_guard lock(mutex);
      events_.insert(events_.end(), batch.begin(), batch.end());
    };
    std::vector<const Device*> devices;
    const auto make_machine = [&](const TrainConfig& c, std::function<bool()> paused) {
      Machine machine = make_cuda_machine(c, std::move(paused));
      for (const auto& device : machine.devices) devices.push_back(device.get());
      return machine;
    };
    observer.on_rank_done = [&](int rank, RankTrainer&) {
      const std::lock_guard lock(mutex);
      error_ns_ = std::max(error_ns_, devices[static_cast<std::size_t>(rank)]->clock_error_ns());
    };
    const TrainSummary summary = train(config, observer, make_machine);
    CHECK(summary.trace_dropped == 0);
    buckets_ = summary.layout.bucket_count();
  }

  int buckets() const { return buckets_; }

  /// Did `a` happen before `b`, as far as clocks can tell? Times on a GPU are known within a bound.
  bool in_order(std::int64_t a_ns, std::int64_t b_ns) const { return a_ns <= b_ns + 2 * error_ns_; }

  std::vector<TraceEvent> find(int rank, int step, Kind kind, int bucket = -1) const {
    std::vector<TraceEvent> found;
    for (const TraceEvent& e : events_) {
      if (e.rank == rank && e.step == step && e.kind == kind && (bucket < 0 || e.bucket == bucket))
        found.push_back(e);
    }
    std::sort(found.begin(), found.end(),
              [](const TraceEvent& a, const TraceEvent& b) { return a.begin_ns < b.begin_ns; });
    return found;
  }

  TraceEvent collective(int rank, int step, Kind kind, Collective what, int bucket) const {
    for (const TraceEvent& e : find(rank, step, kind, bucket)) {
      if (e.detail == static_cast<std::uint8_t>(what)) return e;
    }
    FAIL("no such event");
    return {};
  }

  /// A rank's all-gathers of the whole run, in order.
  std::vector<TraceEvent> gathers(int rank, Kind kind) const {
    std::vector<TraceEvent> found;
    for (int step = 0; step <= steps; ++step) {
      for (const TraceEvent& e : find(rank, step, kind)) {
        if (e.detail == static_cast<std::uint8_t>(Collective::all_gather)) found.push_back(e);
      }
    }
    std::sort(found.begin(), found.end(),
              [](const TraceEvent& a, const TraceEvent& b) { return a.begin_ns < b.begin_ns; });
    return found;
  }

 private:
  std::vector<TraceEvent> events_;
  int buckets_ = 0;
  std::int64_t error_ns_ = 0;
};

}  // namespace

TEST_CASE("on GPUs each bucket is reduced after its gradients and before the step") {
  for (const char* comm : {"local", "nccl"}) {
    CAPTURE(comm);
    const RecordedRun run(overlapped_gpt(comm));
    REQUIRE(run.buckets() > 3);
    for (int rank = 0; rank < ranks; ++rank) {
      for (int step = 1; step <= steps; ++step) {
        for (int b = 0; b < run.buckets(); ++b) {
          const TraceEvent issue =
              run.collective(rank, step, Kind::collective_issue, Collective::reduce_scatter, b);
          const TraceEvent ran =
              run.collective(rank, step, Kind::collective_run, Collective::reduce_scatter, b);
          const TraceEvent wait =
              run.collective(rank, step, Kind::collective_wait, Collective::reduce_scatter, b);
          for (const TraceEvent& ready : run.find(rank, step, Kind::grad_ready, b))
            CHECK(run.in_order(ready.begin_ns, issue.begin_ns));
          CHECK(run.in_order(issue.begin_ns, ran.end_ns));
          CHECK(run.in_order(ran.end_ns,
                             wait.end_ns));  // the compute stream goes on when the collective has ended
          CHECK(run.in_order(wait.end_ns, run.find(rank, step, Kind::grad_norm)[0].end_ns));
          CHECK(run.in_order(ran.end_ns, run.find(rank, step, Kind::adamw, b)[0].begin_ns));
        }
      }
    }
  }
}

TEST_CASE("on GPUs reductions are issued while backward goes on") {
  for (const char* comm : {"local", "nccl"}) {
    CAPTURE(comm);
    const RecordedRun run(overlapped_gpt(comm));
    for (int rank = 0; rank < ranks; ++rank) {
      for (int step = 2; step <= steps; ++step) {
        for (int b = 0; b + 1 < run.buckets(); ++b) {  // before the next bucket's gradients are all there
          const TraceEvent issue =
              run.collective(rank, step, Kind::collective_issue, Collective::reduce_scatter, b);
          CHECK(issue.begin_ns <= run.find(rank, step, Kind::grad_ready, b + 1).back().begin_ns);
        }
      }
    }
  }
}

TEST_CASE("on GPUs gathers run in the order of forward, after the update and before who waits for them") {
  for (const char* comm : {"local", "nccl"}) {
    CAPTURE(comm);
    const RecordedRun run(overlapped_gpt(comm));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto issues = run.gathers(rank, Kind::collective_issue);
      const auto runs = run.gathers(rank, Kind::collective_run);
      const auto waits = run.gathers(rank, Kind::collective_wait);
      const auto count = static_cast<std::size_t>(steps * run.buckets());
      REQUIRE(issues.size() == count);
      REQUIRE(runs.size() == count);
      REQUIRE(waits.size() == count);
      for (std::size_t i = 0; i < count; ++i) {
        const int step = 1 + static_cast<int>(i) / run.buckets();
        const int bucket = run.buckets() - 1 - static_cast<int>(i) % run.buckets();
        CHECK(issues[i].bucket == bucket);
        CHECK(runs[i].bucket == bucket);
        CHECK(waits[i].bucket == bucket);
        CHECK(run.in_order(run.find(rank, step, Kind::adamw, bucket)[0].end_ns, runs[i].end_ns));
        CHECK(run.in_order(runs[i].end_ns, waits[i].end_ns));
      }
    }
  }
}

TEST_CASE("the order of streams comes from events alone: lagging streams change nothing") {
  for (const char* comm : {"local", "nccl"}) {
    CAPTURE(comm);
    const TrainConfig config = overlapped_gpt(comm);
    const std::uint64_t expected = train(config, {}, make_cuda_machine).param_hash;
    for (const auto lagging : {cuda_emulation::Lagging::compute, cuda_emulation::Lagging::communication,
                               cuda_emulation::Lagging::all}) {
      cuda_emulation::set_lag(lagging, std::chrono::milliseconds(2));
      CHECK(train(config, {}, make_cuda_machine).param_hash == expected);
    }
    cuda_emulation::set_lag(cuda_emulation::Lagging::none);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(seed);
      cuda_emulation::set_delays(seed);
      CHECK(train(config, {}, make_cuda_machine).param_hash == expected);
    }
    cuda_emulation::set_delays(0);
  }
}

TEST_CASE("a profiler sees ranges with the trace's names, nested as the trace is") {
  cuda_emulation::watch_ranges(true);
  const RecordedRun run(overlapped_gpt("local"));
  const auto ranges = cuda_emulation::ranges();
  cuda_emulation::watch_ranges(false);
  const auto count = [&](const char* domain, const std::string& title, int depth) {
    return std::count_if(ranges.begin(), ranges.end(), [&](const cuda_emulation::Range& range) {
      return range.domain == domain && range.title == title && range.depth == depth;
    });
  };
  CHECK(count("zero1 compute", "step 2", 0) == ranks);
  CHECK(count("zero1 compute", "microbatch 0", 1) == steps * ranks);
  CHECK(count("zero1 compute", "forward h.0", 2) == 2 * steps * ranks);  // two microbatches
  CHECK(count("zero1 compute", "wait for all-gather bucket 1", 2) == (steps - 1) * ranks);
  CHECK(count("zero1 communication", "reduce-scatter bucket 0", 0) == steps * ranks);
}

TEST_CASE("a trace of GPUs says how far their times may be off") {
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("zero1_gpu_{}.z1t", getpid());
  TrainConfig config = overlapped_gpt("local");
  config.trace = path;
  train(config, {}, make_cuda_machine);
  const std::int64_t uncertainty = trace::Reader(path).info().clock_uncertainty_ns;
  std::filesystem::remove(path);
  CHECK(uncertainty >= 2 * 1000);  // an event's resolution, twice
}
