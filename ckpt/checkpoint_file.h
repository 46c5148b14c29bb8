// checkpoint.h5: what is known of a checkpoint beside its slices, and the virtual view of it.
//
// HDF5 writes the file; here it is read without HDF5, by the offsets that its first 512 bytes tell.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ckpt/folder.h"
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

/// Throws InputError naming a parameter whose name no link of HDF5 can have: one with a NUL.
void check_names(const std::vector<ParamSpec>& specs);

/// Writes folder/checkpoint.h5, with the digest of its own bytes in front, and flushes it to disk. The ranks'
/// files are complete. Throws Error naming the file.
void write_checkpoint_file(const std::string& folder, const CheckpointContents& contents);

/// Reads it and checks that it is consistent in itself: its digest, the format's version, the layout, the
/// table of slices against the layout, offsets against the files' sizes, no link that leads elsewhere.
/// Allocates no more than the file's size accounts for. Throws InputError naming file and fault.
CheckpointContents read_checkpoint_file(const FolderInUse& folder);

/// What a damaged checkpoint.h5 still tells. A part that could not be read is empty.
struct SalvagedContents {
  CheckpointContents contents;
  bool has_state = false;
  bool has_layout = false;
  bool has_files = false;                 ///< and with it the layout
  std::vector<bool> slice_is_consistent;  ///< by row of the table; empty where that could not be read
};

/// Reads what can be read and adds every fault to `faults`, the first that read_checkpoint_file would throw
/// first. Throws InputError where not even the first 512 bytes make sense.
SalvagedContents salvage_checkpoint_file(const FolderInUse& folder, std::vector<std::string>& faults);

/// The first 512 bytes.
struct UserBlock {
  std::int64_t file_bytes = 0;
  Section layout, state, files, slices;
  std::string digest;  ///< XXH3-128 of the lines before it and of what follows the block, in hexadecimal
};
inline constexpr std::int64_t user_block_bytes = 512;

/// As it is stored: always 512 bytes.
std::string encode_user_block(const UserBlock& block);
/// The inverse; nothing where `bytes` is not exactly what encode_user_block makes of some block.
std::optional<UserBlock> parse_user_block(std::string_view bytes);
/// The digest that belongs into `block` when `rest` are the file's bytes from 512 on.
std::string user_block_digest(const UserBlock& block, std::string_view rest);

}  // namespace zero1::ckpt
