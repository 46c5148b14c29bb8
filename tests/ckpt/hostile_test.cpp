// A checkpoint.h5 made by someone who knows how to compute its digest, and means ill.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>
#include <filesystem>

#include "ckpt/hdf5.h"
#include "core/base/error.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

/// Writes the user block that fits the rest of a checkpoint.h5.
void stamp(const test::TemporaryFolder& folder, const std::string& name) {
  std::string bytes = folder.read(name);
  const auto front = static_cast<std::size_t>(ckpt::user_block_bytes);
  const XXH128_hash_t digest = XXH3_128bits(bytes.data() + front, bytes.size() - front);
  const std::string hex = fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
  bytes.replace(0, front, ckpt::user_block(static_cast<std::int64_t>(bytes.size()), hex));
  folder.write(name, bytes);
}

/// A good checkpoint whose checkpoint.h5 `change` has been at, with a digest that fits.
template <class Change>
std::string error_after(Change&& change) {
  const test::TemporaryFolder folder;
  ckpt::write_checkpoint(folder.path("c"), {}, test::uneven_case(2), test::PlacedValues());
  const std::string path = folder.path("c/checkpoint.h5");
  {
    const ckpt::Hdf5Lock lock;
    const ckpt::Handle file(ZERO1_HDF5(path, H5Fopen, path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    change(file.get(), path);
  }
  stamp(folder, "c/checkpoint.h5");
  return test::message_of<InputError>([&] { ckpt::Checkpoint{folder.path("c")}; });
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

void replace_string(hid_t file, const char* name, const std::string& text, const std::string& path) {
  ZERO1_HDF5(path, H5Ldelete, file, name, H5P_DEFAULT);
  ckpt::write_string(file, name, text, path);
}

}  // namespace

TEST_CASE("links that lead elsewhere, or nowhere, or in circles, are refused") {
  for (const char* name : {"state", "layout", "files", "slices"}) {
    has(error_after([&](hid_t file, const std::string& path) {
          ZERO1_HDF5(path, H5Ldelete, file, name, H5P_DEFAULT);
          ZERO1_HDF5(path, H5Lcreate_external, "/etc/passwd", "/x", file, name, H5P_DEFAULT, H5P_DEFAULT);
        }),
        "is a link to somewhere else");
    has(error_after([&](hid_t file, const std::string& path) {
          ZERO1_HDF5(path, H5Ldelete, file, name, H5P_DEFAULT);
          ZERO1_HDF5(path, H5Lcreate_soft, name, file, name, H5P_DEFAULT, H5P_DEFAULT);
        }),
        "is a link to somewhere else");
    has(error_after([&](hid_t file, const std::string& path) {
          ZERO1_HDF5(path, H5Ldelete, file, name, H5P_DEFAULT);
        }),
        "is missing");
    has(error_after([&](hid_t file, const std::string& path) {
          ZERO1_HDF5(path, H5Ldelete, file, name, H5P_DEFAULT);
          ckpt::create_group(file, name, path);
        }),
        "checkpoint.h5");
  }
}

TEST_CASE("data that lie in other files are refused") {
  has(error_after([](hid_t file, const std::string& path) {
        ZERO1_HDF5(path, H5Ldelete, file, "state", H5P_DEFAULT);
        const ckpt::Handle creation(ZERO1_HDF5(path, H5Pcreate, H5P_DATASET_CREATE), H5Pclose);
        ZERO1_HDF5(path, H5Pset_external, creation.get(), "/etc/passwd", 0, 100);
        const ckpt::Handle type(ZERO1_HDF5(path, H5Tcopy, H5T_C_S1), H5Tclose);
        ZERO1_HDF5(path, H5Tset_size, type.get(), 100);
        const hsize_t one = 1;
        const ckpt::Handle space(ZERO1_HDF5(path, H5Screate_simple, 1, &one, nullptr), H5Sclose);
        const ckpt::Handle dataset(ZERO1_HDF5(path, H5Dcreate2, file, "state", type.get(), space.get(),
                                              H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                   H5Dclose);
      }),
      "keeps its data in another file");
}

TEST_CASE("absurd sizes, wrong types and nonsense are named, and nothing large is allocated") {
  const auto layout_with = [](const std::string& text) {
    return error_after(
        [&](hid_t file, const std::string& path) { replace_string(file, "layout", text, path); });
  };
  const std::string rest =
      ", \"expert_dp_size\": 1, \"bucket_size\": null, \"pad_buckets_for_high_nccl_busbw\": false, "
      "\"grad_reduce_in_fp32\": true}";
  has(layout_with("{\"params\": [], \"dp_size\": 16777216" + rest), "room for");
  has(layout_with(
          "{\"params\": [{\"name\": \"w\", \"shape\": [4611686018427387904, 8], \"dtype\": \"float32\"}], "
          "\"dp_size\": 2" +
          rest),
      "w");
  has(layout_with("[]"), "/layout");
  has(layout_with("{"), "not JSON");
  has(layout_with(
          "{\"params\": [{\"name\": \"..\\u0000\", \"shape\": [1], \"dtype\": \"float32\"}], \"dp_size\": 1" +
          rest),
      "checkpoint.h5");
  has(error_after([](hid_t file, const std::string& path) { replace_string(file, "state", "{}", path); }),
      "/state");
  has(error_after([](hid_t file, const std::string& path) {
        ZERO1_HDF5(path, H5Ldelete, file, "slices", H5P_DEFAULT);
        ckpt::write_string(file, "slices", "text", path);
      }),
      "does not have the columns");
  // A string of 1 GiB that was never stored.
  has(error_after([](hid_t file, const std::string& path) {
        ZERO1_HDF5(path, H5Ldelete, file, "state", H5P_DEFAULT);
        const ckpt::Handle type(ZERO1_HDF5(path, H5Tcopy, H5T_C_S1), H5Tclose);
        ZERO1_HDF5(path, H5Tset_size, type.get(), std::size_t{1} << 30);
        const ckpt::Handle space(ZERO1_HDF5(path, H5Screate, H5S_SCALAR), H5Sclose);
        const ckpt::Handle dataset(ZERO1_HDF5(path, H5Dcreate2, file, "state", type.get(), space.get(),
                                              H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                   H5Dclose);
      }),
      "claims more bytes");
}
