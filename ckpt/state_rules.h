// What AdamW's state may be: its step count and its moments belong together, and its moments are numbers that
// AdamW can have made.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.h"

namespace zero1::ckpt {

/// Metadata of exported safetensors files.
inline constexpr const char* state_key = "zero1_state";    ///< /state, as JSON
inline constexpr const char* layout_key = "zero1_layout";  ///< /layout, as JSON
/// Without moments, in place of zero1_state, whose step count would be believed: the iteration, for people,
/// and model_fields().
inline constexpr const char* step_key = "zero1_step";
inline constexpr const char* model_key = "zero1_model";

/// Of a run's configuration, what belongs to the parameters and not to the run: the fields of model_json
/// (core/train/config.h) that it has, as JSON. Throws InputError where it is no JSON object; `source` begins
/// the message.
std::string model_fields(const std::string& config_json, const std::string& source);

/// Whether the configuration is a run's, and not what is known of a file of weights, model_fields() at most:
/// then schedule, AdamW's coefficients and loss scaler are nobody's.
bool is_of_run(const RunState& state);

/// The moments that a file has of one parameter.
struct StoredMoments {
  std::string param;
  bool exp_avg = false;
  bool exp_avg_sq = false;
};

/// What the flags of import say about AdamW's state.
struct OptimizerFlags {
  std::optional<std::int64_t> step;  ///< of AdamW, where the file has moments and records none
  bool reset = false;                ///< no moments, step count 0
};

/// What becomes of AdamW's state in an imported checkpoint.
struct OptimizerState {
  RunState state;                  ///< the recorded one, AdamW's step count decided
  bool moments = false;            ///< the file's are taken; else they are zero
  std::vector<std::string> notes;  ///< for people, a line each
};

/// Decides it. Throws InputError, naming parameters and the flags that help, when a step count is recorded
/// without moments or moments without a step count, when one moment of a parameter is missing, when some
/// parameters have moments and others none, and when the flags contradict the file. `source` begins messages.
OptimizerState decide_optimizer_state(const std::optional<RunState>& recorded,
                                      const std::vector<StoredMoments>& params, const OptimizerFlags& flags,
                                      const std::string& source);

/// Throws InputError when one of `others`, which are taken for parameters, is by its name a state of another
/// tensor ("w.exp_avg" without "w", "w.step" beside it) and not one of the `recorded` parameters.
void refuse_orphaned_states(const std::vector<std::string>& others, const std::vector<std::string>& recorded,
                            const std::string& source);

inline bool is_finite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7F800000u) != 0x7F800000u;
}

/// Whether AdamW can never have left a second moment of 0 beside this first moment; the next update would be
/// the quotient of it and AdamW's epsilon. Both decay; where beta1² < beta2 the second is the slower, so it
/// is 0 only where gradients are too small for fp32's squares.
inline bool needs_second_moment(float exp_avg) {
  return std::abs(exp_avg) > 1e-15F;
}
inline bool second_moment_decays_slower(const RunState& state) {
  return state.adam_beta1 * state.adam_beta1 < state.adam_beta2;
}

/// What there is among some values; told in one pass that compilers make vectors of.
struct ValueKinds {
  bool non_finite = false, negative = false, zero = false, non_zero = false;
};
ValueKinds kinds_of(const float* values, std::int64_t count);

/// Checks a checkpoint's elements on their way in. Any number of threads may check at once.
class StateCheck {
 public:
  /// `source` begins messages; `advice` ends those about moments: what to do without them.
  StateCheck(const RunState& state, std::string source, std::string advice);

  /// Throws InputError naming parameter, state and element when a value is not finite or would be none in the
  /// parameter's dtype, when a second moment is negative, or 0 where it cannot be, and when a moment is not
  /// zero though AdamW has made no step. `read_exp_avg(out)`: the first moments of the same range.
  void check(const ParamSpec& spec, State state, Range range, const float* values,
             const std::function<void(float*)>& read_exp_avg);

  /// All elements have been checked. Throws InputError when AdamW has made steps and all second moments are
  /// 0.
  void finish() const;

 private:
  void check_second_moment(const ParamSpec& spec, Range range, const float* values, const ValueKinds& kinds,
                           const std::function<void(float*)>& read_exp_avg);
  [[noreturn]] void fail(const ParamSpec& spec, State state, std::int64_t element,
                         const std::string& what) const;

  std::int64_t optimizer_steps_;
  bool zero_is_impossible_;
  std::string source_;
  std::string advice_;
  std::atomic<bool> has_second_moment_{false};
  std::atomic<bool> has_elements_{false};
};

/// Another source's elements, checked; without moments these are zero.
class CheckedSource : public ElementSource {
 public:
  /// All outlive it. `specs` are the source's parameters.
  CheckedSource(const ElementSource& source, const std::vector<ParamSpec>& specs, bool moments,
                StateCheck& check);
  void read(int param, State state, Range param_range, float* out) const override;

 private:
  const ElementSource& source_;
  const std::vector<ParamSpec>& specs_;
  bool moments_;
  StateCheck& check_;
};

}  // namespace zero1::ckpt
