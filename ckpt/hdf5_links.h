// Looks for what leads out of a checkpoint.h5, without an HDF5 library: on bytes that somebody made up, those
// crash or allocate without bound.
#pragma once

#include <string>
#include <vector>

#include "core/data/input_file.h"

namespace zero1::ckpt {

/// What a checkpoint.h5 never holds when this project has written it, and what leads its readers elsewhere.
struct ForeignLinks {
  /// A line each, with the name: soft and external links, links of other kinds, second names of an object
  /// (circles among them), virtual datasets out of anything but rank files beside, data in external files.
  std::vector<std::string> found;
  /// Why the search ended before it had seen everything: damaged, or structures that this project does not
  /// write. Empty: everything was seen.
  std::string unseen;
};

/// Follows groups from the root at byte `front_bytes` on. Takes time and memory in proportion to the
/// file's size, whatever is in it; throws nothing but what reading throws.
ForeignLinks find_foreign_links(const InputFile& file, std::int64_t front_bytes);

}  // namespace zero1::ckpt
