#include <fmt/format.h>

#include <algorithm>

#include "ckpt/checkpoint.h"
#include "ckpt/train_hooks.h"
#include "core/base/error.h"
#include "core/train/weights.h"

namespace zero1::ckpt {

class Loader::Impl {
 public:
  Impl(const LoadOptions& options, const TrainConfig& config)
      : checkpoint(options.source, options.step), weights_only(options.weights_only) {
    const std::vector<ParamSpec> wanted = make_model(config)->param_specs();
    const std::vector<ParamSpec> stored = renamed(options);
    check_fit(wanted, stored, options.strict);
    for (const ParamSpec& spec : wanted) {
      const auto found = std::find_if(stored.begin(), stored.end(),
                                      [&](const ParamSpec& each) { return each.name == spec.name; });
      if (found == stored.end()) {
        not_loaded.push_back(spec.name);
        stored_.emplace_back();
      } else {
        stored_.emplace_back(static_cast<int>(found - stored.begin()));
      }
    }
    if (not_loaded.size() == wanted.size()) {
      throw InputError(fmt::format("--load {}: has no parameter of the model", checkpoint.folder()));
    }
    if (!weights_only && checkpoint.state().step >= config.train_iters) {
      throw InputError(fmt::format(
          "--load {}: is at step {}; --train-iters counts from the beginning and must be larger, got {}",
          checkpoint.folder(), checkpoint.state().step, config.train_iters));
    }
  }

  /// Reads what overlaps one shard into it.
  void fill(const BucketShard& shard, RankContext& context) const {
    std::vector<float> values;
    for (const ParamShard& row : shard.params) {
      const std::optional<int> stored = stored_[static_cast<std::size_t>(row.param)];
      if (!stored) continue;
      const auto load = [&](State state, const TensorView& view) {
        values.resize(static_cast<std::size_t>(row.param_range.size()));
        checkpoint.read(*stored, state, row.param_range, values.data());
        context.device.copy_from_host(context.compute, view.slice(row.gbuf_local), values.data());
        context.compute.synchronize();  // `values` is reused
      };
      load(State::param, shard.main_param);
      if (weights_only) continue;
      load(State::exp_avg, shard.exp_avg);
      load(State::exp_avg_sq, shard.exp_avg_sq);
    }
  }

  const Checkpoint checkpoint;
  const bool weights_only;
  std::vector<std::string> not_loaded;

 private:
  /// The stored parameters under the names that the run gives them.
  std::vector<ParamSpec> renamed(const LoadOptions& options) const {
    std::vector<ParamSpec> specs = checkpoint.layout().specs;
    for (const auto& [from, to] : options.renames) {
      const std::optional<int> param = checkpoint.find(from);
      if (!param) {
        throw InputError(
            fmt::format("--rename {}={}: {} has no parameter '{}'; `zero1 ckpt inspect` lists them", from, to,
                        checkpoint.folder(), from));
      }
      specs[static_cast<std::size_t>(*param)].name = to;
    }
    return specs;
  }

  void check_fit(const std::vector<ParamSpec>& wanted, const std::vector<ParamSpec>& stored,
                 bool strict) const {
    std::vector<ParamSpec> common_wanted = wanted;
    std::vector<ParamSpec> common_stored = stored;
    if (!strict) {
      const auto keep_common = [](std::vector<ParamSpec>& specs, const std::vector<ParamSpec>& others) {
        std::erase_if(specs, [&](const ParamSpec& spec) {
          return std::none_of(others.begin(), others.end(),
                              [&](const ParamSpec& other) { return other.name == spec.name; });
        });
      };
      keep_common(common_wanted, stored);
      keep_common(common_stored, wanted);
    }
    const std::string faults = compare_params(common_wanted, common_stored);
    if (faults.empty()) return;
    throw InputError(
        fmt::format("--load {}: does not fit the model:{}{}", checkpoint.folder(), faults,
                    strict ? "\nLoad what fits with --no-strict, or give names with --rename" : ""));
  }

  std::vector<std::optional<int>> stored_;  ///< the checkpoint's index of each parameter of the run
};

Loader::Loader(const LoadOptions& options, const TrainConfig& config)
    : impl_(std::make_unique<Impl>(options, config)) {}
Loader::~Loader() = default;

void Loader::restore(int, RankTrainer& trainer) const {
  RankContext& context = trainer.context();
  {
    trace::Event event;
    event.kind = trace::Kind::checkpoint_load;
    event.stream = trace::StreamId::compute;
    const auto span = context.tracer.span(context.compute, event);
    for (const BucketShard& shard : trainer.optimizer().shards()) impl_->fill(shard, context);
  }
  if (!impl_->weights_only) {
    const RunState& state = impl_->checkpoint.state();
    trainer.restore({state.step,
                     state.consumed_sequences,
                     state.optimizer_steps,
                     {state.loss_scale, state.growth_tracker, state.hysteresis_tracker}});
  }
  trainer.optimizer().publish_main_params();
  trainer.finish();
  check_ranks_hold_same_params(trainer.data_parallel());
}

const std::string& Loader::folder() const {
  return impl_->checkpoint.folder();
}

std::int64_t Loader::step() const {
  return impl_->checkpoint.state().step;
}

std::vector<std::string> Loader::not_loaded() const {
  return impl_->not_loaded;
}

int Loader::dp_size() const {
  return impl_->checkpoint.layout().options.dp_size;
}

}  // namespace zero1::ckpt
