// Presents every parameter and state in its full shape, out of the ranks' files, through HDF5's virtual
// datasets: for readers that know nothing of this format.
#pragma once

#include <string>

#include "ckpt/checkpoint_file.h"
#include "ckpt/hdf5.h"

namespace zero1::ckpt {

/// Creates /model/NAME/{param,exp_avg,exp_avg_sq} in `folder`'s checkpoint.h5, which is open. Source files
/// are named relative to it and are complete. HDF5 has no virtual scalars: a parameter without dimensions is
/// copied out of its slice.
void write_virtual_view(hid_t file, const CheckpointContents& contents, const std::string& folder);

}  // namespace zero1::ckpt
