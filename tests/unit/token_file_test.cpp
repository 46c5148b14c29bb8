// Files of token ids: with and without a header, in every width, and what is wrong with them.
#include "core/data/token_file.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <functional>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/data/token_source.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
using test::contains;
using test::message_of;
using test::TemporaryFolder;

namespace {

template <class T>
std::string bytes_of(const std::vector<std::int32_t>& tokens) {
  std::string bytes;
  for (const std::int32_t token : tokens) {
    const auto value = static_cast<T>(token);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  return bytes;
}

std::string header(std::int32_t magic, std::int32_t version, std::int32_t count) {
  std::vector<std::int32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return bytes_of<std::int32_t>(words);
}

std::vector<std::int32_t> some_tokens(std::size_t count, std::int64_t below) {
  RandomStream random(count);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(below));
  return tokens;
}

std::vector<std::int32_t> read_all(const TokenFile& file) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.token_count()));
  file.read(0, file.token_count(), tokens.data());
  return tokens;
}

void check(const std::string& path, const TokenFileOptions& options) {
  TokenFile(path, options).check({});
}

std::string fault(const std::string& path, const TokenFileOptions& options) {
  return message_of<InputError>([&] { check(path, options); });
}

}  // namespace

TEST_CASE("tokens of every width come out as they went in, with a header and without") {
  const TemporaryFolder folder;
  const auto small = some_tokens(700, 50'257);
  const auto large = some_tokens(701, 128'256);
  const struct {
    std::string name, content;
    TokenFileOptions options;
    std::vector<std::int32_t> tokens;
    std::string says;
  } cases[] = {
      {"nanogpt.bin", bytes_of<std::uint16_t>(small), {.vocab_size = 50'257}, small, "700 tokens of uint16"},
      {"named", bytes_of<std::uint16_t>(small), {TokenDType::uint16, 50'257}, small, "uint16"},
      {"llmc.bin",
       header(20240520, 1, 700) + bytes_of<std::uint16_t>(small),
       {.vocab_size = 50'257},
       small,
       "700 tokens of uint16"},
      {"llama.bin",
       header(20240801, 7, 701) + bytes_of<std::uint32_t>(large),
       {.vocab_size = 128'256},
       large,
       "701 tokens of uint32"},
      {"llmc",
       header(20240520, 1, 700) + bytes_of<std::uint16_t>(small),
       {TokenDType::uint16, 50'257},
       small,
       "700 tokens"},
      {"raw.bin",
       bytes_of<std::uint32_t>(large),
       {TokenDType::uint32, 128'256},
       large,
       "701 tokens of uint32"},
      {"text", "abc", {}, {'a', 'b', 'c'}, "3 bytes"},
      {"bytes.bin", "a\xff", {TokenDType::uint8, 256}, {'a', 0xff}, "2 bytes"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.name);
    const TokenFile file(folder.write(c.name, c.content), c.options);
    CHECK(read_all(file) == c.tokens);
    CHECK(contains(file.description(), c.says));
    std::int64_t reported = 0;
    file.check([&](std::int64_t done, std::int64_t total) {
      CHECK(done <= total);
      reported = done;
    });
    const bool needs_no_look = c.options.vocab_size >= 256 && contains(c.says, "bytes");
    CHECK((reported > 0) != needs_no_look);
    if (c.tokens.size() < 4) continue;
    std::array<std::int32_t, 2> middle{};
    file.read(5, 2, middle.data());
    CHECK(middle == std::array{c.tokens[5], c.tokens[6]});
  }
}

TEST_CASE("a source of token ids is cut into sequences as one of bytes is") {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(29, 1000);
  const auto source =
      TokenSource::from_file(folder.write("t.bin", bytes_of<std::uint16_t>(tokens)), 7, {.vocab_size = 1000});
  REQUIRE(source->sequence_count() == 4);
  std::array<std::int32_t, 7> first{}, targets{};
  source->read(5, first.data(), targets.data());  // the second sequence, in the second pass
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(first[i] == tokens[7 + i]);
    CHECK(targets[i] == tokens[8 + i]);
  }
  CHECK(contains(
      message_of<InputError>([&] { TokenSource::from_file(folder.path("t.bin"), 29, {.vocab_size = 1000}); }),
      "has 29 tokens"));
}

TEST_CASE("what is wrong with a file of tokens is said") {
  const TemporaryFolder folder;
  auto tokens = some_tokens(2'000'000, 50'257);
  const auto raw = [&](const char* name) { return folder.write(name, bytes_of<std::uint16_t>(tokens)); };
  tokens[1'234'567] = 50'257;  // in the second piece that is looked at
  const std::string outside = fault(raw("outside.bin"), {.vocab_size = 50'257});
  CHECK(contains(outside, "token 50,257 at position 1,234,567"));
  CHECK(contains(outside, "--vocab-size"));
  CHECK(contains(outside, "outside.bin"));
  check(folder.path("outside.bin"), {.vocab_size = 50'258});

  const auto some = some_tokens(600, 50'000);
  const std::string wide = bytes_of<std::uint32_t>(some);
  const std::string narrow = bytes_of<std::uint16_t>(some);
  const std::string as_narrow = fault(folder.write("wide.bin", wide), {.vocab_size = 50'257});
  CHECK(contains(as_narrow, "--token-dtype uint32"));
  check(folder.path("wide.bin"), {TokenDType::uint16, 50'257});  // somebody means it
  CHECK(contains(fault(folder.write("narrow.bin", narrow), {TokenDType::uint32, 50'257}), "not below"));
  CHECK(contains(fault(folder.write("odd.bin", "abc"), {.vocab_size = 50'257}), "3 bytes"));
  CHECK(contains(fault(folder.write("odd", "abcdef"), {TokenDType::uint32, 256}), "uint32"));
  CHECK(contains(fault(folder.write("text", "az"), {.vocab_size = 100}), "byte 122 at position 1"));
  CHECK(contains(fault(folder.path("none.bin"), {}), "none.bin"));
}

TEST_CASE("a header must agree with the file and with what was asked for") {
  const TemporaryFolder folder;
  const std::string data = bytes_of<std::uint16_t>(some_tokens(600, 50'000));
  const TokenFileOptions options{.vocab_size = 50'257};
  const auto write = [&](const char* name, std::int32_t version, std::int32_t count, std::size_t cut = 0) {
    return folder.write(name, header(20240520, version, count) + data.substr(cut));
  };
  CHECK(contains(fault(write("cut.bin", 1, 600, 2), options), "promises 600 tokens"));
  CHECK(contains(fault(write("half.bin", 1, 599, 1), options), "promises 599 tokens"));
  CHECK(contains(fault(write("negative.bin", 1, -1), options), "promises -1"));
  CHECK(contains(fault(write("future.bin", 2, 600), options), "version 2, expected version 1"));
  CHECK(contains(fault(write("good.bin", 1, 600), {TokenDType::uint32, 50'257}), "says uint16"));
  check(folder.path("good.bin"), {TokenDType::uint8, 256});  // on its bytes, if somebody wants that
  CHECK(contains(fault(write("good", 1, 600), {}), "--token-dtype uint16 and --vocab-size"));
}

TEST_CASE("a file that changes after it was looked at cannot give a token that the model lacks") {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.bin", bytes_of<std::uint16_t>(some_tokens(600, 100)));
  const TokenFile file(path, {.vocab_size = 100});
  file.check({});
  std::ofstream(path, std::ios::binary | std::ios::in).seekp(2 * 10).write("\xff\xff", 2);
  std::array<std::int32_t, 5> tokens{};
  file.read(0, 5, tokens.data());
  CHECK(contains(message_of<InputError>([&] { file.read(8, 5, tokens.data()); }), "position 10"));
}
