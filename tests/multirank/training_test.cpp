// Whole training runs: the same bits whatever is watched, stepped, overlapped or cut into buckets.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/trace/reader.h"
#include "core/train/trainer.h"

using namespace zero1;

namespace {

TrainConfig small_gpt(int dp) {
  TrainConfig c;
  c.num_layers = 2;
  c.hidden_size = 24;
  c.num_attention_heads = 3;
  c.seq_length = 12;
  c.dp = dp;
  c.micro_batch_size = 1;
  c.global_batch_size = 2 * dp;
  c.train_iters = 3;
  c.lr.lr = 1e-2;
  c.threads_per_rank = 1;
  return c;
}

struct Outcome {
  std::vector<std::uint64_t> losses_and_norms;
  std::uint64_t params = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome run(const TrainConfig& config, TrainObserver observer = {}) {
  Outcome outcome;
  observer.on_step = [&](const StepMetrics& m) {
    outcome.losses_and_norms.push_back(std::bit_cast<std::uint64_t>(m.loss));
    outcome.losses_and_norms.push_back(std::bit_cast<std::uint64_t>(m.grad_norm));
  };
  outcome.params = train(resolve(config), observer).param_hash;
  return outcome;
}

TrainConfig overlapped(TrainConfig config, std::int64_t bucket_size) {
  config.data_parallel.overlap_grad_reduce = true;
  config.data_parallel.overlap_param_gather = true;
  config.data_parallel.bucket_size_elems = bucket_size;
  return config;
}

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("zero1_training_{}_{}", getpid(), name))
      .string();
}

}  // namespace

TEST_CASE("asked to stop, all ranks end after the same iteration, with the bits of a run of that length") {
  for (const int dp : {1, 3}) {
    CAPTURE(dp);
    TrainConfig config = overlapped(small_gpt(dp), 1000);
    config.train_iters = 200;
    std::atomic<bool> asked{false};
    TrainObserver observer;
    observer.stop_requested = [&] { return asked.load(); };
    observer.on_step_end = [&](int rank, RankTrainer&, std::int64_t step) {
      if (rank == dp - 1 && step == 4) asked = true;
    };
    std::atomic<int> done{0};
    observer.on_rank_done = [&](int, RankTrainer&) { ++done; };
    const Outcome stopped = run(config, observer);
    const auto steps = static_cast<std::int64_t>(stopped.losses_and_norms.size() / 2);
    CHECK(steps == 5);
    CHECK(done == dp);
    config.train_iters = steps;
    CHECK(run(config) == stopped);
  }
}

TEST_CASE("the same configuration gives the same bits, in every mode") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const int dp : {1, 2, 3}) {
      CAPTURE(dp);
      TrainConfig config = small_gpt(dp);
      config.param_dtype = dtype;
      const Outcome expected = run(config);
      CHECK(run(config) == expected);
      for (const std::int64_t bucket : {500, 3000, 1 << 20})
        CHECK(run(overlapped(config, bucket)) == expected);

      TrainObserver unrecorded;
      unrecorded.record = false;
      CHECK(run(config, unrecorded) == expected);
      TrainConfig traced = overlapped(config, 3000);
      traced.trace = temporary("run.trace");
      CHECK(run(traced) == expected);
      std::filesystem::remove(traced.trace);
      TrainConfig linked = overlapped(config, 3000);
      linked.link = {10, 5};
      CHECK(run(linked) == expected);

      TrainConfig plain = config;
      plain.data_parallel.use_distributed_optimizer = false;
      CHECK(run(plain) == expected);
    }
  }
}

TEST_CASE("a stepped run gives the bits of a free one") {
  const TrainConfig config = overlapped(small_gpt(2), 3000);
  const Outcome expected = run(config);
  using Command = std::pair<const char*, void (trace::Gate::*)()>;
  for (const Command& command : std::initializer_list<Command>{{"event", &trace::Gate::step_event},
                                                               {"bucket", &trace::Gate::step_bucket},
                                                               {"phase", &trace::Gate::step_phase},
                                                               {"iteration", &trace::Gate::step_iteration}}) {
    CAPTURE(command.first);
    trace::Gate gate;
    gate.pause();
    std::atomic<bool> done{false};
    std::thread controller([&, step = command.second] {
      while (!done) {
        if (gate.wait_held(20)) (gate.*step)();
      }
    });
    TrainObserver observer;
    observer.gate = &gate;
    const Outcome stepped = run(config, observer);
    done = true;
    controller.join();
    CHECK(stepped == expected);
  }
}

TEST_CASE("while the gate holds, a rank's tensors can be read") {
  TrainConfig config = overlapped(small_gpt(2), 3000);
  trace::Gate gate;
  gate.set_breakpoints({{trace::Kind::grad_norm, 1, std::nullopt, std::nullopt, 2}});
  std::atomic<RankTrainer*> rank1{nullptr};
  std::atomic<bool> seen{false};
  TrainObserver observer;
  observer.gate = &gate;
  observer.on_rank_ready = [&](int rank, RankTrainer& trainer) {
    if (rank == 1) rank1 = &trainer;
  };
  std::thread controller([&] {
    if (!gate.wait_held(20000)) return;
    const auto held = gate.held();
    CHECK(std::any_of(held.begin(), held.end(), [](const trace::Event& e) {
      return e.kind == trace::Kind::grad_norm && e.rank == 1 && e.step == 2;
    }));
    double sum = 0;  // the reduced gradients of step 2 lie in rank 1's slices
    for (const BucketShard& shard : rank1.load()->optimizer().shards()) {
      for (std::int64_t i = 0; i < shard.main_grad.numel; ++i)
        sum += std::abs(shard.main_grad.as<float>()[i]);
    }
    CHECK(sum > 0);
    seen = true;
    gate.set_breakpoints({});
    gate.run();
  });
  run(config, observer);
  gate.shutdown();
  controller.join();
  CHECK(seen);
}

TEST_CASE("bf16 and fp16 train, and follow fp32 roughly") {
  TrainConfig config = small_gpt(2);
  config.train_iters = 8;
  std::vector<double> losses[3];
  int index = 0;
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    config.param_dtype = dtype;
    config.loss_scale.initial_scale = 65536;
    TrainObserver observer;
    observer.on_step = [&](const StepMetrics& m) {
      CHECK(!m.skipped);
      losses[index].push_back(m.loss);
    };
    train(resolve(config), observer);
    ++index;
  }
  for (std::size_t s = 0; s < 8; ++s) {
    CHECK(losses[1][s] == doctest::Approx(losses[0][s]).epsilon(0.01));
    CHECK(losses[2][s] == doctest::Approx(losses[0][s]).epsilon(0.005));
  }
  CHECK(losses[0][7] < losses[0][0] - 0.5);
}

TEST_CASE("fp16 finds its loss scale by skipping steps") {
  TrainConfig config = small_gpt(2);
  config.param_dtype = DType::fp16;
  config.loss_scale.initial_scale = 0x1p40;
  config.loss_scale.hysteresis = 1;
  config.train_iters = 30;
  int skipped = 0;
  double last_scale = 0;
  TrainObserver observer;
  observer.on_step = [&](const StepMetrics& m) {
    skipped += m.skipped ? 1 : 0;
    last_scale = *m.loss_scale;
    CHECK(std::isfinite(m.loss));
  };
  train(resolve(config), observer);
  CHECK(skipped > 3);
  CHECK(skipped < 30);
  CHECK(last_scale == std::ldexp(1, 40 - skipped));
}

TEST_CASE("the MLP learns, and evaluation reports without changing the run") {
  TrainConfig config = small_gpt(2);
  config.model = "mlp";
  config.train_iters = 6;
  config.seed = 7;
  const Outcome expected = run(config);
  const std::string text = temporary("valid.txt");
  std::ofstream(text) << std::string(2000, 'a') + std::string(2000, 'b');
  config.valid_data = text;
  config.eval_interval = 2;
  config.eval_iters = 3;
  int evaluations = 0;
  Outcome outcome;
  TrainObserver observer;
  observer.on_step = [&](const StepMetrics& m) {
    CHECK(m.valid_loss.has_value() == (m.step % 2 == 0));
    if (m.valid_loss) {
      ++evaluations;
      CHECK(*m.valid_loss > 0);
    }
    outcome.losses_and_norms.push_back(std::bit_cast<std::uint64_t>(m.loss));
    outcome.losses_and_norms.push_back(std::bit_cast<std::uint64_t>(m.grad_norm));
  };
  outcome.params = train(resolve(overlapped(config, 3000)), observer).param_hash;
  CHECK(outcome == expected);
  CHECK(evaluations == 3);
  std::filesystem::remove(text);
}

TEST_CASE("a failing rank ends the run with its own message") {
  TrainConfig config = small_gpt(3);
  TrainObserver observer;
  observer.on_rank_ready = [](int rank, RankTrainer&) {
    if (rank == 1) throw Error("rank 1 ran into a wall");
  };
  CHECK_THROWS_WITH_AS(train(resolve(config), observer), "rank 1 ran into a wall", Error);
}

TEST_CASE("weights survive saving and loading bit by bit") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    TrainConfig config = small_gpt(2);
    config.param_dtype = dtype;
    config.save_weights = temporary("weights.safetensors");
    const std::uint64_t trained = train(resolve(config)).param_hash;
    config.init = config.save_weights;
    config.save_weights = temporary("again.safetensors");
    config.dp = 3;
    config.global_batch_size = 3;
    config.lr.lr = 0;  // nothing moves
    config.optimizer.weight_decay = 0;
    CHECK(train(resolve(config)).param_hash == trained);
    std::filesystem::remove(config.init);
    std::filesystem::remove(config.save_weights);
  }
}

namespace {

struct Recorded {
  std::vector<trace::Event> events;
  TrainSummary summary;
};

Recorded record(const TrainConfig& config) {
  Recorded run;
  std::mutex mutex;
  TrainObserver observer;
  observer.on_events = [&](std::span<const trace::Event> batch) {
    const std::lock_guard lock(mutex);
    run.events.insert(run.events.end(), batch.begin(), batch.end());
  };
  run.summary = train(resolve(config), observer);
  return run;
}

bool is_gather(const trace::Event& e, trace::Kind kind) {
  return e.kind == kind && e.detail == static_cast<std::uint8_t>(trace::Collective::all_gather);
}

/// The buckets of one step's gathers behind which nothing was computed: no layer's forward lies between
/// their issue and the moment at which their rank began to wait.
std::set<int> fully_exposed_gathers(const std::vector<trace::Event>& events, int rank, int step) {
  std::set<int> exposed;
  for (const trace::Event& wait : events) {
    if (wait.rank != rank || wait.step != step || !is_gather(wait, trace::Kind::collective_wait)) continue;
    std::int64_t issue_ns = -1;
    for (const trace::Event& e : events) {
      if (e.rank == rank && e.bucket == wait.bucket && is_gather(e, trace::Kind::collective_issue) &&
          e.begin_ns <= wait.begin_ns)
        issue_ns = std::max(issue_ns, e.begin_ns);
    }
    const bool hidden = std::any_of(events.begin(), events.end(), [&](const trace::Event& e) {
      return e.rank == rank && e.kind == trace::Kind::forward && issue_ns <= e.begin_ns &&
             e.end_ns <= wait.begin_ns;
    });
    if (!hidden) exposed.insert(wait.bucket);
  }
  return exposed;
}

/// The buckets that hold the parameters of the layer that forward begins with.
std::set<int> buckets_of_first_layer(const TrainConfig& config, const Layout& layout) {
  std::set<int> buckets;
  const std::unique_ptr<Model> model = make_model(config);
  for (const int param : model->layers().front().params) {
    const ParamLocation& at = layout.locations[static_cast<std::size_t>(param)];
    buckets.insert(layout.global_bucket(at.buffer, at.bucket));
  }
  return buckets;
}

}  // namespace

TEST_CASE("with a link model every reduction is issued before backward ends") {
  TrainConfig config = overlapped(small_gpt(2), 4000);
  config.train_iters = 4;
  config.link = {2, 10};
  const Recorded run = record(config);
  REQUIRE(run.summary.layout.bucket_count() > 3);
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 2; step <= 4; ++step) {
      std::int64_t backward_end = 0;
      for (const trace::Event& e : run.events) {
        if (e.rank == rank && e.step == step && e.kind == trace::Kind::backward)
          backward_end = std::max(backward_end, e.end_ns);
      }
      int issued_early = 0;
      for (const trace::Event& e : run.events) {
        if (e.rank == rank && e.step == step && e.kind == trace::Kind::collective_issue &&
            e.detail == static_cast<std::uint8_t>(trace::Collective::reduce_scatter) &&
            e.begin_ns <= backward_end)
          ++issued_early;
      }
      CHECK(issued_early == run.summary.layout.bucket_count());
    }
  }
}

TEST_CASE("no gather is fully exposed but those that the first layer needs") {
  for (const std::int64_t bucket_size : {2000, 4000, 8000}) {  // several buckets a layer, to one for several
    TrainConfig config = overlapped(small_gpt(2), bucket_size);
    config.train_iters = 4;
    config.link = {2, 10};
    const Recorded run = record(config);
    const std::set<int> first = buckets_of_first_layer(resolve(config), run.summary.layout);
    REQUIRE(run.summary.layout.bucket_count() > static_cast<int>(first.size()));
    CAPTURE(bucket_size);
    for (int rank = 0; rank < 2; ++rank) {
      for (int step = 2; step <= 3; ++step)  // after the last step, gathers are drained
        CHECK(fully_exposed_gathers(run.events, rank, step) == first);
    }
  }
}
