#include "ckpt/virtual_view.h"

#include <fmt/format.h>

#include <limits>

#include "ckpt/format.h"
#include "ckpt/pieces.h"
#include "core/data/input_file.h"

namespace zero1::ckpt {
namespace {

std::vector<hsize_t> sizes(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

std::int64_t numel(const Box& box) {
  std::int64_t product = 1;
  for (const std::int64_t count : box.count) product *= count;
  return product;
}

/// One parameter's mapping, the same for its three states: which box comes out of which slice.
struct Mapping {
  Piece piece;
  Box box;
  std::int64_t local_start = 0;  ///< in the slice
};

std::vector<Mapping> mappings_of(const Layout& layout, int param, const std::vector<std::int64_t>& shape,
                                 std::int64_t elems) {
  std::vector<Mapping> mappings;
  for_each_piece(layout, param, {0, elems}, [&](const Piece& piece) {
    std::int64_t at = piece.local.start;
    for (Box& box : boxes_of(shape, piece.param_range)) {
      const std::int64_t count = numel(box);
      mappings.push_back({piece, std::move(box), at});
      at += count;
    }
  });
  return mappings;
}

void map_box(hid_t creation, hid_t space, const Mapping& mapping, const Layout& layout, State state,
             const std::string& path) {
  const std::vector<hsize_t> start = sizes(mapping.box.start);
  const std::vector<hsize_t> count = sizes(mapping.box.count);
  ZERO1_HDF5(path, H5Sselect_hyperslab, space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);

  const BufferLayout& buffer = layout.buffers[static_cast<std::size_t>(mapping.piece.buffer)];
  const auto slice_elems = static_cast<hsize_t>(buffer.shard_elems(mapping.piece.bucket));
  const auto local_start = static_cast<hsize_t>(mapping.local_start);
  const auto elems = static_cast<hsize_t>(numel(mapping.box));
  const Handle source(ZERO1_HDF5(path, H5Screate_simple, 1, &slice_elems, nullptr), H5Sclose);
  ZERO1_HDF5(path, H5Sselect_hyperslab, source.get(), H5S_SELECT_SET, &local_start, nullptr, &elems, nullptr);
  ZERO1_HDF5(path, H5Pset_virtual, creation, space, rank_file_name(mapping.piece.rank).c_str(),
             fmt::format("/buffers/{}/buckets/{}/{}", mapping.piece.buffer, mapping.piece.bucket, name(state))
                 .c_str(),
             source.get());
}

void write_mapped(hid_t group, const Layout& layout, int param, const std::string& path) {
  const ParamSpec& spec = layout.specs[static_cast<std::size_t>(param)];
  const std::vector<Mapping> mappings = mappings_of(layout, param, spec.shape, spec.numel());
  const std::vector<hsize_t> dims = sizes(spec.shape);
  for (const State state : all_states) {
    const Handle space(
        ZERO1_HDF5(path, H5Screate_simple, static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
    const Handle creation(ZERO1_HDF5(path, H5Pcreate, H5P_DATASET_CREATE), H5Pclose);
    ZERO1_HDF5(path, H5Pset_obj_track_times, creation.get(), false);
    // What readers see where a rank's file is missing: no number, so that nobody takes it for a value.
    const float missing = std::numeric_limits<float>::quiet_NaN();
    ZERO1_HDF5(path, H5Pset_fill_value, creation.get(), H5T_IEEE_F32LE, &missing);
    for (const Mapping& mapping : mappings) {
      map_box(creation.get(), space.get(), mapping, layout, state, path);
    }
    ZERO1_HDF5(path, H5Sselect_all, space.get());
    const Handle dataset(ZERO1_HDF5(path, H5Dcreate2, group, std::string(name(state)).c_str(), H5T_IEEE_F32LE,
                                    space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                         H5Dclose);
  }
}

void write_copied(hid_t group, const CheckpointContents& contents, int param, const std::string& folder,
                  const std::string& path) {
  for_each_piece(contents.layout, param, {0, 1}, [&](const Piece& piece) {
    const InputFile source(folder + "/" + rank_file_name(piece.rank));
    for (const State state : all_states) {
      const std::int64_t row = slice_index(contents.layout, piece.rank, piece.buffer, piece.bucket, state);
      float value = 0;
      source.read_at(
          contents.slices[static_cast<std::size_t>(row)].offset_bytes + piece.local.start * elem_bytes,
          &value, elem_bytes);
      write_scalar(group, std::string(name(state)), value, path);
    }
  });
}

}  // namespace

void write_virtual_view(hid_t file, const CheckpointContents& contents, const std::string& folder) {
  const std::string path = folder + "/" + std::string(checkpoint_file_name);
  const Handle model = create_group(file, "model", path);
  for (std::size_t p = 0; p < contents.layout.specs.size(); ++p) {
    const ParamSpec& spec = contents.layout.specs[p];
    const Handle group = open_or_create_groups(model.get(), group_path(spec.name), path);
    if (spec.shape.empty()) {
      write_copied(group.get(), contents, static_cast<int>(p), folder, path);
    } else {
      write_mapped(group.get(), contents.layout, static_cast<int>(p), path);
    }
  }
}

}  // namespace zero1::ckpt
