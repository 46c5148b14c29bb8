// Models in several safetensors files: put together where that can be, and a part is never taken for the
// whole.
#include "core/data/tensor_files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "core/base/error.h"
#include "core/data/narrowing.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

using Shape = std::vector<std::int64_t>;

/// A rectangle of a tensor: what one shard holds of it.
struct Piece {
  std::string tensor;
  Shape offsets, shape;
};

/// The value of an element of the whole: its row-major position, and which tensor.
float value_at(const std::string& tensor, std::int64_t position) {
  return static_cast<float>(position) + (tensor == "a" ? 0.25F : 0.5F);
}

std::int64_t numel(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

/// As PyTorch's HuggingFaceStorageWriter does: the pieces, and where each begins in the metadata.
std::string write_shard(const test::TemporaryFolder& folder, const std::string& name,
                        const std::vector<Piece>& pieces, const std::map<std::string, Shape>& whole,
                        DType dtype = DType::fp32) {
  std::vector<SafetensorsEntry> entries;
  std::string info;
  for (const Piece& piece : pieces) {
    entries.push_back({piece.tensor, dtype, piece.shape});
    info += fmt::format(R"({}"{}":{{"saved_offsets":[{}]}})", info.empty() ? "" : ",", piece.tensor,
                        fmt::join(piece.offsets, ","));
  }
  SafetensorsWriter file(folder.path(name), entries,
                         {{"format", "pt"}, {"DCP_SHARDING_INFO", "{" + info + "}"}, {"DCP_VERSION", "1.0"}});
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::vector<float> values;
    const Shape& shape = whole.at(pieces[i].tensor);
    for (std::int64_t at = 0; at < numel(pieces[i].shape); ++at) {
      std::int64_t position = 0, stride = 1, rest = at;
      for (std::size_t d = shape.size(); d-- > 0;) {
        position += (pieces[i].offsets[d] + rest % pieces[i].shape[d]) * stride;
        rest /= pieces[i].shape[d];
        stride *= shape[d];
      }
      values.push_back(value_at(pieces[i].tensor, position));
    }
    file.write_fp32(i, 0, values.data(), static_cast<std::int64_t>(values.size()));
  }
  file.close();
  return folder.path(name);
}

std::string write_whole(const test::TemporaryFolder& folder, const std::string& name,
                        const std::vector<std::string>& tensors,
                        std::map<std::string, std::string> metadata = {}) {
  std::vector<SafetensorsEntry> entries;
  for (const std::string& tensor : tensors) entries.push_back({tensor, DType::fp32, {2}});
  SafetensorsWriter file(folder.path(name), entries, std::move(metadata));
  const std::vector<float> values{1, 2};
  for (std::size_t i = 0; i < entries.size(); ++i) file.write_fp32(i, 0, values.data(), 2);
  file.close();
  return folder.path(name);
}

std::string refusal(const std::string& path) {
  return test::message_of<InputError>([&] { const TensorFiles files(path); });
}

void check_says(const std::string& message, const std::string& part) {
  CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

const std::map<std::string, Shape> wholes{{"a", {5, 3, 4}}, {"b", {7}}, {"s", {}}};

}  // namespace

TEST_CASE("shards of a distributed checkpoint become whole tensors, however they were cut") {
  const test::TemporaryFolder folder;
  const std::vector<std::vector<Piece>> cuts{
      // Slabs of rows, as FSDP cuts; a scalar lies on one rank; one rank has an empty piece.
      {{"a", {0, 0, 0}, {2, 3, 4}}, {"b", {0}, {7}}, {"s", {}, {}}},
      {{"a", {2, 0, 0}, {3, 3, 4}}, {"b", {7}, {0}}},
      // Columns, and a checkerboard, as tensor parallelism cuts.
      {{"a", {0, 0, 0}, {5, 3, 1}}, {"b", {3}, {4}}},
      {{"a", {0, 0, 1}, {5, 3, 3}}, {"b", {0}, {3}}, {"s", {}, {}}},
  };
  for (const bool columns : {false, true}) {
    CAPTURE(columns);
    const std::string name = columns ? "columns" : "rows";
    std::filesystem::create_directory(folder.path(name));
    for (int shard = 0; shard < 2; ++shard) {
      write_shard(folder, fmt::format("{}/shard-{:05}-model-00001-of-00001.safetensors", name, shard + 1),
                  cuts[static_cast<std::size_t>(shard + (columns ? 2 : 0))], wholes);
    }
    const TensorFiles files(folder.path(name));
    CHECK(files.merged_shards() == 2);
    REQUIRE(files.tensors().size() == 3);
    for (const auto& [tensor, shape] : wholes) {
      const TensorFiles::Tensor& found = *files.find(tensor);
      REQUIRE(found.entry->shape == shape);
      const std::int64_t elems = numel(shape);
      for (std::int64_t start = 0; start <= elems; start += 7) {
        for (std::int64_t end = start; end <= elems; end += 5) {
          const std::vector<float> values = found.read_fp32({start, end});
          for (std::int64_t i = start; i < end; ++i)
            REQUIRE(values[static_cast<std::size_t>(i - start)] == value_at(tensor, i));
        }
      }
    }
  }
  // A checkerboard on three ranks of which the last has two pieces' worth of rows.
  std::filesystem::create_directory(folder.path("board"));
  write_shard(folder, "board/1.safetensors", {{"a", {0, 0, 0}, {2, 2, 4}}}, wholes);
  write_shard(folder, "board/2.safetensors", {{"a", {0, 2, 0}, {2, 1, 4}}}, wholes);
  write_shard(folder, "board/3.safetensors", {{"a", {2, 0, 0}, {3, 3, 4}}}, wholes);
  const TensorFiles board(folder.path("board"));
  const std::vector<float> values = board.find("a")->read_fp32({0, 60});
  for (std::int64_t i = 0; i < 60; ++i) REQUIRE(values[static_cast<std::size_t>(i)] == value_at("a", i));
}

TEST_CASE("a shard alone, shards that overlap, leave gaps or do not say where they lie are refused") {
  const test::TemporaryFolder folder;
  const auto first = [&] {
    return write_shard(folder, "1.safetensors", {{"a", {0, 0, 0}, {2, 3, 4}}}, wholes);
  };
  const std::string path = first();
  check_says(refusal(path), "1.safetensors: is one shard of a distributed checkpoint");
  check_says(refusal(path), "name the folder that holds all of them");
  check_says(refusal(folder.path()), "holds a single shard of a distributed checkpoint, 1.safetensors");
  write_shard(folder, "2.safetensors", {{"a", {2, 0, 0}, {3, 3, 4}}}, wholes);
  check_says(refusal(path), "(beside it: 2.safetensors)");
  CHECK(TensorFiles(folder.path()).find("a")->entry->shape == Shape{5, 3, 4});

  write_shard(folder, "3.safetensors", {{"a", {4, 2, 0}, {1, 1, 4}}}, wholes);
  check_says(refusal(folder.path()), "tensor 'a': the pieces at [2, 0, 0] and at [4, 2, 0] overlap");
  std::filesystem::remove(folder.path("3.safetensors"));
  std::filesystem::remove(path);
  write_shard(folder, "3.safetensors", {{"b", {0}, {7}}}, wholes);
  check_says(refusal(folder.path()),
             "the shards hold 36 of the 60 elements of [5, 3, 4]: a shard is missing");
  first();
  write_shard(folder, "2.safetensors", {{"a", {2, 0, 0}, {3, 3, 4}}}, wholes, DType::bf16);
  check_says(refusal(folder.path()), "its pieces differ in dtype");
  write_whole(folder, "2.safetensors", {"x"}, {{"DCP_SHARDING_INFO", "{}"}});
  check_says(refusal(folder.path()), "do not say where the piece [2] of tensor 'x' lies");
  for (const char* info :
       {"[1]", "{\"x\":{}}", "{\"x\":{\"saved_offsets\":[-1]}}", "{\"x\":{\"saved_offsets\":[1e99]}}",
        "{\"x\":{\"saved_offsets\":[9223372036854775808]}}", "nonsense"}) {
    CAPTURE(info);
    write_whole(folder, "2.safetensors", {"x"}, {{"DCP_SHARDING_INFO", info}});
    check_says(refusal(folder.path()), "DCP_SHARDING_INFO");
  }
  write_whole(folder, "2.safetensors", {"x"},
              {{"DCP_SHARDING_INFO", R"({"x":{"saved_offsets":[9223372036854775807]}})"}});
  check_says(refusal(folder.path()), "tensor 'x': an offset is too large");
}

TEST_CASE("one of the files that an index names is a part, and the index or its folder is the whole") {
  const test::TemporaryFolder folder;
  const std::string one = write_whole(folder, "m-00001-of-00002.safetensors", {"a"});
  check_says(refusal(one), "by its name one of 2 files of a model");
  const std::string two = write_whole(folder, "m-00002-of-00002.safetensors", {"b"});
  const std::string index = folder.write(
      "m.safetensors.index.json",
      R"({"weight_map":{"a":"m-00001-of-00002.safetensors","b":"m-00002-of-00002.safetensors"}})");
  for (const std::string& part : {one, two}) {
    check_says(refusal(part), "is one of the 2 files of a model; name the index, which knows all: " + index);
  }
  CHECK(TensorFiles(index).tensors().size() == 2);
  CHECK(TensorFiles(folder.path()).tensors().size() == 2);
  // From inside the folder.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  check_says(refusal("m-00001-of-00002.safetensors"), "knows all: m.safetensors.index.json");
  std::filesystem::current_path(before);
  // Whatever it is called: the index decides; and one that names only this file has nothing against it.
  const std::string renamed = write_whole(folder, "half.safetensors", {"a"});
  CHECK(TensorFiles(renamed).tensors().size() == 1);
  folder.write("m.safetensors.index.json",
               R"({"weight_map":{"a":"half.safetensors","b":"m-00002-of-00002.safetensors"}})");
  check_says(refusal(renamed), "is one of the 2 files of a model");
  folder.write("m.safetensors.index.json", R"({"weight_map":{"a":"m-00001-of-00002.safetensors"}})");
  CHECK(TensorFiles(one).tensors().size() == 1);
  folder.write("m.safetensors.index.json", "no index");
  CHECK(TensorFiles(renamed).tensors().size() == 1);
  check_says(refusal(folder.path("m.safetensors.index.json")), "not an index of safetensors files");
}

TEST_CASE("an index names whole tensors of one export; a folder without one must be plain") {
  const test::TemporaryFolder folder;
  write_shard(folder, "1.safetensors", {{"a", {2, 0, 0}, {3, 3, 4}}}, wholes);
  const std::string index =
      folder.write("m.safetensors.index.json", R"({"weight_map":{"a":"1.safetensors"}})");
  check_says(refusal(index), "'1.safetensors' holds a piece of tensor 'a' and not the whole");
  write_shard(folder, "1.safetensors", {{"a", {0, 0, 0}, {5, 3, 4}}}, wholes);
  CHECK(TensorFiles(index).find("a")->entry->shape == Shape{5, 3, 4});
  CHECK(TensorFiles(folder.path("1.safetensors")).tensors().size() == 1);

  write_whole(folder, "1.safetensors", {"a"}, {{"zero1_state", "step 1"}});
  write_whole(folder, "2.safetensors", {"b"}, {{"zero1_state", "step 2"}});
  folder.write("m.safetensors.index.json", R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  check_says(refusal(index), "come from different exports: the metadata of '2.safetensors' differ");
  folder.write("n.safetensors.index.json", "{}");
  check_says(refusal(folder.path()),
             "several indices, name one of them: m.safetensors.index.json, n.safetensors.index.json");
  std::filesystem::remove(index);
  std::filesystem::remove(folder.path("n.safetensors.index.json"));
  check_says(refusal(folder.path()), "holds 2 safetensors files and no index");
  std::filesystem::remove(folder.path("2.safetensors"));
  CHECK(TensorFiles(folder.path()).tensors().size() == 1);
  std::filesystem::remove(folder.path("1.safetensors"));
  check_says(refusal(folder.path()), "is a folder without .safetensors files");
}

TEST_CASE("what overflows in a narrower type, and what only rounds") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : {DType::fp16, DType::bf16, DType::fp32}) {
    CAPTURE(name(dtype));
    visit_dtype(dtype, [&](auto t) {
      using T = decltype(t);
      for (const float value :
           {0.0F, 1.0F, -1.0F, 65504.0F, 65519.99F, 65520.0F, -65520.0F, 65536.0F, 1e5F, 3e38F, 3.38e38F,
            3.3895314e38F, 3.3961775e38F, 3.3961776e38F, -3.3961776e38F, 3.4028235e38F, inf, -inf, nan}) {
        CAPTURE(value);
        const bool becomes_infinite = std::isfinite(value) && std::isinf(static_cast<float>(T(value)));
        CHECK(overflows(value, dtype) == becomes_infinite);
        const std::vector<float> values{0, value};
        CHECK(first_overflow(values.data(), 2, dtype).value_or(-1) == (becomes_infinite ? 1 : -1));
      }
    });
  }
  for (const double value :
       {3.4028235e38, 3.4028235677973362e38, 3.4028235677973366e38, 1e39, -1e300, 1e308 * 10})
    CHECK(overflows_fp32(value) == (std::isfinite(value) && std::isinf(static_cast<float>(value))));
}
