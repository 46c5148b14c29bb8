// Any layout loads from any other: layouts alone, no training.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "ckpt/diff.h"
#include "ckpt/gather.h"
#include "ckpt/pieces.h"
#include "ckpt/verify.h"
#include "core/base/error.h"
#include "core/layout/range_map.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the pieces of a parameter are the ranks' rows") {
  for (const int dp : {1, 2, 3, 5, 7, 8, 768}) {
    CAPTURE(dp);
    const LayoutCase layout_case = test::uneven_case(dp, 100);
    const Layout layout = compute_layout(layout_case.params, layout_case.options);
    std::vector<std::vector<ckpt::Piece>> expected(layout.specs.size());
    for (int b = 0; b < static_cast<int>(layout.buffers.size()); ++b) {
      for (RangeMapWalker walker(layout, b); !walker.done();) {
        const int rank = walker.rank();
        for (const ParamShard& row : walker.next()) {
          expected[static_cast<std::size_t>(row.param)].push_back(
              {rank, b, row.bucket, row.gbuf_local, row.param_range});
        }
      }
    }
    for (int p = 0; p < static_cast<int>(layout.specs.size()); ++p) {
      std::vector<ckpt::Piece> pieces;
      const std::int64_t elems = layout.specs[static_cast<std::size_t>(p)].numel();
      ckpt::for_each_piece(layout, p, {0, elems}, [&](const ckpt::Piece& piece) { pieces.push_back(piece); });
      CHECK(pieces == expected[static_cast<std::size_t>(p)]);
    }
  }
}

TEST_CASE("a flat range of an array is its boxes, each element once and in order") {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{7}, {3, 5}, {1, 1}, {2, 3, 4}, {3, 1, 2, 2}, {2, 1, 3, 2, 2}}) {
    std::int64_t elems = 1;
    for (const std::int64_t size : shape) elems *= size;
    for (std::int64_t start = 0; start <= elems; ++start) {
      for (std::int64_t end = start; end <= elems; ++end) {
        std::vector<std::int64_t> covered;
        const std::vector<ckpt::Box> boxes = ckpt::boxes_of(shape, {start, end});
        CHECK(boxes.size() <= 2 * shape.size() - 1);
        for (const ckpt::Box& box : boxes) {
          std::vector<std::int64_t> at = box.start;  // counts through the box like an odometer
          while (at[0] < box.start[0] + box.count[0]) {
            std::int64_t flat = 0;
            for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + at[d];
            covered.push_back(flat);
            std::size_t d = shape.size() - 1;
            ++at[d];
            for (; d > 0 && at[d] == box.start[d] + box.count[d]; --d) {
              at[d] = box.start[d];
              ++at[d - 1];
            }
          }
        }
        REQUIRE(static_cast<std::int64_t>(covered.size()) == end - start);
        for (std::size_t i = 0; i < covered.size(); ++i) {
          REQUIRE(covered[i] == start + static_cast<std::int64_t>(i));
        }
      }
    }
  }
}

TEST_CASE("N -> M -> N gives back identical bytes, every element in its place on the way") {
  const test::TemporaryFolder folder;
  ckpt::RunState state;
  state.step = 41;
  int serial = 0;
  for (const int n : {1, 2, 3, 7}) {
    const LayoutCase from = test::uneven_case(n, 100);
    const std::string source = folder.path("source" + std::to_string(n));
    ckpt::write_checkpoint(source, state, from, test::PlacedValues());
    const ckpt::Checkpoint first(source);
    CHECK(test::misplaced(first) == 0);
    for (const int m : {1, 2, 3, 4, 5, 7, 8, 24}) {
      CAPTURE(n);
      CAPTURE(m);
      LayoutCase to = test::uneven_case(m);
      if (m % 2 == 0) to.options.bucket_size_elems = 64 * m;
      to.options.pad_buckets_for_high_nccl_busbw = m == 3;
      const std::string there = folder.path("there" + std::to_string(serial));
      const std::string back = folder.path("back" + std::to_string(serial++));
      ckpt::write_checkpoint(there, state, to, first, {2, 1 << 20, true, {}});
      const ckpt::Checkpoint second(there);
      CHECK(test::misplaced(second) == 0);
      CHECK(ckpt::diff(first, second, {{}, {}, true, ""}).equal());
      ckpt::write_checkpoint(back, state, from, second);
      for (int rank = 0; rank < n; ++rank) {
        const std::string name = "/" + ckpt::rank_file_name(rank);
        CHECK(bytes_of(back + name) == bytes_of(source + name));
      }
      CHECK(bytes_of(back + "/checkpoint.h5") == bytes_of(source + "/checkpoint.h5"));
    }
  }
}

TEST_CASE("768 ranks, more than some buckets have elements") {
  const test::TemporaryFolder folder;
  ckpt::write_checkpoint(folder.path("many"), {}, test::uneven_case(768, 100), test::PlacedValues());
  CHECK(ckpt::verify(folder.path("many")).faults.empty());
  const ckpt::Checkpoint many(folder.path("many"));
  CHECK(test::misplaced(many) == 0);
  ckpt::write_checkpoint(folder.path("few"), {}, test::uneven_case(3), many);
  CHECK(test::misplaced(ckpt::Checkpoint(folder.path("few"))) == 0);
}

TEST_CASE("experts have ranks of their own") {
  const test::TemporaryFolder folder;
  LayoutCase layout_case = test::uneven_case(4, 100);
  layout_case.params.push_back({"expert", {5, 13}, DType::fp32, false, true});
  for (const int expert_dp : {1, 2, 8}) {
    CAPTURE(expert_dp);
    layout_case.options.expert_dp_size = expert_dp;
    const std::string path = folder.path(std::to_string(expert_dp));
    ckpt::write_checkpoint(path, {}, layout_case, test::PlacedValues());
    CHECK(ckpt::verify(path).faults.empty());
    CHECK(test::misplaced(ckpt::Checkpoint(path)) == 0);
  }
}

TEST_CASE("out to safetensors and back in") {
  const test::TemporaryFolder folder;
  ckpt::RunState state;
  state.step = 12;
  state.optimizer_steps = 11;
  state.seed = 99;
  ckpt::write_checkpoint(folder.path("a"), state, test::uneven_case(3, 100), test::PlacedValues());
  const ckpt::Checkpoint a(folder.path("a"));
  ckpt::gather_safetensors(a, folder.path("all.safetensors"), {false, DType::fp32, 1 << 20, {}, {}});
  test::import_as(folder.path("all.safetensors"), folder.path("b"), 5);
  const ckpt::Checkpoint b(folder.path("b"));
  CHECK(ckpt::diff(a, b, {{}, {}, true, ""}).equal());
  CHECK(to_json(b.state()) == to_json(a.state()));

  // Weights alone, in half precision: the states are zero.
  ckpt::gather_safetensors(a, folder.path("weights.safetensors"), {true, DType::bf16, 1 << 20, {}, {}});
  test::import_as(folder.path("weights.safetensors"), folder.path("c"), 5);
  const ckpt::Checkpoint c(folder.path("c"));
  std::vector<float> value(1, std::nanf(""));
  c.read(*c.find("one"), ckpt::State::exp_avg, {0, 1}, value.data());
  CHECK(value[0] == 0);
  c.read(*c.find("one"), ckpt::State::param, {0, 1}, value.data());
  CHECK(value[0] == static_cast<float>(BFloat16(test::PlacedValues::value(1, ckpt::State::param, 0))));
}

TEST_CASE("names that look like states") {
  const test::TemporaryFolder folder;
  LayoutCase layout_case;
  for (const char* name : {"w", "w.exp_avg.exp_avg", "v.exp_avg"}) {
    layout_case.params.push_back({name, {3}, DType::fp32, false, false});
  }
  ckpt::write_checkpoint(folder.path("a"), {}, layout_case, test::PlacedValues());
  const ckpt::Checkpoint a(folder.path("a"));
  ckpt::gather_safetensors(a, folder.path("all.safetensors"), {});
  test::import_as(folder.path("all.safetensors"), folder.path("b"), 1);
  CHECK(ckpt::diff(a, ckpt::Checkpoint(folder.path("b")), {{}, {}, true, ""}).equal());

  layout_case.params.push_back({"w.exp_avg", {3}, DType::fp32, false, false});
  ckpt::write_checkpoint(folder.path("c"), {}, layout_case, test::PlacedValues());
  const ckpt::Checkpoint c(folder.path("c"));
  CHECK(test::message_of<InputError>([&] {
          ckpt::gather_safetensors(c, folder.path("c.safetensors"), {});
        }).find("'w.exp_avg' would be a parameter and another one's state") != std::string::npos);
  CHECK_NOTHROW(ckpt::gather_hdf5(c, folder.path("c.h5"), {}));
  CHECK(test::misplaced(c) == 0);
}

TEST_CASE("a source that fails leaves nothing behind") {
  class Failing : public ckpt::ElementSource {
   public:
    void read(int param, ckpt::State, Range, float*) const override {
      if (param == 2) throw Error("the source broke");
    }
  };
  const test::TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(
      ckpt::write_checkpoint(folder.path("x"), {}, test::uneven_case(3), Failing(), {3, 1 << 20, true, {}}),
      "the source broke", Error);
  CHECK(folder.count() == 0);
  ckpt::write_checkpoint(folder.path("x"), {}, test::uneven_case(3), test::PlacedValues());
  CHECK(test::message_of<InputError>([&] {
          ckpt::write_checkpoint(folder.path("x"), {}, test::uneven_case(3), test::PlacedValues());
        }).find("is there already") != std::string::npos);
  std::filesystem::create_symlink("nowhere", folder.path("link"));
  CHECK_THROWS_AS(
      ckpt::write_checkpoint(folder.path("link/"), {}, test::uneven_case(3), test::PlacedValues()),
      InputError);
  CHECK(test::message_of<InputError>([&] {
          ckpt::write_checkpoint(folder.path("x/sub/y"), {}, test::uneven_case(3), test::PlacedValues());
        }).find("lies inside the checkpoint") != std::string::npos);
  CHECK(ckpt::verify(folder.path("x")).faults.empty());
  LayoutCase odd = test::uneven_case(2);
  odd.params[0].name = std::string("a\0b", 3);
  CHECK_THROWS_AS(ckpt::write_checkpoint(folder.path("y"), {}, odd, test::PlacedValues()), InputError);
}
