#include <fmt/format.h>

#include "ckpt/checkpoint.h"
#include "ckpt/train_hooks.h"
#include "core/base/error.h"
#include "core/train/weights.h"

namespace zero1::ckpt {

class Loader::Impl {
 public:
  Impl(const LoadOptions& options, const TrainConfig& config) : checkpoint(options.source, options.step) {
    const std::vector<ParamSpec> wanted = make_model(config)->param_specs();
    const std::string faults = compare_params(wanted, checkpoint.layout().specs);
    if (!faults.empty()) {
      throw InputError(fmt::format("--load {}: does not fit the model:{}", checkpoint.folder(), faults));
    }
    for (const ParamSpec& spec : wanted) stored_.push_back(*checkpoint.find(spec.name));
    if (checkpoint.state().step >= config.train_iters) {
      throw InputError(fmt::format(
          "--load {}: is at step {}; --train-iters counts from the beginning and must be larger, got {}",
          checkpoint.folder(), checkpoint.state().step, config.train_iters));
    }
  }

  /// Reads what overlaps one shard into it.
  void fill(const BucketShard& shard, RankContext& context) const {
    std::vector<float> values;
    for (const ParamShard& row : shard.params) {
      const int stored = stored_[static_cast<std::size_t>(row.param)];
      const auto load = [&](State state, const TensorView& view) {
        values.resize(static_cast<std::size_t>(row.param_range.size()));
        checkpoint.read(stored, state, row.param_range, values.data());
        context.device.copy_from_host(context.compute, view.slice(row.gbuf_local), values.data());
        context.compute.synchronize();  // `values` is reused
      };
      load(State::param, shard.main_param);
      load(State::exp_avg, shard.exp_avg);
      load(State::exp_avg_sq, shard.exp_avg_sq);
    }
  }

  const Checkpoint checkpoint;

 private:
  std::vector<int> stored_;  ///< the checkpoint's index of each parameter of the run
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
  const RunState& state = impl_->checkpoint.state();
  trainer.restore({state.step,
                   state.consumed_sequences,
                   state.optimizer_steps,
                   {state.loss_scale, state.growth_tracker, state.hysteresis_tracker}});
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

int Loader::dp_size() const {
  return impl_->checkpoint.layout().options.dp_size;
}

}  // namespace zero1::ckpt
