// checkpoint.h5: what is known of a checkpoint beside its slices, and the virtual view of it.
#pragma once

#include <string>
#include <vector>

#include "ckpt/format.h"
#include "core/layout/json.h"

namespace zero1::ckpt {

struct CheckpointContents {
  RunState state;
  LayoutCase layout_case;
  Layout layout;                      ///< computed from layout_case
  std::vector<RankFileRecord> files;  ///< by rank
  std::vector<SliceRecord> slices;    ///< in the table's order
};

/// Throws InputError naming a parameter whose name cannot be a group of /model: empty, ".", or with a '/'.
void check_names(const std::vector<ParamSpec>& specs);

/// Writes folder/checkpoint.h5, with the digest of its own bytes in front, and flushes it to disk.
void write_checkpoint_file(const std::string& folder, const CheckpointContents& contents);

/// Reads it and checks that it is consistent in itself: its digest, the format's version, the layout, the
/// table of slices against the layout, offsets against the files' sizes. Allocates no more than the file's
/// size accounts for. Throws InputError naming file and fault; with `faults`, a wrong digest alone is
/// added there instead, so that more can be found.
CheckpointContents read_checkpoint_file(const std::string& folder,
                                        std::vector<std::string>* faults = nullptr);

/// The first 512 bytes of a checkpoint.h5, for bytes [512, file_bytes) with this digest.
std::string user_block(std::int64_t file_bytes, const std::string& digest_hex);
inline constexpr std::int64_t user_block_bytes = 512;

}  // namespace zero1::ckpt
