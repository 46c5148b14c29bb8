// A checkpoint.h5 made by someone who knows how to compute its digest, and means ill.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "ckpt/hdf5.h"
#include "ckpt/verify.h"
#include "core/base/error.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

/// A checkpoint that lies on disk, and its checkpoint.h5 as the parts that the reader looks at.
class Forged {
 public:
  Forged() {
    ckpt::RunState state;
    state.step = state.optimizer_steps = 5;
    ckpt::write_checkpoint(folder.path("c"), state, test::uneven_case(2), test::PlacedValues());
    bytes = folder.read(name);
    block = *ckpt::parse_user_block(std::string_view(bytes).substr(0, front));
    bytes.erase(0, front);
  }

  std::string part(const ckpt::Section& section) const {
    return bytes.substr(static_cast<std::size_t>(section.offset) - front,
                        static_cast<std::size_t>(section.bytes));
  }
  /// `section` becomes `text`, which lies behind everything else.
  void replace(ckpt::Section& section, const std::string& text) {
    section = {static_cast<std::int64_t>(front + bytes.size()), static_cast<std::int64_t>(text.size())};
    bytes += text;
    block.file_bytes = static_cast<std::int64_t>(front + bytes.size());
  }
  template <class Row, class Change>
  void change_row(const ckpt::Section& section, std::size_t row, Change&& change) {
    char* at = bytes.data() + static_cast<std::size_t>(section.offset) - front + row * sizeof(Row);
    Row value;
    std::memcpy(&value, at, sizeof value);
    change(value);
    std::memcpy(at, &value, sizeof value);
  }

  /// What the reader says, which must be an InputError; verify must find the same, and more may follow.
  std::string error() {
    block.digest = ckpt::user_block_digest(block, bytes);
    folder.write(name, ckpt::encode_user_block(block) + bytes);
    const std::string message = test::message_of<InputError>([&] { ckpt::Checkpoint{folder.path("c")}; });
    const std::vector<std::string> faults = ckpt::verify(folder.path("c")).faults;
    REQUIRE(!faults.empty());
    CHECK(faults.front() == message);
    return message;
  }

  test::TemporaryFolder folder;
  const std::string name = "c/checkpoint.h5";
  static constexpr auto front = static_cast<std::size_t>(ckpt::user_block_bytes);
  ckpt::UserBlock block;
  std::string bytes;  ///< behind the user block
};

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

std::string layout_error(const std::string& text) {
  Forged forged;
  forged.replace(forged.block.layout, text);
  return forged.error();
}

std::string state_error(const std::string& text) {
  Forged forged;
  forged.replace(forged.block.state, text);
  return forged.error();
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

}  // namespace

TEST_CASE("what the user block says is what the writer wrote") {
  const Forged forged;
  CHECK(has(forged.part(forged.block.layout), "\"name\": \"embed\""));
  CHECK(has(forged.part(forged.block.state), "\"step\": 5"));
  CHECK(forged.block.files.bytes == 2 * 16);
  CHECK(forged.block.slices.bytes % 40 == 0);
}

namespace {

/// What the reader says of a checkpoint.h5 that `change` has been at with HDF5, and that has its digest
/// again.
template <class Change>
std::string error_after(Change&& change) {
  Forged forged;
  const std::string path = forged.folder.path(forged.name);
  {
    const ckpt::Hdf5Lock lock;
    const ckpt::Handle file(ZERO1_HDF5(path, H5Fopen, path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    change(file.get(), path);
  }
  // Also as it is the link is what is named, not only that the digest is wrong.
  const std::string undigested =
      test::message_of<InputError>([&] { ckpt::Checkpoint{forged.folder.path("c")}; });
  forged.bytes = forged.folder.read(forged.name).substr(Forged::front);
  forged.block.file_bytes = static_cast<std::int64_t>(Forged::front + forged.bytes.size());
  const std::string message = forged.error();
  CHECK(undigested == message);
  return message;
}

}  // namespace

TEST_CASE("links in checkpoint.h5 are refused by name: out of the folder, in circles, to nowhere") {
  for (const char* linked : {"state", "model", "new"}) {
    for (const char* to : {"/etc/passwd", "checkpoint.h5", "../other/checkpoint.h5"}) {
      CAPTURE(linked);
      CAPTURE(to);
      const std::string message = error_after([&](hid_t file, const std::string& path) {
        if (std::string_view(linked) != "new")
          ZERO1_HDF5(path, H5Lmove, file, linked, file, "moved", H5P_DEFAULT, H5P_DEFAULT);
        ZERO1_HDF5(path, H5Lcreate_external, to, "/there", file, linked, H5P_DEFAULT, H5P_DEFAULT);
      });
      has(message, fmt::format("checkpoint.h5: /{} is an external link to {}:/there", linked, to));
    }
  }
  // HDF5 moves a large group's links elsewhere once one of them is external.
  has(error_after([](hid_t file, const std::string& path) {
        ZERO1_HDF5(path, H5Lcreate_external, "../b.h5", "/x", file, "/model/evil", H5P_DEFAULT, H5P_DEFAULT);
        ZERO1_HDF5(path, H5Lcreate_hard, file, "/model/cube", file, "/model/evil2", H5P_DEFAULT, H5P_DEFAULT);
      }),
      "/model/evil is an external link to ../b.h5:/x");
  has(error_after([](hid_t file, const std::string& path) {
        for (int i = 0; i < 70; ++i) {
          const std::string name = fmt::format("/model/evil{}", i);
          ZERO1_HDF5(path, H5Lcreate_external, "../b.h5", "/x", file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
        }
      }),
      "/model/evil0 is an external link to ../b.h5:/x");
  has(error_after([](hid_t file, const std::string& path) {
        ZERO1_HDF5(path, H5Lcreate_soft, "/model", file, "/model/cube/loop", H5P_DEFAULT, H5P_DEFAULT);
      }),
      "/model/cube/loop is a soft link to /model");
  has(error_after([](hid_t file, const std::string& path) {
        ZERO1_HDF5(path, H5Lcreate_soft, "/state", file, "/state2", H5P_DEFAULT, H5P_DEFAULT);
      }),
      "/state2 is a soft link to /state");
  has(error_after([](hid_t file, const std::string& path) {
        ZERO1_HDF5(path, H5Lcreate_hard, file, "/model", file, "/model/cube/loop", H5P_DEFAULT, H5P_DEFAULT);
      }),
      "is a second name of an object");
  // A terminal sees no control characters.
  has(error_after([](hid_t file, const std::string& path) {
        ZERO1_HDF5(path, H5Lcreate_soft, "/a\x1b[2J", file, "/odd", H5P_DEFAULT, H5P_DEFAULT);
      }),
      "/odd is a soft link to /a\\x1b[2J");
}

TEST_CASE("virtual datasets out of other files, and data in external files, are refused by name") {
  const hsize_t two = 2;
  for (const char* other : {"/etc/passwd", "../rank_00000.h5", "sub/rank_00000.h5", ".", "rank_1.h5"}) {
    CAPTURE(other);
    has(error_after([&](hid_t file, const std::string& path) {
          const ckpt::Handle space(ZERO1_HDF5(path, H5Screate_simple, 1, &two, nullptr), H5Sclose);
          const ckpt::Handle creation(ZERO1_HDF5(path, H5Pcreate, H5P_DATASET_CREATE), H5Pclose);
          ZERO1_HDF5(path, H5Pset_virtual, creation.get(), space.get(), other, "/data", space.get());
          const ckpt::Handle dataset(ZERO1_HDF5(path, H5Dcreate2, file, "/model/cube/more", H5T_IEEE_F32LE,
                                                space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                     H5Dclose);
        }),
        fmt::format("/model/cube/more is put together out of {}", other));
  }
  has(error_after([&](hid_t file, const std::string& path) {
        const ckpt::Handle space(ZERO1_HDF5(path, H5Screate_simple, 1, &two, nullptr), H5Sclose);
        const ckpt::Handle creation(ZERO1_HDF5(path, H5Pcreate, H5P_DATASET_CREATE), H5Pclose);
        ZERO1_HDF5(path, H5Pset_external, creation.get(), "/etc/passwd", 0, 8);
        const ckpt::Handle dataset(ZERO1_HDF5(path, H5Dcreate2, file, "/model/passwd", H5T_IEEE_F32LE,
                                              space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                   H5Dclose);
      }),
      "/model/passwd has its data in external files");
}

TEST_CASE("a checkpoint.h5 that cannot be searched for links is refused") {
  Forged forged;
  // The root's object header claims a version that nobody writes.
  std::uint64_t address = 0;
  std::memcpy(&address, forged.bytes.data() + 64, sizeof address);
  forged.bytes[static_cast<std::size_t>(address)] = 7;
  has(forged.error(),
      "cannot be searched for links that lead elsewhere, and is refused: /: an object header of version 7");
}

TEST_CASE("parts that lie outside of the file, or are of another size") {
  const auto with = [](auto&& change) {
    Forged forged;
    change(forged);
    return forged.error();
  };
  const std::int64_t far = std::int64_t{1} << 62;
  has(with([&](Forged& f) { f.block.state.bytes = far; }), "/state would lie at bytes");
  has(with([&](Forged& f) { f.block.layout.offset = far; }), "/layout would lie at bytes");
  has(with([&](Forged& f) { f.block.layout.offset = 0; }), "/layout would lie at bytes");
  has(with([&](Forged& f) { f.block.files = {}; }), "/files has 0 bytes; the layout needs 2 rows of 16");
  has(with([&](Forged& f) { f.block.slices.bytes -= 8; }), "/slices has");
  has(with([&](Forged& f) { f.block.file_bytes += 1; }), "were recorded: it was cut or added to");
  has(with([&](Forged& f) { f.block.state = {}; }), "/state");
  has(with([&](Forged& f) { f.block.state = f.block.slices; }), "/state");
}

TEST_CASE("absurd sizes, wrong types and nonsense are named, and nothing large is allocated") {
  const std::string rest =
      ", \"expert_dp_size\": 1, \"bucket_size\": null, \"pad_buckets_for_high_nccl_busbw\": false, "
      "\"grad_reduce_in_fp32\": true}";
  const auto one_param = [&](const std::string& name, const std::string& shape) {
    return "{\"params\": [{\"name\": \"" + name + "\", \"shape\": [" + shape +
           "], \"dtype\": \"float32\"}], \"dp_size\": 2" + rest;
  };
  has(layout_error("{\"params\": [], \"dp_size\": 16777216" + rest), "the layout needs 16777216 rows");
  has(layout_error(one_param("w", "4611686018427387904, 8")), "exceeds 2^63");
  has(layout_error(one_param("w", "1000000000000000000")), "the bytes of all slices exceed 2^63");
  has(layout_error(one_param("w", "-1")), "shape[0]");
  has(layout_error(one_param("..\\u0000", "1")), "checkpoint.h5: /layout");
  has(layout_error(one_param("a\\u0000b", "1")), "cannot be saved");
  has(layout_error("[]"), "/layout does not hold one layout");
  has(layout_error("{"), "not JSON");
  has(layout_error(nested(200'000)), "nested deeper than 64 levels");
  has(state_error("{}"), "/state: step: expected the field, which is missing");
  has(state_error("[1]"), "/state: : expected an object");
  has(state_error(std::string("\xff\xfe", 2)), "/state");
  has(state_error(nested(200'000)), "nested deeper than 64 levels");

  const std::string good = Forged().part(Forged().block.state);
  const auto state_with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, good);
    return state_error(text.replace(at, from.size(), to));
  };
  has(state_with("\"step\": 5", "\"step\": -5"), "/state: step: expected 0 or more");
  has(state_with("\"step\": 5", "\"step\": 1e300"), "/state: step: expected a whole number that fits");
  has(state_with("\"step\": 5", "\"step\": 18446744073709551615"), "/state: step: expected a whole number");
  has(state_with("\"growth_tracker\": 0", "\"growth_tracker\": 4294967296"), "loss_scaler.growth_tracker");
  has(state_with("\"scale\": 1.0", "\"scale\": 1e999"), "/state");
  has(state_with("\"shuffle\": false", "\"shuffle\": 0"), "data.shuffle: expected true or false");
  has(state_with("\"param_groups\": []", "\"param_groups\": [3]"), "optimizer.param_groups[0].");
}

TEST_CASE("tables that contradict the layout, the files or themselves") {
  const auto with_slice = [](std::size_t row, auto&& change) {
    Forged forged;
    forged.change_row<ckpt::SliceRecord>(forged.block.slices, row, change);
    return forged.error();
  };
  has(with_slice(0, [](ckpt::SliceRecord& s) { s.rank = 1; }), "/slices[0] is rank 1");
  has(with_slice(1, [](ckpt::SliceRecord& s) { s.elems += 1; }),
      "the layout has rank 0 buffer 0 bucket 0 state 1");
  has(with_slice(1, [](ckpt::SliceRecord& s) { s.elems = std::int64_t{1} << 61; }), "/slices[1] is");
  has(with_slice(2, [](ckpt::SliceRecord& s) { s.offset_bytes = -4; }),
      "/slices[2] lies outside of rank_00000.h5");
  has(with_slice(2, [](ckpt::SliceRecord& s) { s.offset_bytes = INT64_MAX; }), "lies outside");
  std::int64_t first = 0;
  Forged overlapping;
  overlapping.change_row<ckpt::SliceRecord>(overlapping.block.slices, 0,
                                            [&](ckpt::SliceRecord& s) { first = s.offset_bytes; });
  overlapping.change_row<ckpt::SliceRecord>(overlapping.block.slices, 1,
                                            [&](ckpt::SliceRecord& s) { s.offset_bytes = first + 4; });
  has(overlapping.error(), "two slices overlap in rank_00000.h5");
  Forged forged;
  forged.change_row<ckpt::RankFileRecord>(forged.block.files, 1,
                                          [](ckpt::RankFileRecord& f) { f.bytes = -1; });
  has(forged.error(), "/files[1]: -1 bytes cannot be");
}

TEST_CASE("a rank's file that is a link out of the folder, a pipe, or of another step") {
  Forged forged;
  const std::string folder = forged.folder.path("c");
  const std::string rank = folder + "/rank_00001.h5";
  std::filesystem::rename(rank, forged.folder.path("elsewhere"));
  const auto refused = [&](const std::string& part) {
    float value = 0;
    const ckpt::Checkpoint opened(folder);
    const std::string message = test::message_of<InputError>([&] {
      for (int p = 0; p < static_cast<int>(opened.layout().specs.size()); ++p) {
        if (opened.layout().specs[static_cast<std::size_t>(p)].numel() > 0)
          opened.read(p, ckpt::State::exp_avg, {0, 1}, &value);
      }
    });
    has(message, "rank_00001.h5");
    has(message, part);
    has(ckpt::verify(folder).faults.at(0), "rank_00001.h5");
    std::filesystem::remove(rank);
  };
  std::filesystem::create_symlink("../elsewhere", rank);
  refused("link");
  std::filesystem::create_symlink("rank_00001.h5", rank);  // in a circle
  refused("link");
  REQUIRE(::mkfifo(rank.c_str(), 0600) == 0);
  refused("is not a regular file");
  std::filesystem::create_directory(rank);
  refused("is a folder");
  ckpt::RunState other;
  other.step = 6;
  ckpt::write_checkpoint(forged.folder.path("other"), other, test::uneven_case(2), test::PlacedValues());
  std::filesystem::copy(forged.folder.path("other/rank_00001.h5"), rank);
  refused("bytes outside the slices");
}
