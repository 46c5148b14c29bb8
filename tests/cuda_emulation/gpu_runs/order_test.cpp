// The overlap of a run on virtual GPUs, asserted from its trace: from the order of events, never from how
// long things took.
#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>

#include "core/train/machine_cuda.h"
#include "core/train/trainer.h"
#include "cuda_emulation/control.h"

using namespace zero1;
using trace::Collective;
using TraceEvent = trace::Event;
using trace::Kind;

namespace {

constexpr int ranks = 2;
constexpr int steps = 3;

TrainConfig overlapped_gpt(const char* comm) {
  TrainConfig c;
  c.num_layers = 2;
  c.hidden_size = 24;
  c.num_attention_heads = 3;
  c.seq_length = 12;
  c.dp = ranks;
  c.global_batch_size = 2 * ranks;
  c.train_iters = steps;
  c.device = "cuda";
  c.comm = comm;
  c.data_parallel.overlap_grad_reduce = true;
  c.data_parallel.overlap_param_gather = true;
  c.data_parallel.bucket_size_elems = 4000;
  return resolve(c);
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
    const TrainSummary summary = train(config, observer, make_cuda_machine);
    CHECK(summary.trace_dropped == 0);
    buckets_ = summary.layout.bucket_count();
  }

  int buckets() const { return buckets_; }

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

 private:
  std::vector<TraceEvent> events_;
  int buckets_ = 0;
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
            CHECK(ready.begin_ns <= issue.begin_ns);
          CHECK(issue.begin_ns <= ran.end_ns);
          CHECK(ran.end_ns <= wait.end_ns);  // the compute stream goes on when the collective has ended
          CHECK(wait.end_ns <= run.find(rank, step, Kind::grad_norm)[0].end_ns);
          CHECK(ran.end_ns <= run.find(rank, step, Kind::adamw, b)[0].begin_ns);
        }
      }
    }
  }
}

TEST_CASE("on GPUs reductions are issued while backward goes on, and gathers while forward does") {
  for (const char* comm : {"local", "nccl"}) {
    CAPTURE(comm);
    const RecordedRun run(overlapped_gpt(comm));
    for (int rank = 0; rank < ranks; ++rank) {
      for (int step = 2; step <= steps; ++step) {
        // By the host's order of issue: every bucket but the last one's reduction comes before the gradient
        // of the bucket that follows it.
        for (int b = 0; b + 1 < run.buckets(); ++b) {
          const TraceEvent issue =
              run.collective(rank, step, Kind::collective_issue, Collective::reduce_scatter, b);
          CHECK(issue.begin_ns <= run.find(rank, step, Kind::grad_ready, b + 1).back().begin_ns);
        }
        // One bucket's parameters at most are gathered ahead of the first layer's forward.
        const std::int64_t forward = run.find(rank, step, Kind::forward)[0].begin_ns;
        int ahead = 0;
        for (const TraceEvent& e : run.find(rank, step, Kind::collective_issue)) {
          if (e.detail == static_cast<std::uint8_t>(Collective::all_gather) && e.begin_ns <= forward) ++ahead;
        }
        CHECK(ahead <= 1);
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
  }
}
