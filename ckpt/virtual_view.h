// Presents every parameter and state in its full shape, out of the ranks' files, through HDF5's virtual
// datasets: for readers that know nothing of this format.
#pragma once

#include "ckpt/hdf5.h"
#include "core/layout/buffer_layout.h"

namespace zero1::ckpt {

/// Creates /model/NAME/{param,exp_avg,exp_avg_sq} in an open checkpoint.h5. Source files are named
/// relative to it. A scalar parameter is presented as a vector of one element, which HDF5 demands.
void write_virtual_view(hid_t file, const Layout& layout, const std::string& path);

}  // namespace zero1::ckpt
