#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "ckpt/checkpoint.h"
#include "ckpt/config_rules.h"
#include "ckpt/mapped_source.h"
#include "ckpt/state_rules.h"
#include "ckpt/train_hooks.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/train/weights.h"

namespace zero1::ckpt {

class Loader::Impl {
  std::optional<Checkpoint> checkpoint_;  ///< until every rank has what it needs

 public:
  const bool weights_only;
  const std::string folder;
  const RunState state;
  const int dp_size;
  std::vector<std::string> not_loaded;   ///< of the run
  std::vector<std::string> left_behind;  ///< of the checkpoint
  std::vector<std::string> notes;
  Agreement agreement;
  std::int64_t scheduled_sequences = 0;

  Impl(const LoadOptions& options, const TrainConfig& config)
      : checkpoint_(std::in_place, options.source, options.step),
        weights_only(options.weights_only),
        folder(checkpoint_->folder()),
        state(checkpoint_->state()),
        dp_size(checkpoint_->layout().options.dp_size),
        specs_(make_model(config)->param_specs()),
        check_(state, "--load " + folder, "--load-weights-only starts a new run from the parameters"),
        ranks_to_restore_(config.dp) {
    const std::vector<ParamSpec>& wanted = specs_;
    stored_ =
        map_tensors(options.names, named_shapes(checkpoint_->layout().specs), StateTensors::none, folder);
    notes = describe(stored_);
    match(wanted, options.strict);
    if (not_loaded.size() == wanted.size()) {
      throw InputError(fmt::format("--load {}: has no parameter of the model", folder));
    }
    if (!weights_only) refuse_new_params();
    if (!weights_only && state.step >= config.train_iters) {
      throw InputError(fmt::format(
          "--load {}: is at step {}; --train-iters counts from the beginning and must be larger, got {}",
          folder, state.step, config.train_iters));
    }
    try {
      check_change_names(options.allowed_changes);
      agreement = weights_only ? agree_on_weights(config, state, options.allowed_changes)
                               : agree(config, state, wanted, multipliers(), options.hyperparameters,
                                       options.allowed_changes);
      scheduled_sequences = schedule_position(state, agreement.config.global_batch_size);
    } catch (const InputError& error) {
      throw InputError(fmt::format("--load {}: {}", folder, error.what()));
    }
  }

  /// Reads what overlaps one shard into it.
  void fill(const BucketShard& shard, RankContext& context) {
    std::vector<float> values;
    for (const ParamShard& row : shard.params) {
      if (!stored_of_[static_cast<std::size_t>(row.param)]) continue;
      const auto load = [&](State what, const TensorView& view) {
        values.resize(static_cast<std::size_t>(row.param_range.size()));
        elements_->read(row.param, what, row.param_range, values.data());
        check_.check(specs_[static_cast<std::size_t>(row.param)], what, row.param_range, values.data(),
                     [&](float* out) { elements_->read(row.param, State::exp_avg, row.param_range, out); });
        context.device.copy_from_host(context.compute, view.slice(row.gbuf_local), values.data());
        context.compute.synchronize();  // `values` is reused
      };
      load(State::param, shard.main_param);
      if (weights_only) continue;
      load(State::exp_avg, shard.exp_avg);
      load(State::exp_avg_sq, shard.exp_avg_sq);
    }
  }

  /// All ranks have filled their shards.
  void check_filled() const {
    if (!weights_only) check_.finish();
  }

  /// A rank has read all it needs.
  void rank_restored() {
    if (--ranks_to_restore_ > 0) return;
    elements_.reset();
    checkpoint_.reset();
  }

 private:
  /// What the checkpoint says of each of the run's parameters.
  std::vector<std::optional<ParamMultipliers>> multipliers() const {
    std::map<std::string_view, ParamMultipliers> by_name;
    for (const ParamGroup& group : state.param_groups) {
      for (const std::string& param : group.params) by_name[param] = {group.lr_mult, group.weight_decay_mult};
    }
    std::vector<std::optional<ParamMultipliers>> result;
    for (const std::optional<int>& stored : stored_of_) {
      const auto found =
          stored ? by_name.find(stored_[static_cast<std::size_t>(*stored)].stored) : by_name.end();
      result.push_back(found == by_name.end() ? std::nullopt : std::optional(found->second));
    }
    return result;
  }

  /// AdamW's step count is one for all parameters. That of a parameter that joins later would be too high:
  /// its moments begin at 0, and without bias correction its first updates were several times too large.
  void refuse_new_params() const {
    if (not_loaded.empty() || state.optimizer_steps == 0) return;
    throw InputError(fmt::format(
        "--load {}: {} not in the checkpoint ({}{}) and would have no moments, but AdamW has made {} and its "
        "count is one for all parameters: their first updates would be several times too large. Start a new "
        "run from the parameters with --load-weights-only",
        folder, counted(not_loaded.size(), "parameter is", "parameters are"), printable(not_loaded.front()),
        not_loaded.size() > 1 ? ", …" : "", counted(state.optimizer_steps, "step")));
  }

  /// Finds each of the run's parameters in the checkpoint; what only one side has is refused when strict.
  void match(const std::vector<ParamSpec>& wanted, bool strict) {
    std::map<std::string_view, int> by_name;
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      if (!stored_[i].excluded) by_name[stored_[i].name] = static_cast<int>(i);
    }
    std::vector<MappedSource::Param> sources;
    std::vector<NamedShape> common;
    for (const ParamSpec& spec : wanted) {
      const auto found = by_name.find(spec.name);
      if (found == by_name.end()) {
        not_loaded.push_back(spec.name);
        stored_of_.emplace_back();
        sources.emplace_back();
        continue;
      }
      stored_of_.emplace_back(found->second);
      sources.push_back(mapped_param(found->second, stored_[static_cast<std::size_t>(found->second)]));
      common.push_back({spec.name, spec.shape});
      by_name.erase(found);
    }
    for (const MappedTensor& tensor : stored_) {
      if (!tensor.excluded && by_name.contains(tensor.name)) left_behind.push_back(tensor.name);
    }
    check_fit(named_shapes(wanted), common, strict);
    elements_.emplace(*checkpoint_, std::move(sources));
  }

  /// `common` of what is `wanted` is in the checkpoint, too.
  void check_fit(const std::vector<NamedShape>& wanted, const std::vector<NamedShape>& common,
                 bool strict) const {
    std::vector<MappedTensor> offered = stored_;
    const std::set<std::string_view> unexpected(left_behind.begin(), left_behind.end());
    std::erase_if(offered, [&](const MappedTensor& each) { return unexpected.contains(each.name); });
    const TensorFit loose = compare_tensors(common, offered);
    const TensorFit fit = strict ? compare_tensors(wanted, stored_) : loose;
    if (fit.faults.empty()) return;
    const bool loose_helps = strict && loose.faults.empty() && !common.empty();
    const bool joins = !weights_only && !not_loaded.empty() && state.optimizer_steps > 0;
    const char* loosely =
        joins ? "\nStart a new run from what both sides have with --no-strict --load-weights-only"
              : "\nLoad what both sides have with --no-strict";
    throw InputError(fmt::format("--load {}: does not fit the model:{}{}{}", folder, fit.faults, fit.advice,
                                 loose_helps ? loosely : ""));
  }

  std::vector<ParamSpec> specs_;  ///< of the run
  StateCheck check_;
  std::vector<MappedTensor> stored_;           ///< the checkpoint's parameters
  std::vector<std::optional<int>> stored_of_;  ///< which of them each parameter of the run is
  std::optional<MappedSource> elements_;       ///< by parameter of the run
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
    LossScaler::State scaler{state.loss_scale, state.growth_tracker, state.hysteresis_tracker};
    if (!is_of_run(state)) scaler = trainer.progress().loss_scaler;
    trainer.restore(
        {state.step, state.consumed_sequences, state.optimizer_steps, scaler, impl_->scheduled_sequences});
  }
  trainer.optimizer().publish_main_params();
  trainer.finish();
  check_ranks_hold_same_params(trainer.data_parallel());
  impl_->check_filled();
  impl_->rank_restored();
}

const TrainConfig& Loader::config() const {
  return impl_->agreement.config;
}

std::vector<std::string> Loader::notes() const {
  std::vector<std::string> notes = impl_->notes;
  for (const std::string& name : impl_->not_loaded)
    notes.push_back(fmt::format("not in the checkpoint: {}; it keeps its initial value", printable(name)));
  for (const std::string& name : impl_->left_behind)
    notes.push_back(fmt::format("not in the model: {}; the run goes on without it", printable(name)));
  if (!impl_->weights_only && impl_->state.step > 0 && impl_->state.optimizer_steps == 0)
    notes.emplace_back("AdamW starts afresh: the checkpoint has no moments, and AdamW's step count is 0");
  notes.insert(notes.end(), impl_->agreement.notes.begin(), impl_->agreement.notes.end());
  return notes;
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

std::vector<std::string> Loader::left_behind() const {
  return impl_->left_behind;
}

int Loader::dp_size() const {
  return impl_->dp_size;
}

}  // namespace zero1::ckpt
