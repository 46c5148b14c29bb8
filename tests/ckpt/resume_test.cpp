// A run that stops, saves and goes on gives the bits of one that never stopped.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <span>

#include "ckpt/checkpoint.h"
#include "ckpt/train_hooks.h"
#include "core/base/error.h"
#include "core/train/weights.h"
#include "tests/support/message.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

TrainConfig small_gpt(int dp, std::int64_t iterations) {
  TrainConfig c;
  c.num_layers = 1;
  c.hidden_size = 12;
  c.num_attention_heads = 3;
  c.seq_length = 8;
  c.dp = dp;
  c.global_batch_size = 24;  // divisible by 1, 2, 3, 4, 8
  c.train_iters = iterations;
  c.lr.lr = 1e-2;
  c.threads_per_rank = 1;
  return resolve(c);
}

struct Run {
  std::uint64_t params = 0;
  std::vector<double> losses;
  std::vector<double> rates;
  std::vector<std::int64_t> tokens;
  std::int64_t skipped = 0;
  std::vector<trace::Event> events;  ///< of checkpoints

  std::int64_t count(trace::Kind kind) const {
    return std::count_if(events.begin(), events.end(), [&](const trace::Event& e) { return e.kind == kind; });
  }
};

Run run(const TrainConfig& config, const ckpt::SaveOptions& save = {}, const ckpt::LoadOptions& load = {}) {
  Run result;
  std::mutex mutex;
  std::optional<ckpt::Saver> saver;
  std::optional<ckpt::Loader> loader;
  TrainObserver observer;
  observer.on_step = [&](const StepMetrics& m) {
    result.losses.push_back(m.loss);
    result.rates.push_back(m.lr);
    result.tokens.push_back(m.tokens);
    result.skipped = m.skipped_steps;
  };
  observer.on_events = [&](std::span<const trace::Event> events) {
    const std::lock_guard lock(mutex);
    for (const trace::Event& event : events) {
      if (trace::name(event.kind).starts_with("checkpoint_")) result.events.push_back(event);
    }
  };
  if (!load.source.empty()) {
    loader.emplace(load, config);
    observer.on_rank_ready = [&](int rank, RankTrainer& trainer) { loader->restore(rank, trainer); };
  }
  if (!save.folder.empty()) {
    saver.emplace(save, config);
    observer.on_step_end = [&](int rank, RankTrainer& trainer, std::int64_t step) {
      saver->step_done(rank, trainer, step);
    };
    observer.on_rank_done = [&](int rank, RankTrainer& trainer) { saver->rank_done(rank, trainer); };
  }
  result.params = train(config, observer).param_hash;
  if (saver) saver->finish();
  return result;
}

TrainConfig overlapped(TrainConfig config, std::int64_t bucket_size) {
  config.data_parallel.overlap_grad_reduce = true;
  config.data_parallel.overlap_param_gather = true;
  config.data_parallel.bucket_size_elems = bucket_size;
  return config;
}

}  // namespace

TEST_CASE("resume equals uninterrupted, to the bit, for any bucket size") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const int dp : {1, 3}) {
      CAPTURE(dp);
      CAPTURE(name(dtype));
      const test::TemporaryFolder folder;
      TrainConfig whole = small_gpt(dp, 6);
      whole.param_dtype = dtype;
      whole.shuffle = true;
      whole.lr.style = LrDecayStyle::cosine;
      whole.loss_scale.initial_scale = 65536;
      whole.loss_scale.growth_interval = 2;
      if (dtype == DType::fp16) whole.data_parallel.check_for_nan_in_grad = false;
      const Run expected = run(whole);

      TrainConfig half = overlapped(whole, 700);  // stops in the middle of the same schedule
      half.train_iters = 3;
      run(half, {folder.path("ckpt"), 0, 0, dp == 3});
      const Run resumed = run(overlapped(whole, 2000), {}, {folder.path("ckpt"), {}});
      CHECK(resumed.params == expected.params);
      CHECK(resumed.losses == std::vector<double>(expected.losses.begin() + 3, expected.losses.end()));
    }
  }
}

TEST_CASE("at every number of ranks: the same bits at the same, the change's own tolerance at another") {
  // 840 sequences go evenly into every number of ranks; one microbatch each, so that only the order of sums
  // differs from one to the next.
  const auto config = [](int dp, std::int64_t stop = 4) {
    TrainConfig c = small_gpt(1, 4);
    c.dp = dp;
    c.global_batch_size = 840;
    c.micro_batch_size = 840 / dp;
    c.train_iters = stop;
    c.data_parallel.bucket_size_elems = 500;
    return resolve(c);
  };
  const std::vector<int> sizes{1, 2, 3, 4, 5, 7, 8, 24};
  const test::TemporaryFolder folder;
  std::map<int, Run> uninterrupted;
  for (const int dp : sizes) {
    CAPTURE(dp);
    uninterrupted[dp] = run(config(dp));
    run(config(dp, 2), {folder.path(std::to_string(dp)), 0, 0, dp % 2 == 0});
    const Run resumed = run(config(dp), {}, {folder.path(std::to_string(dp)), {}});
    CHECK(resumed.params == uninterrupted[dp].params);
    CHECK(resumed.losses ==
          std::vector<double>(uninterrupted[dp].losses.begin() + 2, uninterrupted[dp].losses.end()));
  }
  // How far apart two numbers of ranks drift from the first step on bounds how far half a run may.
  double of_change = 0;
  for (const int dp : sizes) {
    for (std::size_t i = 0; i < 4; ++i) {
      of_change = std::max(of_change, std::abs(uninterrupted[dp].losses[i] - uninterrupted[1].losses[i]));
    }
  }
  CHECK(of_change < 1e-5);
  struct Change {
    int from, to;
  };
  for (const Change& change :
       std::vector<Change>{{1, 24}, {24, 1}, {2, 3}, {3, 5}, {7, 8}, {5, 7}, {8, 4}, {4, 2}}) {
    CAPTURE(change.from);
    CAPTURE(change.to);
    const Run resumed = run(config(change.to), {}, {folder.path(std::to_string(change.from)), {}});
    REQUIRE(resumed.losses.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(std::abs(resumed.losses[i] - uninterrupted[change.to].losses[i + 2]) <= 2 * of_change + 1e-7);
    }
  }
}

TEST_CASE("skipped steps move neither schedule nor AdamW, across saving and other numbers of ranks") {
  const test::TemporaryFolder folder;
  const auto config = [](int dp, std::int64_t stop) {
    TrainConfig c = small_gpt(dp, 24);
    c.param_dtype = DType::fp16;
    c.micro_batch_size = 24 / dp;
    c.lr.warmup_iters = 8;
    c.lr.style = LrDecayStyle::cosine;
    c.loss_scale.initial_scale = 0x1p32;
    c.loss_scale.hysteresis = 1;
    c.train_iters = stop;
    return resolve(c);
  };
  const Run whole = run(config(2, 24));
  CHECK(whole.skipped > 5);
  CHECK(whole.skipped < 20);
  // Saved in the search for the scale, and right behind it.
  run(config(2, whole.skipped + 1), {folder.path("ckpt"), 1, 0, false});
  for (const std::int64_t at : {whole.skipped - 2, whole.skipped + 1}) {
    CAPTURE(at);
    const auto first = static_cast<std::ptrdiff_t>(at);
    const Run resumed = run(config(2, 24), {}, {folder.path("ckpt"), at});
    CHECK(resumed.params == whole.params);
    CHECK(resumed.losses == std::vector<double>(whole.losses.begin() + first, whole.losses.end()));
    CHECK(resumed.rates == std::vector<double>(whole.rates.begin() + first, whole.rates.end()));
    // To three ranks and back: the same rates to the end, later by each step that only three ranks skipped.
    const std::string three = folder.path(std::to_string(at));
    std::int64_t later = 0;
    const auto go_on_with_three = [&] {
      later = run(config(3, at + 2), {three, 0, 0, false}, {folder.path("ckpt"), at}).skipped;
    };
    if (at < whole.skipped)
      CHECK_THROWS_AS(go_on_with_three(), Error);  // has only searched for the scale, and saved where it is
    else
      go_on_with_three();
    const Run back = run(config(2, 24), {}, {three, {}});
    CHECK(back.skipped == 0);
    CHECK(back.rates ==
          std::vector<double>(whole.rates.begin() + first + 2 - later, whole.rates.end() - later));
  }
}

TEST_CASE("a batch that ramps up is resumed anywhere, and is what runs of its sizes in turn would be") {
  const auto config = [](std::int64_t iterations) {
    TrainConfig c = small_gpt(2, 12);
    c.global_batch_size = 12;
    c.rampup_batch_size = {2, 2, 40};
    c.shuffle = true;
    c.lr.style = LrDecayStyle::cosine;
    c.lr.warmup_iters = 2;
    c = resolve(c);
    c.train_iters = iterations;
    return c;
  };
  const test::TemporaryFolder folder;
  const Run whole = run(config(12), {folder.path("ckpt"), 1, 0, false});
  const std::vector<std::int64_t> sizes{2, 2, 2, 2, 4, 4, 6, 6, 8, 10, 12, 12};
  std::int64_t consumed = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(whole.tokens[i] == sizes[i] * 8);
    CHECK(whole.rates[i] == learning_rate(config(12).lr, static_cast<double>(consumed) / 12));
    consumed += sizes[i];
    CHECK(
        ckpt::Checkpoint(folder.path("ckpt"), static_cast<std::int64_t>(i) + 1).state().consumed_sequences ==
        consumed);
  }
  for (const std::int64_t at : {1, 5, 7, 10, 11}) {
    CAPTURE(at);
    const Run resumed = run(config(12), {}, {folder.path("ckpt"), at});
    CHECK(resumed.params == whole.params);
    CHECK(resumed.losses == std::vector<double>(whole.losses.begin() + at, whole.losses.end()));
    CHECK(resumed.rates == std::vector<double>(whole.rates.begin() + at, whole.rates.end()));
  }
  // Two steps of each of the first sizes, as runs of a fixed batch: the same data, in the same order.
  const auto fixed = [&](std::int64_t batch, std::int64_t iterations) {
    TrainConfig c = config(iterations);
    c.global_batch_size = batch;
    c.rampup_batch_size.reset();
    c.lr = LearningRateConfig{};
    c.lr.decay_iters = 12;
    return c;
  };
  TrainConfig ramped = config(6);
  ramped.lr = fixed(2, 6).lr;
  const Run constant_rate = run(ramped);
  run(fixed(2, 4), {folder.path("parts"), 0, 0, false});
  ckpt::LoadOptions load{folder.path("parts"), {}};
  load.allowed_changes = {"global-batch-size"};
  CHECK(run(fixed(4, 6), {}, load).params == constant_rate.params);
}

TEST_CASE("768 ranks, more than a bucket has elements, go on with the same bits; three go on from there" *
          doctest::skip(test::sanitized)) {  // 1,536 threads are too many for a sanitizer
  const auto config = [](int dp, std::int64_t iterations) {
    TrainConfig c = small_gpt(1, iterations);
    c.dp = dp;
    c.hidden_size = 3;
    c.num_attention_heads = 1;
    c.seq_length = 2;
    c.global_batch_size = 768;
    c.micro_batch_size = 768 / dp;
    c.data_parallel.bucket_size_elems = 100;
    return resolve(c);
  };
  const test::TemporaryFolder folder;
  const Run whole = run(config(768, 2), {folder.path("ckpt"), 1, 0, false});
  const Run resumed = run(config(768, 2), {}, {folder.path("ckpt"), 1});
  CHECK(resumed.params == whole.params);
  CHECK(resumed.losses.back() == whole.losses.back());
  const Run of_three = run(config(3, 2), {}, {folder.path("ckpt"), 1});
  CHECK(std::abs(of_three.losses.back() - whole.losses.back()) < 1e-5);
}

TEST_CASE("ranks that do not hold the same parameters after loading do not train") {
  const test::TemporaryFolder folder;
  run(small_gpt(2, 2), {folder.path("ckpt"), 0, 0, false});
  TrainConfig deeper = small_gpt(2, 9);
  deeper.num_layers = 2;
  // Without sharding nothing is gathered, so what a rank has wrong stays wrong: here in a parameter that the
  // checkpoint lacks.
  deeper.data_parallel.use_distributed_optimizer = false;
  ckpt::LoadOptions loose{folder.path("ckpt"), {}};
  loose.strict = false;
  loose.weights_only = true;
  const auto train_with = [&](bool one_differs) {
    const ckpt::Loader loader(loose, deeper);
    const std::string lacking = loader.not_loaded().front();
    TrainObserver observer;
    observer.on_rank_ready = [&](int rank, RankTrainer& trainer) {
      DataParallel& model = trainer.data_parallel();
      for (int p = 0; p < static_cast<int>(model.layout().specs.size()); ++p) {
        if (!one_differs || rank != 1 ||
            !lacking.starts_with(model.layout().specs[static_cast<std::size_t>(p)].name))
          continue;
        std::vector<float> values = get_param(model, p);
        values.back() += 1;
        set_param(model, p, values);
      }
      loader.restore(rank, trainer);
    };
    train(deeper, observer);
  };
  CHECK_NOTHROW(train_with(false));
  CHECK(test::message_of<Error>([&] { train_with(true); }).find("parameters differ from each other") !=
        std::string::npos);
}

TEST_CASE("plain data parallelism stores one copy, and loads what sharded ranks stored") {
  const test::TemporaryFolder folder;
  TrainConfig half = small_gpt(4, 6);
  half.train_iters = 3;
  run(half, {folder.path("ckpt"), 1, 0, false});
  TrainConfig plain = small_gpt(2, 6);
  plain.data_parallel.use_distributed_optimizer = false;
  CHECK(run(plain, {folder.path("plain"), 0, 0, false}, {folder.path("ckpt"), {}}).params ==
        run(small_gpt(2, 6), {}, {folder.path("ckpt"), {}}).params);
  CHECK(ckpt::Checkpoint(folder.path("plain")).files().size() == 1);
}

TEST_CASE("saving changes no bit of a run; what is saved later is the moment of the request") {
  const test::TemporaryFolder folder;
  const TrainConfig config = overlapped(small_gpt(3, 5), 900);
  const Run expected = run(config);
  CHECK(run(config, {folder.path("now"), 1, 0, false}).params == expected.params);
  CHECK(run(config, {folder.path("later"), 1, 0, true}).params == expected.params);
  CHECK(ckpt::published_steps(folder.path("now")) == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  CHECK(ckpt::find_leftovers(folder.path("now")).empty());
  for (const std::int64_t step : {1, 2, 3, 4, 5}) {
    for (const char* file : {"/checkpoint.h5", "/rank_00000.h5", "/rank_00001.h5", "/rank_00002.h5"}) {
      CAPTURE(file);
      const std::string name = ckpt::step_folder_name(step) + file;
      CHECK(folder.read("now/" + name).size() > 0);
      CHECK(folder.read("now/" + name) == folder.read("later/" + name));
    }
  }
}

TEST_CASE("saving and loading are in the trace") {
  using trace::Kind;
  const test::TemporaryFolder folder;
  const Run now = run(small_gpt(3, 4), {folder.path("now"), 2, 0, false});
  CHECK(now.count(Kind::checkpoint_snapshot) == 0);
  CHECK(now.count(Kind::checkpoint_write) == 3 * 2);
  CHECK(now.count(Kind::checkpoint_publish) == 2);
  const Run later = run(small_gpt(3, 4), {folder.path("later"), 2, 0, true});
  CHECK(later.count(Kind::checkpoint_snapshot) == 3 * 2);
  CHECK(later.count(Kind::checkpoint_write) == 3 * 2);
  CHECK(later.count(Kind::checkpoint_publish) == 2);
  CHECK(later.count(Kind::checkpoint_load) == 0);
  const Run loaded = run(small_gpt(2, 5), {}, {folder.path("now"), {}});
  CHECK(loaded.count(Kind::checkpoint_load) == 2);
  for (const Run* each : {&now, &later, &loaded}) {
    for (const trace::Event& event : each->events) {
      CHECK(event.begin_ns <= event.end_ns);
      CHECK(event.begin_ns >= 0);
      if (event.kind == Kind::checkpoint_load) continue;
      CHECK((event.step == 2 || event.step == 4));
      if (event.kind == Kind::checkpoint_write) CHECK(event.bytes > 0);
    }
  }
  // Publishing a step begins when all its ranks' files are written.
  for (const Run* each : {&now, &later}) {
    for (const trace::Event& publish : each->events) {
      if (publish.kind != Kind::checkpoint_publish) continue;
      for (const trace::Event& write : each->events) {
        if (write.kind == Kind::checkpoint_write && write.step == publish.step)
          CHECK(write.end_ns <= publish.begin_ns);
      }
    }
  }
}

TEST_CASE("old checkpoints are removed, the latest never, and one in use waits") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("ckpt");
  run(small_gpt(2, 3), {root, 1, 2, false});
  CHECK(ckpt::published_steps(root) == std::vector<std::int64_t>{2, 3});
  const auto resumed = [&](std::int64_t last) {
    ckpt::SaveOptions save{root, 1, 1, false};
    save.base.folder = root + "/latest";
    save.base.step = save.base.loaded_step = last - 1;
    run(small_gpt(2, last), save, {root, {}});
  };
  {
    const ckpt::Checkpoint reading(root, 2);
    resumed(4);
    CHECK(ckpt::published_steps(root) == std::vector<std::int64_t>{2, 3, 4});  // 3: what it was loaded from
  }
  resumed(5);
  CHECK(ckpt::published_steps(root) == std::vector<std::int64_t>{4, 5});
  CHECK(ckpt::Checkpoint(root).state().step == 5);
  // The same step is saved once more, in place.
  run(small_gpt(2, 5), {root, 0, 0, false});
  CHECK(ckpt::Checkpoint(root).state().step == 5);
  CHECK(ckpt::find_leftovers(root).empty());
}

TEST_CASE("what does not fit is refused, with every fault named") {
  const test::TemporaryFolder folder;
  run(small_gpt(1, 2), {folder.path("ckpt"), 0, 0, false});
  TrainConfig other = small_gpt(1, 9);
  other.num_layers = 2;
  other.max_position_embeddings = 10;
  const std::string message = test::message_of<InputError>([&] {
    ckpt::Loader({folder.path("ckpt"), {}}, other);
  });
  CHECK(message.find("missing: h.1.ln_1.weight [12]") != std::string::npos);
  CHECK(message.find("missing: h.1.mlp.c_proj.bias") != std::string::npos);
  CHECK(message.find("wpe.weight: shape [8, 12], expected [10, 12]") != std::string::npos);
  CHECK(test::message_of<InputError>([&] {
          ckpt::Loader({folder.path("ckpt"), {}}, small_gpt(1, 2));
        }).find("is at step 2") != std::string::npos);
  CHECK(test::message_of<InputError>([&] {
          ckpt::Loader({folder.path("ckpt"), 7}, small_gpt(1, 9));
        }).find("has no checkpoint of step 7; there are: 2") != std::string::npos);
  CHECK(test::message_of<InputError>([&] {
          ckpt::Loader({folder.path("none"), {}}, small_gpt(1, 9));
        }).find("there is no such folder") != std::string::npos);
}

TEST_CASE("weights alone, other names, and what only one side has") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("ckpt");
  run(small_gpt(2, 2), {root, 0, 0, false});
  const auto params_after_loading = [&](TrainConfig config, const ckpt::LoadOptions& options) {
    std::vector<float> values;
    const ckpt::Loader loader(options, config);
    TrainObserver observer;
    observer.on_rank_ready = [&](int rank, RankTrainer& trainer) {
      loader.restore(rank, trainer);
      if (rank == 0) values = get_param(trainer.data_parallel(), 0);
      if (options.weights_only)
        CHECK(trainer.progress() == TrainProgress{0, 0, 0, trainer.progress().loss_scaler});
    };
    train(config, observer);
    return values;
  };
  ckpt::LoadOptions weights{root, {}};
  weights.weights_only = true;
  const ckpt::Checkpoint saved(root);
  std::vector<float> stored(static_cast<std::size_t>(saved.layout().specs[0].numel()));
  saved.read(0, ckpt::State::param, {0, saved.layout().specs[0].numel()}, stored.data());
  CHECK(params_after_loading(small_gpt(3, 1), weights) == stored);

  TrainConfig deeper = small_gpt(1, 9);
  deeper.num_layers = 2;
  ckpt::LoadOptions loose{root, {}};
  CHECK(test::message_of<InputError>([&] {
          ckpt::Loader(loose, deeper);
        }).find("--no-strict --load-weights-only") != std::string::npos);
  loose.strict = false;
  // AdamW has made two steps: the new layer's moments would not belong to them.
  const std::string joins = test::message_of<InputError>([&] { ckpt::Loader(loose, deeper); });
  CHECK_MESSAGE(
      joins.find("12 parameters are not in the checkpoint (h.1.ln_1.weight, …)") != std::string::npos, joins);
  CHECK(joins.find("--load-weights-only") != std::string::npos);
  loose.weights_only = true;
  CHECK(params_after_loading(deeper, loose) == stored);
  CHECK(ckpt::Loader(loose, deeper).not_loaded().size() == 12);
  loose.names.renames = {"h.0.ln_1.bias=h.1.ln_1.bias"};
  CHECK(ckpt::Loader(loose, deeper).not_loaded().size() == 12);
  CHECK(ckpt::Loader(loose, deeper).not_loaded().front().starts_with("h.0.ln_1.bias"));
  loose.names.renames = {"nothing=x"};
  CHECK(test::message_of<InputError>([&] { ckpt::Loader(loose, deeper); }).find("--rename nothing=x") !=
        std::string::npos);
}
