#include "core/data/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

#include "core/base/error.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
using test::message_of;
using test::TemporaryFolder;

namespace {

std::string length_field(std::uint64_t length) {
  std::string field(8, '\0');
  std::memcpy(field.data(), &length, 8);
  return field;
}

/// A file's content: header length, header, data.
std::string file_of(const std::string& header, const std::string& data) {
  return length_field(header.size()) + header + data;
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

/// Why a file with this content is refused.
std::string refusal(const std::string& content) {
  const TemporaryFolder folder;
  const std::string path = folder.write("bad.safetensors", content);
  const std::string message = message_of<InputError>([&] { SafetensorsReader reader(path); });
  CHECK(message.starts_with(path + ": "));
  CHECK(message.size() < 400 + path.size());
  return message.substr(path.size() + 2);
}
std::string refusal(const std::string& header, std::int64_t data_bytes) {
  return refusal(file_of(header, std::string(static_cast<std::size_t>(data_bytes), '\1')));
}

void check_contains(const std::string& message, const std::string& part) {
  CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

}  // namespace

TEST_CASE("the golden files read, whole and in pieces") {
  const SafetensorsReader reader(ZERO1_GOLDEN_DIR "/gpt-a.init.safetensors");
  CHECK(reader.entries().size() == 28);
  CHECK(reader.metadata().at("format") == "pt");
  CHECK(reader.entries().front().name == "wte.weight");
  CHECK(reader.find("nothing") == nullptr);
  const SafetensorsEntry* wte = reader.find("wte.weight");
  REQUIRE(wte != nullptr);
  CHECK(wte->dtype == DType::fp32);
  CHECK(wte->shape == std::vector<std::int64_t>{256, 48});
  const std::vector<float> all = reader.read_fp32(*wte, {0, wte->numel()});
  REQUIRE(all.size() == 256 * 48);
  double squares = 0;
  for (const float value : all) squares += static_cast<double>(value) * value;
  CHECK(std::sqrt(squares / static_cast<double>(all.size())) == doctest::Approx(0.02).epsilon(0.05));
  const Range piece{131, 131 + 97};
  CHECK(reader.read_fp32(*wte, piece) == std::vector<float>(all.begin() + 131, all.begin() + 131 + 97));
  CHECK(reader.read_fp32(*wte, {5, 5}).empty());
  CHECK_THROWS_AS(reader.read_fp32(*wte, {0, wte->numel() + 1}), std::out_of_range);
  CHECK_THROWS_AS(reader.read_fp32(*wte, {-1, 1}), std::out_of_range);
  SafetensorsEntry stranger = *wte;
  stranger.name = "stranger";
  CHECK_THROWS_AS(reader.read_fp32(stranger, {0, 1}), std::invalid_argument);
}

TEST_CASE("what is written comes back, in every dtype and shape, written in any order and in pieces") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out.safetensors");
  std::vector<SafetensorsEntry> entries;
  std::vector<std::vector<float>> values;
  int serial = 0;
  for (const DType dtype : {DType::bf16, DType::fp32, DType::fp16, DType::fp64}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {1}, {3}, {5, 7}, {0}, {2, 0, 3}, {3, 16411}}) {
      entries.push_back({fmt::format("t.{} \"\\\u00e4", serial++), dtype, shape});
      values.emplace_back();
      for (std::int64_t i = 0; i < entries.back().numel(); ++i)
        values.back().push_back(static_cast<float>(i % 97) / 4 - 7);
    }
  }
  SafetensorsWriter writer(path, entries, {{"format", "pt"}, {"note", "a \"quoted\" one"}});
  for (std::size_t i = entries.size(); i-- > 0;) {
    const auto numel = static_cast<std::int64_t>(values[i].size());
    const std::int64_t cut = numel / 3;
    writer.write_fp32(i, cut, values[i].data() + cut, numel - cut);
    writer.write_fp32(i, 0, values[i].data(), cut);
  }
  CHECK_FALSE(std::filesystem::exists(path));
  writer.close();
  CHECK(folder.count() == 1);

  const SafetensorsReader reader(path);
  CHECK(reader.metadata() ==
        std::map<std::string, std::string>{{"format", "pt"}, {"note", "a \"quoted\" one"}});
  REQUIRE(reader.entries().size() == entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsEntry* entry = reader.find(entries[i].name);
    REQUIRE(entry != nullptr);
    CHECK(entry->dtype == entries[i].dtype);
    CHECK(entry->shape == entries[i].shape);
    CHECK(entry->bytes.start % size_bytes(entry->dtype) == 0);
    CHECK(reader.read_fp32(*entry, {0, entry->numel()}) == values[i]);
  }
  const std::string content = folder.read("out.safetensors");
  std::uint64_t header_length = 0;
  std::memcpy(&header_length, content.data(), 8);
  CHECK(header_length % 8 == 0);
}

TEST_CASE("narrowing rounds to nearest even; NaN, infinities and signed zero survive") {
  const TemporaryFolder folder;
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1.0F + 0x1p-8F, 1.0F + 0x3p-8F, -0.0F, inf, -inf, std::nanf("")};
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32, DType::fp64}) {
    CAPTURE(name(dtype));
    SafetensorsWriter writer(folder.path("x"), {{"x", dtype, {6}}});
    writer.write_fp32(0, 0, values.data(), 6);
    writer.close();
    const SafetensorsReader reader(folder.path("x"));
    const auto back = reader.read_fp32(reader.entries()[0], {0, 6});
    const bool rounds = dtype == DType::bf16;
    CHECK(back[0] == (rounds ? 1.0F : values[0]));
    CHECK(back[1] == (rounds ? 1.0F + 0x1p-6F : values[1]));
    CHECK(std::signbit(back[2]));
    CHECK(back[3] == inf);
    CHECK(back[4] == -inf);
    CHECK(std::isnan(back[5]));
  }
}

TEST_CASE("files of other dtypes open; their tensors are listed and refused when read") {
  const TemporaryFolder folder;
  const std::string header = "{" + tensor("ids", "I64", "[2]", "[0,16]") + "," +
                             tensor("x", "F32", "[1]", "[16,20]") + "," +
                             tensor("tiny", "F4", "[4]", "[20,22]") + "}";
  const std::string path =
      folder.write("x", file_of(header, std::string(16, '\0') + std::string("\0\0\x80\x3f", 4) + "ab"));
  const SafetensorsReader reader(path);
  CHECK(reader.read_fp32(*reader.find("x"), {0, 1}) == std::vector<float>{1.0F});
  CHECK(reader.find("ids")->foreign_dtype == "I64");
  check_contains(message_of<InputError>([&] {
                   reader.read_fp32(*reader.find("ids"), {0, 1});
                 }),
                 path + ": tensor 'ids' is I64; only F32, BF16, F16 and F64 can be read");
}

TEST_CASE("a broken frame is refused") {
  const TemporaryFolder folder;
  const std::string good = file_of("{" + tensor("a", "F32", "[2]", "[0,8]") + "}", "12345678");
  { const SafetensorsReader reader(folder.write("good", good)); }
  check_contains(refusal(""), "has 0 bytes");
  check_contains(refusal("1234567"), "has 7 bytes");
  check_contains(refusal(length_field(0)), "does not begin with '{'");
  check_contains(refusal(length_field(UINT64_MAX) + "{}"), "claims 18446744073709551615 bytes");
  check_contains(refusal(length_field(std::uint64_t{1} << 63) + "{}"), "claims 9223372036854775808 bytes");
  check_contains(refusal(length_field(100'000'001) + "{}"), "the format allows 100000000");
  check_contains(refusal(length_field(100'000'000) + "{}"), "only 2 follow: the file is truncated");
  check_contains(refusal(length_field(3) + "{}"), "truncated");
  check_contains(refusal("\xEF\xBB\xBF{}", 0), "does not begin with '{'");
  check_contains(refusal(" {}", 0), "does not begin with '{'");
  check_contains(refusal("{} x", 0), "its header: not JSON");
  // Cut anywhere, the file is refused.
  for (std::size_t length = 0; length < good.size(); ++length)
    CHECK_FALSE(refusal(good.substr(0, length)).empty());
  check_contains(refusal(good.substr(0, good.size() - 1)),
                 "tensor 'a': its data end at byte 8 of the data section, which has 7");
  check_contains(refusal(good + "9"), "its data are 1 byte longer than its tensors take");
  check_contains(refusal("{}", 3), "its data are 3 bytes longer");
  {
    const SafetensorsReader reader(folder.write("none", file_of("{}  ", "")));
    CHECK(reader.entries().empty());
  }
}

TEST_CASE("broken JSON is refused, without recursion and without the last key winning") {
  check_contains(refusal("{\"a\":", 0), "its header: not JSON");
  check_contains(refusal("{\"a\xFF\":1}", 0), "its header: not JSON");
  check_contains(refusal("{" + std::string(1'000'000, '['), 0), "its header: not JSON");
  check_contains(refusal("{\"a\":" + std::string(1'000'000, '['), 0), "nested deeper");
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"a\":{";
  check_contains(refusal(objects, 0), "nested deeper");
  check_contains(refusal("{" + tensor("a", "F32", "[[1]]", "[0,4]") + "}", 4), "nested deeper");
  check_contains(refusal("{\"" + std::string(1'000'000, 'x'), 0), "its header: not JSON");
  const std::string a = tensor("a", "F32", "[1]", "[0,4]");
  check_contains(refusal("{" + a + "," + a + "}", 4), "'a' appears twice");
  check_contains(refusal(R"({"a":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,4]}})", 4),
                 "'shape' appears twice");
  check_contains(refusal(R"({"__metadata__":{"k":"v","k":"w"}})", 0), "'k' appears twice");
  check_contains(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "'__metadata__' appears twice");
}

TEST_CASE("metadata other than text is refused") {
  check_contains(refusal(R"({"__metadata__":3})", 0), "__metadata__ is not an object");
  check_contains(refusal(R"({"__metadata__":{"k":3}})", 0), "__metadata__: the value of 'k' is not a string");
}

TEST_CASE("a tensor's fields are checked one by one, and the tensor is named") {
  const auto fault = [](const std::string& fields, std::int64_t data_bytes = 4) {
    return refusal("{\"a\":" + fields + "}", data_bytes);
  };
  check_contains(fault("3"), "tensor 'a': is not described by an object");
  check_contains(fault("[]"), "tensor 'a': is not described by an object");
  check_contains(fault(R"({"shape":[1],"data_offsets":[0,4]})"), "tensor 'a': has no \"dtype\"");
  check_contains(fault(R"({"dtype":"F32","data_offsets":[0,4]})"), "tensor 'a': has no \"shape\"");
  check_contains(fault(R"({"dtype":"F32","shape":[1]})"), "tensor 'a': has no \"data_offsets\"");
  check_contains(fault(R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})"), "\"dtype\" is not a string");
  check_contains(fault(R"({"dtype":"f32","shape":[1],"data_offsets":[0,4]})"), "unknown dtype 'f32'");
  check_contains(fault(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"), "\"shape\" is not a list");
  for (const char* size :
       {"-1", "1.0", "1e0", "\"1\"", "null", "true", "9223372036854775808", "18446744073709551616"}) {
    CAPTURE(size);
    check_contains(fault(fmt::format(R"({{"dtype":"F32","shape":[{}],"data_offsets":[0,4]}})", size)),
                   "tensor 'a': \"shape\" holds");
    check_contains(fault(fmt::format(R"({{"dtype":"F32","shape":[1],"data_offsets":[0,{}]}})", size)),
                   "tensor 'a': \"data_offsets\" holds");
  }
  check_contains(fault(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
                 "overflow");
  check_contains(fault(R"({"dtype":"F32","shape":[2305843009213693952],"data_offsets":[0,4]})"), "overflow");
  check_contains(fault(R"({"dtype":"F32","shape":[1],"data_offsets":[4]})"), "holds 1 number, expected 2");
  check_contains(fault(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,4]})"),
                 "holds 3 numbers, expected 2");
  check_contains(fault(R"({"dtype":"F32","shape":[3],"data_offsets":[0,4]})"),
                 "hold 4 bytes, but F32 of shape [3] takes 12");
  check_contains(fault(R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})", 8),
                 "hold 8 bytes, but F32 of shape [] takes 4");
  check_contains(fault(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), "hold -4 bytes");
  check_contains(
      fault(R"({"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]})"),
      "belong to no tensor");
  check_contains(fault(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})", 1), "takes 12 bits");
  const std::string long_name = std::string(500, 'n') + "\\u001b";
  const std::string message = refusal("{" + tensor(long_name, "X", "[1]", "[0,4]") + "}", 4);
  check_contains(message, "n…'");
  check_contains(refusal("{" + tensor("\\u001b[31m", "X", "[1]", "[0,4]") + "}", 4), "tensor '\\x1b[31m'");
}

TEST_CASE("overlaps and gaps are refused, whatever the order in the header") {
  const auto fault = [](const std::string& a, const std::string& b, std::int64_t data_bytes) {
    const std::string message = refusal("{" + a + "," + b + "}", data_bytes);
    CHECK(message == refusal("{" + b + "," + a + "}", data_bytes));
    return message;
  };
  check_contains(fault(tensor("a", "F32", "[2]", "[0,8]"), tensor("b", "F32", "[2]", "[4,12]"), 12),
                 "tensor 'b': its data [4, 12) overlap those of 'a' [0, 8)");
  check_contains(fault(tensor("a", "F32", "[2]", "[0,8]"), tensor("b", "F32", "[1]", "[12,16]"), 16),
                 "tensor 'b': bytes [8, 12) before its data belong to no tensor");
  check_contains(refusal("{" + tensor("a", "F32", "[1]", "[4,8]") + "}", 8), "bytes [0, 4) before its data");
  check_contains(
      refusal("{" + tensor("a", "F32", "[1]", "[0,4]") + "," + tensor("b", "F32", "[1]", "[0,4]") + "}", 4),
      "overlap");
}

TEST_CASE("paths that are no readable file are refused with the reason") {
  const TemporaryFolder folder;
  const auto why = [](const std::string& path) {
    return message_of<InputError>([&] { SafetensorsReader reader(path); });
  };
  check_contains(why(folder.path("missing")), "cannot be opened for reading: No such file");
  check_contains(why(folder.path("")), "is a folder");
  check_contains(why("/dev/zero"), "not a regular file");
  const std::string locked = folder.write("locked", "x");
  std::filesystem::permissions(locked, std::filesystem::perms::none);
  if (::geteuid() != 0) check_contains(why(locked), "Permission denied");
}

TEST_CASE("a file that shrinks after it was opened is an error, not a crash") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x");
  SafetensorsWriter writer(path, {{"x", DType::bf16, {50000}}});
  const std::vector<float> values(50000, 1.0F);
  writer.write_fp32(0, 0, values.data(), 50000);
  writer.close();
  const SafetensorsReader reader(path);
  std::filesystem::resize_file(path, 60000);
  check_contains(message_of<InputError>([&] {
                   reader.read_fp32(reader.entries()[0], {0, 50000});
                 }),
                 path + ": has become shorter");
}

TEST_CASE("the writer publishes all or nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", "what was there before");
  const float value = 1;
  SUBCASE("without close") {
    {
      SafetensorsWriter writer(path, {{"x", DType::fp32, {1}}});
      writer.write_fp32(0, 0, &value, 1);
    }
  }
  SUBCASE("with an element missing") {
    SafetensorsWriter writer(path, {{"x", DType::fp32, {3}}});
    writer.write_fp32(0, 0, &value, 1);
    writer.write_fp32(0, 2, &value, 1);
    check_contains(message_of<Error>([&] { writer.close(); }),
                   "tensor 'x': element 1 of 3 was not written exactly once");
  }
  SUBCASE("with a tensor missing") {
    SafetensorsWriter writer(path, {{"x", DType::fp32, {1}}, {"y", DType::fp32, {1}}});
    writer.write_fp32(0, 0, &value, 1);
    check_contains(message_of<Error>([&] { writer.close(); }), "tensor 'y': element 0 of 1");
  }
  SUBCASE("with an element written twice") {
    SafetensorsWriter writer(path, {{"x", DType::fp32, {1}}});
    writer.write_fp32(0, 0, &value, 1);
    writer.write_fp32(0, 0, &value, 1);
    check_contains(message_of<Error>([&] { writer.close(); }), "tensor 'x'");
  }
  SUBCASE("outside of a tensor") {
    SafetensorsWriter writer(path, {{"x", DType::fp32, {1}}});
    CHECK_THROWS_AS(writer.write_fp32(0, 1, &value, 1), std::out_of_range);
    CHECK_THROWS_AS(writer.write_fp32(0, -1, &value, 1), std::out_of_range);
    CHECK_THROWS_AS(writer.write_fp32(1, 0, &value, 1), std::out_of_range);
  }
  CHECK(folder.read("x") == "what was there before");
  CHECK(folder.count() == 1);
}

TEST_CASE("what cannot be written is refused before anything is created") {
  const TemporaryFolder folder;
  const auto why = [&](const std::string& path, std::vector<SafetensorsEntry> entries) {
    return message_of<InputError>([&] { SafetensorsWriter writer(path, std::move(entries)); });
  };
  const std::string path = folder.path("x");
  check_contains(why(path, {{"x", DType::fp32, {1}}, {"x", DType::fp32, {1}}}), "tensor 'x' is given twice");
  check_contains(why(path, {{"__metadata__", DType::fp32, {1}}}), "reserved");
  check_contains(why(path, {{"x", DType::fp32, {-1}}}), "negative or overflows");
  check_contains(why(path, {{"x", DType::fp32, {INT64_MAX, 2}}}), "negative or overflows");
  check_contains(why(path, {{"x", DType::fp32, {INT64_MAX / 2}}}), "overflows");
  check_contains(why(path, {{"x", DType::fp32, {1}, {}, "I64"}}), "I64 cannot be written");
  check_contains(why(path, {{"x\xFF", DType::fp32, {1}}}), "not UTF-8");
  check_contains(why(folder.path("missing/x"), {}), "cannot be created: No such file");
  check_contains(why("/dev/null", {}), "not a regular file");
  check_contains(why(folder.path(""), {}), "not a regular file");
  CHECK(folder.count() == 0);
}

TEST_CASE("a full disk is an error that names the file") {
  // A limit on the size of files stands in for it.
  const TemporaryFolder folder;
  check_contains(message_of<Error>([&] {
                   const std::vector<float> values(1 << 20, 1.0F);
                   test::FileSizeLimit limit(1 << 16);
                   SafetensorsWriter writer(folder.path("x"), {{"x", DType::fp32, {1 << 20}}});
                   writer.write_fp32(0, 0, values.data(), 1 << 20);
                 }),
                 folder.path("x") + ": cannot be written (pwrite): File too large");
  CHECK(folder.count() == 0);
}

TEST_CASE("threads read one file at once") {
  const SafetensorsReader reader(ZERO1_GOLDEN_DIR "/gpt-b.init.safetensors");
  const SafetensorsEntry& entry = reader.entries().front();
  const auto expected = reader.read_fp32(entry, {0, entry.numel()});
  std::vector<int> equal(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      equal[t] = reader.read_fp32(entry, {0, entry.numel()}) == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == std::vector<int>(4, 1));
}
