// What a run that goes on takes from the checkpoint and what from its own flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ckpt/format.h"
#include "core/train/config.h"
#include "core/zero1/param_groups.h"

namespace zero1::ckpt {

/// Where the checkpoint and the flags differ in the schedule (rate, warm-up, decay), AdamW's coefficients,
/// weight decay or a parameter's multipliers. Megatron: the default of OptimizerParamScheduler,
/// --override-opt_param-scheduler, --use-checkpoint-opt_param-scheduler.
enum class Hyperparameters { must_agree, of_flags, of_checkpoint };

/// A run's configuration after a look at the checkpoint, and what is to be told about it.
struct Agreement {
  TrainConfig config;
  std::vector<std::string> notes;  ///< a line per difference
};

/// `stored` holds the multipliers of each of the run's parameters, where the checkpoint has that parameter.
/// Throws InputError that lists every difference, under must_agree, and in any case every one that
/// config_rules.h refuses and `allowed_changes` does not name. The rest comes from the flags and is noted. A
/// checkpoint that no run has written (an import) agrees with everything.
Agreement agree(const TrainConfig& config, const RunState& state, const std::vector<ParamSpec>& specs,
                const std::vector<std::optional<ParamMultipliers>>& stored, Hyperparameters choice,
                const std::vector<std::string>& allowed_changes = {});

/// The same for a new run that begins with the checkpoint's parameters: only what they compute must agree.
Agreement agree_on_weights(const TrainConfig& config, const RunState& state,
                           const std::vector<std::string>& allowed_changes = {});

/// TrainProgress::scheduled_sequences of a run that goes on: after the same number of iterations, counted in
/// batches of `global_batch_size`, its own. A checkpoint that does not tell is as far as AdamW is: both move
/// with every step that is not skipped.
std::int64_t schedule_position(const RunState& state, std::int64_t global_batch_size);

}  // namespace zero1::ckpt
