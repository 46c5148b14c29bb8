#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "ckpt/checkpoint.h"
#include "ckpt/train_hooks.h"
#include "core/base/error.h"
#include "core/train/weights.h"

namespace zero1::ckpt {

class Loader::Impl {
  std::optional<Checkpoint> checkpoint_;  ///< until every rank has what it needs

 public:
  const bool weights_only;
  const std::string folder;
  const RunState state;
  const int dp_size;
  std::vector<std::string> not_loaded;
  Agreement agreement;

  Impl(const LoadOptions& options, const TrainConfig& config)
      : checkpoint_(std::in_place, options.source, options.step),
        weights_only(options.weights_only),
        folder(checkpoint_->folder()),
        state(checkpoint_->state()),
        dp_size(checkpoint_->layout().options.dp_size),
        ranks_to_restore_(config.dp) {
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
      throw InputError(fmt::format("--load {}: has no parameter of the model", folder));
    }
    agreement.config = config;
    if (weights_only) return;
    if (state.step >= config.train_iters) {
      throw InputError(fmt::format(
          "--load {}: is at step {}; --train-iters counts from the beginning and must be larger, got {}",
          folder, state.step, config.train_iters));
    }
    try {
      agreement = agree(config, state, wanted, multipliers(), options.hyperparameters);
    } catch (const InputError& error) {
      throw InputError(fmt::format("--load {}: {}", folder, error.what()));
    }
  }

  /// Reads what overlaps one shard into it.
  void fill(const BucketShard& shard, RankContext& context) const {
    std::vector<float> values;
    for (const ParamShard& row : shard.params) {
      const std::optional<int> stored = stored_[static_cast<std::size_t>(row.param)];
      if (!stored) continue;
      const auto load = [&](State what, const TensorView& view) {
        values.resize(static_cast<std::size_t>(row.param_range.size()));
        checkpoint_->read(*stored, what, row.param_range, values.data());
        context.device.copy_from_host(context.compute, view.slice(row.gbuf_local), values.data());
        context.compute.synchronize();  // `values` is reused
      };
      load(State::param, shard.main_param);
      if (weights_only) continue;
      load(State::exp_avg, shard.exp_avg);
      load(State::exp_avg_sq, shard.exp_avg_sq);
    }
  }

  /// A rank has read all it needs.
  void rank_restored() {
    if (--ranks_to_restore_ == 0) checkpoint_.reset();
  }

 private:
  /// What the checkpoint says of each of the run's parameters.
  std::vector<std::optional<ParamMultipliers>> multipliers() const {
    std::map<std::string_view, ParamMultipliers> by_name;
    for (const ParamGroup& group : state.param_groups) {
      for (const std::string& param : group.params) by_name[param] = {group.lr_mult, group.weight_decay_mult};
    }
    std::vector<std::optional<ParamMultipliers>> result;
    for (const std::optional<int>& stored : stored_) {
      const auto found =
          stored ? by_name.find(checkpoint_->layout().specs[static_cast<std::size_t>(*stored)].name)
                 : by_name.end();
      result.push_back(found == by_name.end() ? std::nullopt : std::optional(found->second));
    }
    return result;
  }

  /// The stored parameters under the names that the run gives them.
  std::vector<ParamSpec> renamed(const LoadOptions& options) const {
    std::vector<ParamSpec> specs = checkpoint_->layout().specs;
    for (const auto& [from, to] : options.renames) {
      const std::optional<int> param = checkpoint_->find(from);
      if (!param) {
        throw InputError(
            fmt::format("--rename {}={}: {} has no parameter '{}'; `zero1 ckpt inspect` lists them", from, to,
                        folder, from));
      }
      if (to.empty()) throw InputError(fmt::format("--rename {}=: the new name is missing", from));
      specs[static_cast<std::size_t>(*param)].name = to;
    }
    std::set<std::string_view> names;
    for (const ParamSpec& spec : specs) {
      if (names.insert(spec.name).second) continue;
      throw InputError(fmt::format(
          "--rename: '{}' would be the name of two of the parameters of {}; rename the other one too",
          spec.name, folder));
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
        fmt::format("--load {}: does not fit the model:{}{}", folder, faults,
                    strict ? "\nLoad what fits with --no-strict, or give names with --rename" : ""));
  }

  std::vector<std::optional<int>> stored_;  ///< the checkpoint's index of each parameter of the run
  std::atomic<int> ranks_to_restore_;
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
    const RunState& state = impl_->state;
    trainer.restore({state.step,
                     state.consumed_sequences,
                     state.optimizer_steps,
                     {state.loss_scale, state.growth_tracker, state.hysteresis_tracker}});
  }
  trainer.optimizer().publish_main_params();
  trainer.finish();
  check_ranks_hold_same_params(trainer.data_parallel());
  impl_->rank_restored();
}

const TrainConfig& Loader::config() const {
  return impl_->agreement.config;
}

const std::vector<std::string>& Loader::notes() const {
  return impl_->agreement.notes;
}

const std::string& Loader::folder() const {
  return impl_->folder;
}

std::int64_t Loader::step() const {
  return impl_->state.step;
}

std::vector<std::string> Loader::not_loaded() const {
  return impl_->not_loaded;
}

const RunState& Loader::state() const {
  return impl_->state;
}

int Loader::dp_size() const {
  return impl_->dp_size;
}

}  // namespace zero1::ckpt
