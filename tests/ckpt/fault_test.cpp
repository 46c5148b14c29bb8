// What is wrong on disk is found, named, and never believed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "ckpt/verify.h"
#include "core/base/error.h"
#include "core/layout/range_map.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/message.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
namespace fs = std::filesystem;

namespace {

std::string all_faults(const std::string& folder) {
  std::string text;
  for (const std::string& fault : ckpt::verify(folder).faults) text += fault + "\n";
  return text;
}

/// Two ranks of a small layout.
LayoutCase small_case() {
  LayoutCase layout_case;
  layout_case.params = {{"a", {7, 5}, DType::fp32, false, false}, {"b", {3}, DType::fp32, false, false}};
  layout_case.options.dp_size = layout_case.options.expert_dp_size = 2;
  return layout_case;
}

/// A value that is not finite, somewhere.
class OneNaN : public test::PlacedValues {
 public:
  void read(int param, ckpt::State state, Range range, float* out) const override {
    PlacedValues::read(param, state, range, out);
    if (param == 0 && state == ckpt::State::exp_avg && range.contains(33)) out[33 - range.start] = NAN;
  }
};

/// Whether some parameter has elements in the slice, not padding alone.
bool holds_elements(const Layout& layout, const ckpt::SliceRecord& slice) {
  RangeMapWalker walker(layout, slice.buffer, slice.rank);
  for (const ParamShard& row : walker.next()) {
    if (row.bucket == slice.bucket && !row.param_range.empty()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("every flipped byte of every file is found") {
  constexpr std::size_t stride = test::sanitized ? 37 : 1;  // sanitizers are slow
  const test::TemporaryFolder folder;
  ckpt::write_checkpoint(folder.path("c"), test::one_step(), small_case(), test::PlacedValues());
  REQUIRE(all_faults(folder.path("c")).empty());
  for (const char* name : {"c/checkpoint.h5", "c/rank_00000.h5", "c/rank_00001.h5"}) {
    const std::string whole = folder.read(name);
    REQUIRE(whole.size() > 1000);
    for (std::size_t i = 0; i < whole.size(); i += stride) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
      folder.write(name, flipped);
      const std::string faults = all_faults(folder.path("c"));
      CHECK_MESSAGE(faults.find(name + 2) != std::string::npos, name << " byte " << i << ": " << faults);
    }
    folder.write(name, whole);
  }
  CHECK(all_faults(folder.path("c")).empty());
}

TEST_CASE("files that are cut, missing, too many, doubled or something else") {
  const test::TemporaryFolder folder;
  const std::string c = folder.path("c");
  ckpt::write_checkpoint(c, test::one_step(), small_case(), test::PlacedValues());
  const std::string rank0 = folder.read("c/rank_00000.h5");
  const std::string rank1 = folder.read("c/rank_00001.h5");
  const std::string checkpoint = folder.read("c/checkpoint.h5");
  float one = 0;

  SUBCASE("a rank is missing, and a file too many: both are named") {
    fs::remove(c + "/rank_00001.h5");
    folder.write("c/rank_00002.h5", rank0);
    const std::string faults = all_faults(c);
    CHECK(faults.find("rank_00001.h5") != std::string::npos);
    CHECK(faults.find("rank_00002.h5: does not belong") != std::string::npos);
    const ckpt::Checkpoint opened(c);  // instant: does not look at the ranks' files
    CHECK_THROWS_AS(opened.read(0, ckpt::State::param, {0, 1}, &one), InputError);
  }
  SUBCASE("a rank is there twice") {
    folder.write("c/rank_00001.h5", rank0);
    CHECK(all_faults(c).find("rank_00001.h5: /buffers/0/buckets/0/param: its bytes do not match") !=
          std::string::npos);
  }
  SUBCASE("a rank's file is cut, or empty") {
    for (const std::size_t size : {rank1.size() - 1, rank1.size() / 2, std::size_t{0}}) {
      folder.write("c/rank_00001.h5", rank1.substr(0, size));
      CHECK(all_faults(c).find("rank_00001.h5") != std::string::npos);
      const ckpt::Checkpoint opened(c);
      const std::string message = test::message_of<InputError>([&] {
        std::vector<float> values(35);
        opened.read(0, ckpt::State::param, {0, 35}, values.data());
      });
      CHECK(message.find("rank_00001.h5") != std::string::npos);
    }
  }
  SUBCASE("checkpoint.h5 is cut, empty or no HDF5") {
    for (const std::string& content :
         {checkpoint.substr(0, checkpoint.size() - 1), checkpoint.substr(0, 600), checkpoint.substr(0, 100),
          std::string(), std::string(5000, 'x'), rank0}) {
      folder.write("c/checkpoint.h5", content);
      CHECK_THROWS_AS(ckpt::Checkpoint{c}, InputError);
      CHECK(all_faults(c).find("checkpoint.h5") != std::string::npos);
    }
  }
  SUBCASE("folders that are none") {
    CHECK_THROWS_AS(ckpt::Checkpoint{folder.path("none")}, InputError);
    fs::remove(c + "/checkpoint.h5");
    CHECK(test::message_of<InputError>([&] { ckpt::Checkpoint{c}; }).find("holds no checkpoint") !=
          std::string::npos);
    fs::create_directory(c + "/checkpoint.h5");
    CHECK_THROWS_AS(ckpt::Checkpoint{c}, InputError);
  }
}

/// The slices of a checkpoint with the places of their first bytes.
std::vector<ckpt::SliceRecord> slices_of(const std::string& folder) {
  return ckpt::Checkpoint(folder).slices();
}

/// What reading every element of a checkpoint says; empty: nothing.
std::string error_of_reading(const std::string& folder) {
  try {
    test::misplaced(ckpt::Checkpoint(folder));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a byte that was changed in any slice is refused when it is loaded, by file and slice") {
  const test::TemporaryFolder folder;
  const std::string c = folder.path("c");
  ckpt::write_checkpoint(c, test::one_step(), test::uneven_case(2, 100), test::PlacedValues());
  const Layout layout = compute_layout(test::uneven_case(2, 100).params, test::uneven_case(2, 100).options);
  for (const ckpt::SliceRecord& slice : slices_of(c)) {
    if (slice.elems == 0) continue;
    const std::string name = ckpt::rank_file_name(slice.rank);
    const std::string whole = folder.read("c/" + name);
    std::string flipped = whole;
    const auto at = static_cast<std::size_t>(slice.offset_bytes + slice.elems * 2);
    flipped[at] = static_cast<char>(flipped[at] ^ 16);
    folder.write("c/" + name, flipped);
    const std::string where = name + ": " + ckpt::slice_path(slice) + ": its bytes are not those";
    const std::string message = error_of_reading(c);
    // A slice of padding alone is read by nobody, but verify reads it.
    if (!message.empty()) CHECK_MESSAGE(message.find(where) != std::string::npos, message);
    CHECK(!message.empty() == holds_elements(layout, slice));
    CHECK(all_faults(c).find(name + ": " + ckpt::slice_path(slice)) != std::string::npos);
    CHECK_NOTHROW(ckpt::Checkpoint(c, {}, ckpt::Digests::trust));
    folder.write("c/" + name, whole);
  }
  CHECK(error_of_reading(c).empty());
}

TEST_CASE("verify goes on past a damaged checkpoint.h5 and names what else is wrong") {
  const test::TemporaryFolder folder;
  const std::string c = folder.path("c");
  ckpt::write_checkpoint(c, test::one_step(), small_case(), test::PlacedValues());
  const ckpt::SliceRecord slice = slices_of(c).back();
  const std::string rank1 = folder.read("c/rank_00001.h5");
  std::string flipped = rank1;
  flipped[static_cast<std::size_t>(slice.offset_bytes)] ^= 1;
  folder.write("c/rank_00001.h5", flipped);
  folder.write("c/rank_00007.h5", rank1);
  const std::string file = folder.read("c/checkpoint.h5");
  const auto block = *ckpt::parse_user_block(std::string_view(file).substr(0, 512));
  const auto faults_with_byte_changed = [&](std::int64_t at, char to) {
    std::string damaged = file;
    damaged[static_cast<std::size_t>(at)] = to;
    folder.write("c/checkpoint.h5", damaged);
    return all_faults(c);
  };
  const auto names_all = [&](const std::string& faults) {
    CAPTURE(faults);
    CHECK(faults.find("checkpoint.h5: its bytes do not match the digest") != std::string::npos);
    CHECK(faults.find("rank_00001.h5: " + ckpt::slice_path(slice)) != std::string::npos);
    CHECK(faults.find("rank_00007.h5: does not belong") != std::string::npos);
  };
  names_all(faults_with_byte_changed(static_cast<std::int64_t>(file.size()) - 1, 'x'));  // HDF5's own
  names_all(faults_with_byte_changed(block.state.offset, 'x'));                          // JSON no more
  std::string faults = faults_with_byte_changed(block.slices.offset, 9);  // the first slice's rank
  names_all(faults);
  CHECK(faults.find("/slices[0] is rank 9") != std::string::npos);
  faults =
      faults_with_byte_changed(block.files.offset, file[static_cast<std::size_t>(block.files.offset)] ^ 1);
  names_all(faults);
  CHECK(faults.find("rank_00000.h5: ") != std::string::npos);
  // Without a layout nothing else can be known.
  faults = faults_with_byte_changed(block.layout.offset, 'x');
  CHECK(faults.find("/layout: not JSON") != std::string::npos);
}

TEST_CASE("values that are not finite are found and named") {
  const test::TemporaryFolder folder;
  ckpt::write_checkpoint(folder.path("c"), test::one_step(), small_case(), OneNaN());
  const std::string faults = all_faults(folder.path("c"));
  CHECK(faults.find("1 values are not finite, the first is a[33]") != std::string::npos);
}

TEST_CASE("leftovers are reported and removed, but not those being written") {
  const test::TemporaryFolder folder;
  fs::create_directories(folder.path("root/.tmp-step_00000007.1.0"));
  folder.write("root/.tmp-step_00000007.1.0/rank_00000.h5", "half");
  {
    const ckpt::PendingFolder pending(folder.path("root/step_00000008"));
    const auto leftovers = ckpt::find_leftovers(folder.path("root"));
    REQUIRE(leftovers.size() == 2);
    CHECK((leftovers[0].use == ckpt::FolderUse::writing) != (leftovers[1].use == ckpt::FolderUse::writing));
    ckpt::remove_leftovers(leftovers);
    CHECK(fs::exists(pending.path()));
    CHECK(ckpt::find_leftovers(folder.path("root")).size() == 1);
  }
  CHECK(ckpt::find_leftovers(folder.path("root")).empty());
}
