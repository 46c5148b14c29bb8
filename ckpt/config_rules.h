// What a run that goes on from a checkpoint may change of the configuration that saved it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/format.h"
#include "core/train/config.h"

namespace zero1::ckpt {

/// What it means that a field of the configuration is another one than in the checkpoint.
enum class Change : std::uint8_t {
  function,  ///< the same parameters would compute something else: refused unless it is said to be meant
  data,      ///< the data would be read from another position, or others: the same
  schedule,  ///< rate, schedule, AdamW, multipliers: hyperparameters.h asks which side wins
  told,      ///< results may differ in their bits or their meaning: a line says so
  free,      ///< nothing of the results depends on it
};

struct ConfigRule {
  std::string_view field;  ///< of to_json(TrainConfig)
  std::string_view flag;   ///< as messages name it
  Change change;

  bool refuses() const { return change == Change::function || change == Change::data; }
};

/// One for each field of to_json(TrainConfig).
std::span<const ConfigRule> config_rules();

/// The name by which --allow-change takes a field: "num-attention-heads".
std::string change_name(const ConfigRule& rule);

/// Throws InputError for a name that is no field which is refused.
void check_change_names(const std::vector<std::string>& names);

struct ConfigChanges {
  std::vector<std::string> refused;        ///< a line each
  std::vector<std::string> refused_names;  ///< what --allow-change would be given
  std::vector<std::string> notes;          ///< a line each: what has changed and is told
};

/// Compares a resolved configuration with that of the run that saved. `allowed`: change names. With
/// `weights_only` a new run begins, for which only the function counts. What the checkpoint does not tell (an
/// older or imported one) is not compared.
ConfigChanges compare_configs(const TrainConfig& config, const RunState& state,
                              const std::vector<std::string>& allowed, bool weights_only);

}  // namespace zero1::ckpt
