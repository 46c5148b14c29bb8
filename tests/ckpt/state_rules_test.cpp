// AdamW's step count and its moments belong together, and moments are numbers that AdamW can have made: what
// is exported, imported, loaded and verified.
#include "ckpt/state_rules.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include "ckpt/diff.h"
#include "ckpt/gather.h"
#include "ckpt/import.h"
#include "ckpt/train_hooks.h"
#include "ckpt/verify.h"
#include "core/base/error.h"
#include "core/data/safetensors.h"
#include "core/train/trainer.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
using ckpt::State;

namespace {

const float not_a_number = std::numeric_limits<float>::quiet_NaN();
const float infinity = std::numeric_limits<float>::infinity();

/// What `action` is refused with; empty where it is not.
template <class Action>
std::string refusal_of(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// A safetensors file in memory, to be changed.
struct Tensors {
  struct Tensor {
    DType dtype = DType::fp32;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;

  explicit Tensors(const std::string& path) {
    const SafetensorsReader file(path);
    metadata = file.metadata();
    for (const SafetensorsEntry& entry : file.entries())
      tensors[entry.name] = {entry.dtype, entry.shape, file.read_fp32(entry, {0, entry.numel()})};
  }

  void write(const std::string& path) const {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.dtype, tensor.shape});
    SafetensorsWriter file(path, entries, metadata);
    std::size_t entry = 0;
    for (const auto& [name, tensor] : tensors)
      file.write_fp32(entry++, 0, tensor.values.data(), static_cast<std::int64_t>(tensor.values.size()));
    file.close();
  }

  void erase_ending_in(const std::string& ending) {
    std::erase_if(tensors, [&](const auto& item) { return item.first.ends_with(ending); });
  }
};

LayoutCase small_case() {
  LayoutCase result;
  result.params = {{"a", {7, 9}, DType::bf16, false, false}, {"b", {130}, DType::fp32, false, false}};
  result.options.dp_size = result.options.expert_dp_size = 2;
  return result;
}

ckpt::RunState state_of(std::int64_t step, std::int64_t optimizer_steps) {
  ckpt::RunState state;
  state.step = step;
  state.optimizer_steps = optimizer_steps;
  state.consumed_sequences = 2 * step;
  return state;
}

/// A checkpoint at iteration 12 with 11 steps of AdamW, and what export makes of it.
class Exported {
 public:
  Exported() {
    ckpt::write_checkpoint(folder.path("c"), state_of(12, 11), small_case(), test::PlacedValues());
    ckpt::gather_safetensors(ckpt::Checkpoint(folder.path("c")), path("all"), {});
  }
  std::string path(const std::string& name) const { return folder.path(name + ".safetensors"); }

  /// Why import refuses the file after `change`, if it does; else where the checkpoint is.
  std::string import(const std::function<void(Tensors&)>& change, const ckpt::OptimizerFlags& flags = {}) {
    Tensors tensors(path("all"));
    change(tensors);
    tensors.write(path("changed"));
    imported = folder.path(fmt::format("i{}", serial_++));
    ckpt::ImportOptions options;
    options.optimizer = flags;
    options.layout.dp_size = 3;
    const std::string refusal =
        refusal_of([&] { ckpt::ImportPlan(path("changed"), options).write(imported, {}); });
    CHECK(std::filesystem::exists(imported) == refusal.empty());
    return refusal;
  }
  ckpt::RunState state() const { return ckpt::Checkpoint(imported).state(); }
  float value(const char* param, State of, std::int64_t index) const {
    const ckpt::Checkpoint checkpoint(imported);
    float found = not_a_number;
    checkpoint.read(*checkpoint.find(param), of, {index, index + 1}, &found);
    return found;
  }

  test::TemporaryFolder folder;
  std::string imported;

 private:
  int serial_ = 0;
};

TrainConfig tiny_run() {
  TrainConfig config;
  config.num_layers = 1;
  config.hidden_size = 12;
  config.num_attention_heads = 3;
  config.seq_length = config.max_position_embeddings = 8;
  return config;
}

void check_says(const std::string& message, const std::string& part) {
  CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

constexpr auto unchanged = [](Tensors&) {};
constexpr auto without_moments = [](Tensors& t) {
  t.erase_ending_in(".exp_avg");
  t.erase_ending_in(".exp_avg_sq");
};
constexpr auto without_state = [](Tensors& t) { t.metadata.erase(ckpt::state_key); };

}  // namespace

TEST_CASE("a step count without moments, and moments without a step count, are refused with what helps") {
  Exported file;
  CHECK(file.import(unchanged).empty());
  CHECK(file.state().optimizer_steps == 11);

  const std::string no_moments = file.import(without_moments);
  check_says(no_moments, "records that AdamW has made 11 steps, but holds no moments");
  check_says(no_moments, "--reset-optimizer");
  CHECK(file.import(without_moments, {{}, true}).empty());
  CHECK(file.state().optimizer_steps == 0);
  CHECK(file.state().step == 12);
  CHECK(file.state().consumed_sequences == 24);

  const std::string no_step = file.import(without_state);
  check_says(no_step, "holds moments, but does not record how many steps of AdamW they come from");
  check_says(no_step, "--step N");
  CHECK(file.import(without_state, {11, false}).empty());
  CHECK(file.state().optimizer_steps == 11);
  CHECK(file.state().step == 11);
  CHECK(file.value("a", State::exp_avg_sq, 3) == test::PlacedValues::value(0, State::exp_avg_sq, 3));

  // Neither: a file of weights.
  CHECK(file.import([](Tensors& t) {
              without_moments(t);
              without_state(t);
            })
            .empty());
  CHECK(file.state().optimizer_steps == 0);
  CHECK(file.state().step == 0);
  CHECK(file.value("b", State::exp_avg, 3) == 0);

  // Flags that contradict the file.
  check_says(file.import(unchanged, {12, false}), "--step 12: ");
  check_says(file.import(unchanged, {12, false}), "records that AdamW has made 11 steps");
  check_says(file.import(without_moments, {11, false}), "holds no moments");
  check_says(file.import(unchanged, {11, true}), "--step and --reset-optimizer exclude each other");
  const auto zero_steps = [](Tensors& t) { t.metadata[ckpt::state_key] = ckpt::to_json(state_of(12, 0)); };
  check_says(file.import(zero_steps), "'a': exp_avg[0] is ");
  check_says(file.import(zero_steps), "but AdamW's step count is 0. Give the count with --step N");
  check_says(file.import(zero_steps, {13, false}), "records only 12 iterations");
  CHECK(file.import(zero_steps, {11, false}).empty());
  CHECK(file.state().step == 12);
}

TEST_CASE("one moment of two, and moments of some parameters only, are refused by the parameter's name") {
  Exported file;
  const auto refused = [&](const std::function<void(Tensors&)>& change, const std::string& part) {
    const std::string message = file.import(change);
    check_says(message, part);
    check_says(message, "--reset-optimizer");
    check_says(file.import(
                   [&](Tensors& t) {
                     change(t);
                     without_state(t);
                   },
                   {11, false}),
               part);
    CHECK(file.import(change, {{}, true}).empty());
    CHECK(file.value("a", State::exp_avg, 5) == 0);
    CHECK(file.value("b", State::exp_avg_sq, 5) == 0);
    CHECK(ckpt::verify(file.imported).faults.empty());
  };
  refused([](Tensors& t) { t.tensors.erase("b.exp_avg_sq"); },
          "a parameter has one moment and not the other: 'b' has no exp_avg_sq");
  refused([](Tensors& t) { t.tensors.erase("a.exp_avg"); }, "'a' has no exp_avg");
  refused([](Tensors& t) { t.erase_ending_in(".exp_avg_sq"); },
          "2 parameters have one moment and not the other: 'a' has no exp_avg_sq");
  refused(
      [](Tensors& t) {
        t.tensors.erase("a.exp_avg");
        t.tensors.erase("a.exp_avg_sq");
      },
      "has moments of 1 parameter, but none of 'a'");
}

TEST_CASE("values that AdamW never leaves are refused by parameter, state and element") {
  Exported file;
  const auto with = [](const char* tensor, std::size_t index, float value) {
    return [=](Tensors& t) { t.tensors.at(tensor).values.at(index) = value; };
  };
  check_says(file.import(with("a.exp_avg_sq", 61, -1e-9F)), "'a': exp_avg_sq[61] is -1e-09");
  check_says(file.import(with("b.exp_avg_sq", 0, not_a_number)),
             "'b': exp_avg_sq[0] is nan, not a finite number");
  check_says(file.import(with("b.exp_avg", 129, -infinity)),
             "'b': exp_avg[129] is -inf, not a finite number");
  check_says(file.import(with("a", 1, infinity)), "'a': param[1] is inf, not a finite number");
  check_says(file.import(with("b.exp_avg_sq", 7, 0)), "'b': exp_avg_sq[7] is 0 where exp_avg is ");
  CHECK(file.import(with("b.exp_avg_sq", 7, not_a_number), {{}, true}).empty());  // moments are left out
  check_says(file.import(with("b", 7, not_a_number), {{}, true}), "'b': param[7]");
  // Rows that no gradient has reached, and gradients whose squares fp32 does not know.
  CHECK(file.import([&](Tensors& t) {
              for (const std::size_t i : {0U, 64U}) {
                with("b.exp_avg", i, 0)(t);
                with("b.exp_avg_sq", i, 0)(t);
              }
              with("b.exp_avg", 5, 1e-22F)(t);
              with("b.exp_avg_sq", 5, 0)(t);
              with("b.exp_avg_sq", 6, -0.0F)(t);
              with("b.exp_avg", 6, 0)(t);
            })
            .empty());
  CHECK(ckpt::verify(file.imported).faults.empty());
  // All moments as zeros.
  check_says(file.import([](Tensors& t) {
    for (auto& [name, tensor] : t.tensors) {
      if (name.ends_with("exp_avg") || name.ends_with("exp_avg_sq"))
        std::fill(tensor.values.begin(), tensor.values.end(), 0.0F);
    }
  }),
             "AdamW has made 11 steps, but every second moment is 0");
}

TEST_CASE("a tensor that is by its name another one's state becomes no parameter, unless a layout lists it") {
  Exported file;
  const auto add = [](const char* name) { return [=](Tensors& t) { t.tensors[name] = t.tensors.at("b"); }; };
  check_says(file.import(add("zzz.exp_avg")), "'zzz.exp_avg' is by its name AdamW's exp_avg of 'zzz'");
  check_says(file.import(add("zzz.exp_avg_sq")), "AdamW's exp_avg_sq of 'zzz', which the file does not hold");
  for (const char* name : {"b.step", "b.max_exp_avg_sq", "b.momentum_buffer"})
    check_says(file.import(add(name)), fmt::format("'{}' is by its name an optimizer's state of 'b'", name));

  // Parameters that are really called so: the file lists them, also beside the parameter, where only weights
  // are exported.
  const test::TemporaryFolder folder;
  LayoutCase layout_case;
  for (const char* name : {"w", "w.exp_avg", "w.step", "v.exp_avg", "v.exp_avg.exp_avg_sq"})
    layout_case.params.push_back({name, {3}, DType::fp32, false, false});
  ckpt::write_checkpoint(folder.path("a"), test::one_step(), layout_case, test::PlacedValues());
  const ckpt::Checkpoint a(folder.path("a"));
  ckpt::GatherOptions weights;
  weights.model_only = true;
  ckpt::gather_safetensors(a, folder.path("w.safetensors"), weights);
  ckpt::ImportPlan(folder.path("w.safetensors"), {}).write(folder.path("b"), {});
  const ckpt::Checkpoint b(folder.path("b"));
  REQUIRE(b.layout().specs.size() == 5);
  for (const ckpt::DiffRow& row : ckpt::diff(a, b, {}).rows) CHECK(row.state != State::param);
  // The same file without the list.
  Tensors unlisted(folder.path("w.safetensors"));
  unlisted.metadata.clear();
  unlisted.write(folder.path("u.safetensors"));
  ckpt::ImportOptions options;
  options.layout.dp_size = 1;
  check_says(refusal_of([&] { ckpt::ImportPlan(folder.path("u.safetensors"), options); }),
             "'v.exp_avg' is by its name");
  options.layout.given = layout_case;
  options.layout.given->options.dp_size = 1;
  CHECK(ckpt::ImportPlan(folder.path("u.safetensors"), options).layout_case().params.size() == 5);
}

TEST_CASE(
    "weights are exported without a step count; beside moments parameters are main parameters, exactly") {
  Exported file;
  const ckpt::Checkpoint source(file.folder.path("c"));
  for (const char* ending : {"w.safetensors", "w.h5"}) {
    CAPTURE(ending);
    ckpt::GatherOptions weights;
    weights.model_only = true;
    const std::string path = file.folder.path(ending);
    if (path.ends_with(".h5"))
      ckpt::gather_hdf5(source, path, weights);
    else
      ckpt::gather_safetensors(source, path, weights);
    const ckpt::ImportPlan plan(path, {});
    CHECK(plan.state().step == 0);
    CHECK(plan.state().optimizer_steps == 0);
    CHECK(plan.state().config_json == "{}");
    CHECK(plan.layout_case().params[0].dtype == DType::bf16);
  }
  const SafetensorsReader weights(file.path("w"));
  CHECK(!weights.metadata().contains("zero1_state"));
  CHECK(weights.metadata().at("zero1_step") == "12");
  CHECK(weights.find("a")->dtype == DType::bf16);

  const SafetensorsReader all(file.path("all"));
  CHECK(all.find("a")->dtype == DType::fp32);
  for (const std::optional<DType> dtype : {std::optional<DType>{}, std::optional(DType::bf16)}) {
    ckpt::ImportOptions options;
    options.layout.dtype = dtype;
    const std::string back = file.folder.path(dtype ? "bf16" : "own");
    ckpt::ImportPlan(file.path("all"), options).write(back, {});
    CHECK(ckpt::diff(source, ckpt::Checkpoint(back), {{}, {}, true, ""}).equal());
  }
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    ckpt::GatherOptions narrow;
    narrow.dtype = dtype;
    check_says(refusal_of([&] { ckpt::gather_safetensors(source, file.path("n"), narrow); }),
               fmt::format("parameters in {} need --model-only", name(dtype)));
    CHECK(!std::filesystem::exists(file.path("n")));
  }
  // Another program's half-precision parameters beside moments: told.
  Tensors half(file.path("all"));
  half.tensors.at("a").dtype = DType::bf16;
  half.write(file.path("half"));
  CHECK(ckpt::ImportPlan(file.path("half"), {})
            .notes()
            .back()
            .starts_with("1 parameter is beside moments narrower"));
}

TEST_CASE("weights carry what belongs to the model, and nothing of the run's schedule") {
  const test::TemporaryFolder folder;
  ckpt::RunState state = state_of(12, 11);
  state.config_json = R"({"model":"gpt","num_attention_heads":3,"global_batch_size":5})";
  CHECK(ckpt::is_of_run(state));
  ckpt::write_checkpoint(folder.path("c"), state, small_case(), test::PlacedValues());
  ckpt::GatherOptions weights;
  weights.model_only = true;
  ckpt::gather_safetensors(ckpt::Checkpoint(folder.path("c")), folder.path("w.safetensors"), weights);
  ckpt::gather_hdf5(ckpt::Checkpoint(folder.path("c")), folder.path("w.h5"), weights);
  for (const char* file : {"w.safetensors", "w.h5"}) {
    const ckpt::RunState imported = ckpt::ImportPlan(folder.path(file), {}).state();
    CHECK(imported.config_json == R"({"model":"gpt","num_attention_heads":3})");
    CHECK(!ckpt::is_of_run(imported));
    CHECK(imported.step == 0);
  }
  // Without AdamW's steps the schedule still stands where it stood.
  ckpt::gather_hdf5(ckpt::Checkpoint(folder.path("c")), folder.path("all.h5"), {});
  ckpt::ImportOptions reset;
  reset.optimizer.reset = true;
  CHECK(ckpt::ImportPlan(folder.path("all.h5"), reset).state().scheduled_sequences == 55);
}

TEST_CASE("what a narrower dtype cannot hold is refused by name, out and in") {
  const test::TemporaryFolder folder;
  class Large : public test::PlacedValues {
   public:
    void read(int param, State state, Range range, float* out) const override {
      PlacedValues::read(param, state, range, out);
      if (param == 1 && state == State::param && range.contains(3)) out[3 - range.start] = -70000;
    }
  };
  ckpt::write_checkpoint(folder.path("c"), test::one_step(), small_case(), Large());
  const ckpt::Checkpoint source(folder.path("c"));
  ckpt::GatherOptions half;
  half.model_only = true;
  half.dtype = DType::fp16;
  const std::string target = folder.path("half.safetensors");
  check_says(refusal_of([&] { ckpt::gather_safetensors(source, target, half); }),
             target + ": b[3] is -70000, beyond float16, whose largest number is 65504");
  CHECK(folder.count() == 1);
  half.dtype = DType::bf16;
  CHECK_NOTHROW(ckpt::gather_safetensors(source, target, half));
  ckpt::ImportOptions options;
  options.layout.dtype = DType::fp16;
  check_says(refusal_of([&] { ckpt::ImportPlan(target, options).write(folder.path("i"), {}); }),
             "'b': param[3] is -70144, beyond float16");
}

TEST_CASE("a run starts from whole models only, and refuses what its dtype cannot hold") {
  const test::TemporaryFolder folder;
  TrainConfig config = resolve(tiny_run());
  config.train_iters = 1;
  config.save_weights = folder.path("w.safetensors");
  train(config, {});
  config.save_weights.clear();
  // The same in two files with an index, and in two shards that hold half of a tensor each.
  const Tensors all(folder.path("w.safetensors"));
  std::filesystem::create_directories(folder.path("index"));
  std::filesystem::create_directories(folder.path("shards"));
  std::string weight_map;
  for (const int part : {1, 2}) {
    Tensors file = all;
    std::erase_if(file.tensors,
                  [&](const auto& item) { return item.first.starts_with("h.") == (part == 1); });
    const std::string name = fmt::format("m-0000{}-of-00002.safetensors", part);
    file.write(folder.path("index/" + name));
    for (const auto& [tensor, unused] : file.tensors)
      weight_map += fmt::format(R"({}"{}":"{}")", weight_map.empty() ? "" : ",", tensor, name);

    Tensors shard = all;
    std::string info;
    std::erase_if(shard.tensors, [&](const auto& item) { return part == 2 && item.first != "wte.weight"; });
    for (auto& [tensor, values] : shard.tensors) {
      std::int64_t start = 0;
      if (tensor == "wte.weight") {
        const auto half = static_cast<std::ptrdiff_t>(values.values.size() / 2);
        values.shape[0] /= 2;
        values.values = part == 1 ? std::vector(values.values.begin(), values.values.begin() + half)
                                  : std::vector(values.values.begin() + half, values.values.end());
        if (part == 2) start = values.shape[0];
      }
      info += fmt::format(R"({}"{}":{{"saved_offsets":[{}{}]}})", info.empty() ? "" : ",", tensor, start,
                          values.shape.size() == 2 ? ",0" : "");
    }
    shard.metadata["DCP_SHARDING_INFO"] = "{" + info + "}";
    shard.write(folder.path(fmt::format("shards/shard-0000{}-model-00001-of-00001.safetensors", part)));
  }
  folder.write("index/m.safetensors.index.json", R"({"weight_map":{)" + weight_map + "}}");
  const auto trained_from = [&](const std::string& init) {
    config.init = folder.path(init);
    return train(config, {}).param_hash;
  };
  const std::uint64_t expected = trained_from("w.safetensors");
  for (const char* whole : {"index", "index/m.safetensors.index.json", "shards"})
    CHECK(trained_from(whole) == expected);
  for (const char* part :
       {"index/m-00001-of-00002.safetensors", "shards/shard-00001-model-00001-of-00001.safetensors"})
    check_says(refusal_of([&] { trained_from(part); }), ": is one ");

  Tensors large = all;
  large.tensors.at("wpe.weight").values[5] = 1e5F;
  large.write(folder.path("large.safetensors"));
  ckpt::ImportOptions options;
  options.layout.dp_size = 1;
  ckpt::ImportPlan(folder.path("large.safetensors"), options).write(folder.path("large"), {});
  config.param_dtype = DType::fp16;
  check_says(refusal_of([&] { trained_from("large.safetensors"); }),
             "wpe.weight[5] is 100000, beyond float16, whose largest number is 65504");
  config.init.clear();
  for (const bool weights_only : {false, true}) {
    ckpt::LoadOptions load;
    load.source = folder.path("large");
    load.weights_only = weights_only;
    const ckpt::Loader loader(load, config);
    TrainObserver observer;
    observer.on_rank_ready = [&](int rank, RankTrainer& trainer) { loader.restore(rank, trainer); };
    check_says(refusal_of([&] { train(config, observer); }),
               "'wpe.weight': param[5] is 100000, beyond float16");
  }
}

TEST_CASE("verify names impossible moments, and a step count and moments that do not belong together") {
  /// PlacedValues, with one value of b's moments changed.
  class Changed : public test::PlacedValues {
   public:
    Changed(State state, float value) : state_(state), value_(value) {}
    void read(int param, State state, Range range, float* out) const override {
      PlacedValues::read(param, state, range, out);
      if (param == 1 && state == state_ && range.contains(100)) out[100 - range.start] = value_;
    }

   private:
    State state_;
    float value_;
  };
  class Zeros : public test::PlacedValues {
   public:
    void read(int param, State state, Range range, float* out) const override {
      PlacedValues::read(param, state, range, out);
      if (state != State::param) std::fill(out, out + range.size(), 0.0F);
    }
  };
  const test::TemporaryFolder folder;
  int serial = 0;
  const auto fault = [&](const ckpt::RunState& state, const ckpt::ElementSource& source) {
    const std::string path = folder.path(fmt::format("c{}", serial++));
    ckpt::write_checkpoint(path, state, small_case(), source);
    const std::vector<std::string> faults = ckpt::verify(path).faults;
    CHECK(faults.size() <= 1);
    return faults.empty() ? "" : faults.front();
  };
  CHECK(fault(state_of(12, 11), test::PlacedValues()).empty());
  CHECK(fault(state_of(12, 0), Zeros()).empty());
  const std::string negative = fault(state_of(12, 11), Changed(State::exp_avg_sq, -1));
  check_says(negative, "rank_00000.h5: /buffers/1/buckets/0/exp_avg_sq: 1 values are negative");
  check_says(negative, "the first is b[100]");
  check_says(fault(state_of(12, 11), Changed(State::exp_avg, not_a_number)),
             "exp_avg: 1 values are not finite");
  check_says(
      fault(state_of(12, 11), Changed(State::exp_avg_sq, 0)),
      "exp_avg_sq: 1 values are 0 where exp_avg is not, which AdamW never leaves, the first is b[100]");
  check_says(fault(state_of(12, 0), test::PlacedValues()),
             "checkpoint.h5: /state: AdamW has made no step, but there are moments that are not 0");
  check_says(fault(state_of(12, 11), Zeros()), "AdamW has made 11 steps, but every second moment is 0");
}

TEST_CASE(
    "loading refuses impossible moments and parameters that join AdamW in mid-course, and says what helps") {
  TrainConfig config = tiny_run();
  config.dp = config.global_batch_size = 2;
  config.train_iters = 2;
  config = resolve(config);
  const test::TemporaryFolder folder;
  const auto train_from = [&](const ckpt::LoadOptions* load, const ckpt::SaveOptions* save) {
    TrainConfig longer = config;
    if (load != nullptr) longer.train_iters = 3;
    std::optional<ckpt::Loader> loader;
    std::optional<ckpt::Saver> saver;
    if (load != nullptr) loader.emplace(*load, longer);
    if (save != nullptr) saver.emplace(*save, longer);
    TrainObserver observer;
    observer.on_rank_ready = [&](int rank, RankTrainer& trainer) {
      if (loader) loader->restore(rank, trainer);
    };
    observer.on_rank_done = [&](int rank, RankTrainer& trainer) {
      if (saver) saver->rank_done(rank, trainer);
    };
    train(longer, observer);
    if (saver) saver->finish();
  };
  ckpt::SaveOptions save;
  save.folder = folder.path("run");
  train_from(nullptr, &save);
  const ckpt::Checkpoint good(folder.path("run"));

  /// The run's checkpoint with its moments changed.
  class Changed : public ckpt::ElementSource {
   public:
    Changed(const ckpt::Checkpoint& from, std::function<void(State, Range, float*)> change)
        : from_(from), change_(std::move(change)) {}
    void read(int param, State state, Range range, float* out) const override {
      from_.read(param, state, range, out);
      if (state != State::param) change_(state, range, out);
    }

   private:
    const ckpt::Checkpoint& from_;
    std::function<void(State, Range, float*)> change_;
  };
  int serial = 0;
  const auto refusal = [&](const ckpt::RunState& state,
                           const std::function<void(State, Range, float*)>& change) {
    const std::string path = folder.path(fmt::format("c{}", serial++));
    ckpt::write_checkpoint(path, state, good.layout_case(), Changed(good, change));
    ckpt::LoadOptions load;
    load.source = path;
    const std::string message = refusal_of([&] { train_from(&load, nullptr); });
    load.weights_only = true;
    CHECK_NOTHROW(train_from(&load, nullptr));
    return message;
  };
  const auto set = [](State wanted, float value) {
    return [=](State state, Range range, float* out) {
      if (state == wanted && range.contains(0)) out[-range.start] = value;
    };
  };
  CHECK(refusal(good.state(), [](State, Range, float*) {}).empty());
  for (const auto& [change, says] :
       std::vector<std::pair<std::function<void(State, Range, float*)>, std::string>>{
           {set(State::exp_avg_sq, -1), "exp_avg_sq[0] is -1"},
           {set(State::exp_avg, infinity), "exp_avg[0] is inf"},
           {set(State::exp_avg_sq, 0), "exp_avg_sq[0] is 0 where exp_avg is"},
           {[](State, Range range, float*out) { std::fill(out, out + range.size(), 0.0F); },
            "AdamW has made 2 steps, but every second moment is 0"}}) {
    const std::string message = refusal(good.state(), change);
    check_says(message, says);
    check_says(message, "--load-weights-only starts a new run from the parameters");
  }
  ckpt::RunState no_steps = good.state();
  no_steps.optimizer_steps = 0;
  check_says(refusal(no_steps, [](State, Range, float*) {}), "but AdamW's step count is 0");
}

TEST_CASE("a checkpoint that no run has written leaves the loss scaler as the flags say") {
  TrainConfig config = tiny_run();
  config.train_iters = 1;
  config.param_dtype = DType::fp16;
  config.data_parallel.check_for_nan_in_grad = false;
  config.loss_scale.initial_scale = 512;
  config = resolve(config);
  const test::TemporaryFolder folder;
  config.save_weights = folder.path("w.safetensors");
  train(config, {});
  config.save_weights.clear();
  ckpt::ImportOptions options;
  options.layout.dp_size = 1;
  ckpt::ImportPlan(folder.path("w.safetensors"), options).write(folder.path("c"), {});
  const ckpt::Loader loader({folder.path("c"), {}}, config);
  TrainObserver observer;
  double scale = 0;
  observer.on_rank_ready = [&](int rank, RankTrainer& trainer) {
    loader.restore(rank, trainer);
    scale = trainer.progress().loss_scaler.scale;
  };
  train(config, observer);
  CHECK(scale == 512);
}
