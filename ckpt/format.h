// What a checkpoint consists of. docs/checkpoint_format.md specifies it to the byte.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout/buffer_layout.h"

namespace zero1::ckpt {

inline constexpr int format_version = 1;
inline constexpr std::string_view checkpoint_file_name = "checkpoint.h5";

/// What is stored of every parameter element, each in fp32.
enum class State : std::uint8_t { param, exp_avg, exp_avg_sq };
inline constexpr int state_count = 3;
inline constexpr std::int64_t elem_bytes = sizeof(float);
inline constexpr std::array<State, state_count> all_states{State::param, State::exp_avg, State::exp_avg_sq};

std::string_view name(State state);  ///< as in paths: "param", "exp_avg", "exp_avg_sq"

std::string rank_file_name(int rank);             ///< "rank_00000.h5"
std::string step_folder_name(std::int64_t step);  ///< "step_00000100"

/// The groups below /model that a parameter's datasets lie in. HDF5 takes a name apart at each '/', and so do
/// we: "a/b" lies in the group b of the group a. A part gets a '%' in front where it could not be a group:
/// one that is empty, "." or "..", behind the first also a state's name ("a/param" would be a's dataset), and
/// one that begins with '%', so that names stay apart.
std::vector<std::string> group_path(std::string_view param);

/// Parameters with the same multipliers.
struct ParamGroup {
  std::vector<std::string> params;
  double lr_mult = 1;
  double weight_decay_mult = 1;
};

/// The checkpoint with the least loss on validation data that a run has saved.
struct BestCheckpoint {
  std::int64_t step = 0;
  double valid_loss = 0;

  friend bool operator==(const BestCheckpoint&, const BestCheckpoint&) = default;
};

/// Everything of a run beside its elements. What the writer of a checkpoint did not know is left at its
/// default, as in a checkpoint imported from a file of weights.
struct RunState {
  std::int64_t step = 0;                ///< iterations completed
  std::int64_t optimizer_steps = 0;     ///< steps of AdamW, for its bias correction
  std::int64_t consumed_sequences = 0;  ///< of the training data, over all ranks
  std::uint64_t seed = 0;               ///< every random number of a run is a function of it and of positions
  bool shuffle = false;
  double loss_scale = 1;
  int growth_tracker = 0;
  int hysteresis_tracker = 0;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_eps = 1e-8, weight_decay = 0, clip_grad = 0;
  double lr = 0, min_lr = 0;
  std::int64_t warmup_iters = 0, decay_iters = 0;
  std::string lr_decay_style = "constant";
  std::string wsd_decay_style = "exponential";
  std::int64_t wsd_decay_iters = 0;
  /// Of consumed_sequences, those of iterations that moved the schedule: skipped ones do not. Nothing where
  /// the writer did not tell (schedule_position in hyperparameters.h).
  std::optional<std::int64_t> scheduled_sequences;
  std::vector<ParamGroup> param_groups;
  std::string config_json = "{}";    ///< the run's configuration, or what a file of weights says of the model
  std::optional<double> valid_loss;  ///< where the run was evaluated after this step; finite
  std::optional<BestCheckpoint> best;  ///< up to this step, this one included; of --save-best
};

std::string to_json(const RunState& state);
/// Throws InputError naming the field.
RunState parse_run_state(const std::string& json, const std::string& source);

/// One slice: the shard that one rank owns of one bucket, of one state.
struct SliceRecord {
  std::int32_t rank = 0;
  std::int32_t buffer = 0;
  std::int32_t bucket = 0;  ///< within the buffer
  std::int32_t state = 0;
  std::int64_t offset_bytes = 0;  ///< of the first element in the rank's file; 0 for an empty slice
  std::int64_t elems = 0;         ///< padding included
  std::uint64_t digest = 0;       ///< XXH3-64 of the slice's bytes

  friend bool operator==(const SliceRecord&, const SliceRecord&) = default;
};

/// One rank's file.
struct RankFileRecord {
  std::int64_t bytes = 0;
  std::uint64_t frame_digest = 0;  ///< XXH3-64 of all bytes outside the slices, in order

  friend bool operator==(const RankFileRecord&, const RankFileRecord&) = default;
};

/// Where the bytes of one of checkpoint.h5's datasets lie in it; both 0 where it is empty.
struct Section {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const Section&, const Section&) = default;
};

/// How many ranks have a file: those of the larger of the groups that own something.
int rank_count(const Layout& layout);

/// The slices that a layout has, in the order of the table: by rank, buffer, bucket, state. Offsets and
/// digests are left 0.
std::vector<SliceRecord> slices_of_rank(const Layout& layout, int rank);
std::int64_t slice_count(const Layout& layout);

/// Position in the whole table of one slice.
std::int64_t slice_index(const Layout& layout, int rank, int buffer, int bucket, State state);

}  // namespace zero1::ckpt
