#include "core/data/token_source.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/data/permutation.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
using test::message_of;
using test::TemporaryFolder;

namespace {

struct Sequence {
  std::vector<std::int32_t> tokens, targets;
  friend bool operator==(const Sequence&, const Sequence&) = default;
  friend bool operator<(const Sequence& a, const Sequence& b) { return a.tokens < b.tokens; }
};

/// Reads into buffers with a sentinel behind them.
Sequence read(const TokenSource& source, std::int64_t index) {
  const auto length = static_cast<std::size_t>(source.seq_len());
  Sequence sequence{std::vector<std::int32_t>(length + 1, -7), std::vector<std::int32_t>(length + 1, -7)};
  source.read(index, sequence.tokens.data(), sequence.targets.data());
  CHECK(sequence.tokens.back() == -7);
  CHECK(sequence.targets.back() == -7);
  sequence.tokens.pop_back();
  sequence.targets.pop_back();
  return sequence;
}

}  // namespace

TEST_CASE("sequence i is bytes [i*T, i*T + T + 1)") {
  const TemporaryFolder folder;
  // Every value of a byte occurs, also those that a signed char would make negative.
  std::string bytes(256 + 5, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 77 % 256);
  for (const std::int64_t seq_len : {1, 3, 5, 7, 13, 260}) {
    CAPTURE(seq_len);
    const auto source = TokenSource::from_file(folder.write("data", bytes), seq_len);
    CHECK(source->seq_len() == seq_len);
    REQUIRE(source->sequence_count() == 260 / seq_len);
    for (std::int64_t i = 0; i < 2 * source->sequence_count() + 1; ++i) {
      const Sequence sequence = read(*source, i);
      const std::int64_t start = i % source->sequence_count() * seq_len;
      for (std::int64_t t = 0; t < seq_len; ++t) {
        CHECK(sequence.tokens[static_cast<std::size_t>(t)] ==
              static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(start + t)]));
        CHECK(sequence.targets[static_cast<std::size_t>(t)] ==
              static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(start + t + 1)]));
      }
    }
  }
}

TEST_CASE("the last byte is a target only") {
  const TemporaryFolder folder;
  CHECK(TokenSource::from_file(folder.write("8", "abcdefgh"), 7)->sequence_count() == 1);
  CHECK(TokenSource::from_file(folder.write("14", "abcdefghijklmn"), 7)->sequence_count() == 1);
  CHECK(TokenSource::from_file(folder.write("15", "abcdefghijklmno"), 7)->sequence_count() == 2);
}

TEST_CASE("files that cannot serve are refused by name and with the reason") {
  const TemporaryFolder folder;
  const auto refusal = [](const std::string& path, std::int64_t seq_len = 7) {
    return message_of<InputError>([&] { TokenSource::from_file(path, seq_len); });
  };
  const std::string short_file = folder.write("short", "abcdefg");
  CHECK(
      refusal(short_file) ==
      short_file +
          ": has 7 bytes, but one sequence of 7 tokens takes 8: give more data or a shorter sequence length");
  CHECK(refusal(folder.write("empty", "")).find("has 0 bytes") != std::string::npos);
  CHECK(refusal(folder.path("missing")).find(folder.path("missing") + ": cannot be opened") == 0);
  CHECK(refusal(folder.path("")).find("is a folder") != std::string::npos);
  CHECK(refusal("/dev/null").find("not a regular file") != std::string::npos);
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(pipe).find("not a regular file") != std::string::npos);
  CHECK(refusal(short_file, 0).find("sequence length is 0") != std::string::npos);
  CHECK(refusal(short_file, -3).find("sequence length is -3") != std::string::npos);
  CHECK(refusal(short_file, INT64_MAX).find("7 bytes") != std::string::npos);
}

TEST_CASE("a file that is cut short meanwhile is an error that names it") {
  const TemporaryFolder folder;
  const std::string path = folder.write("data", std::string(100, 'x'));
  const auto source = TokenSource::from_file(path, 9);
  std::filesystem::resize_file(path, 50);
  read(*source, 4);
  std::vector<std::int32_t> out(9);
  CHECK(message_of<InputError>([&] {
          source->read(8, out.data(), out.data());
        }).find(path + ": has become shorter than the 100 bytes") == 0);
}

TEST_CASE(
    "the arithmetic corpus is a function of its seed, has the length asked for, and its sums are right") {
  const auto text_of = [](std::int64_t bytes, std::uint64_t seed) {
    const auto source = TokenSource::arithmetic(bytes, 1, seed);
    REQUIRE(source->sequence_count() == bytes - 1);
    std::string text;
    for (std::int64_t i = 0; i < source->sequence_count(); ++i)
      text += static_cast<char>(read(*source, i).tokens[0]);
    return text;
  };
  const std::string text = text_of(20000, 3);
  CHECK(text == text_of(20000, 3));
  CHECK(text != text_of(20000, 4));
  CHECK(text.starts_with(text_of(777, 3)));
  int sums = 0;
  for (std::size_t at = text.find(" + "); at != std::string::npos; at = text.find(" + ", at + 1)) {
    const std::size_t start = text.find_last_of(" \n", at - 1) + 1;
    int a = 0, b = 0, sum = 0;
    if (std::sscanf(text.c_str() + start, "%d + %d = %d.", &a, &b, &sum) != 3 || text.size() - at < 20)
      continue;
    CHECK(a + b == sum);
    ++sums;
  }
  CHECK(sums > 200);
  CHECK(message_of<InputError>([] { TokenSource::arithmetic(5, 5, 1); }).find("arithmetic corpus") !=
        std::string::npos);
}

TEST_CASE("a permutation is a bijection for every size, and not the identity") {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
    CAPTURE(count);
    std::set<std::vector<std::int64_t>> orders;
    for (std::uint64_t key = 0; key < 20; ++key) {
      const Permutation permutation(count, key);
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < count; ++i) order.push_back(permutation(i));
      orders.insert(order);
      std::sort(order.begin(), order.end());
      for (std::int64_t i = 0; i < count; ++i) REQUIRE(order[static_cast<std::size_t>(i)] == i);
    }
    if (count >= 7) CHECK(orders.size() == 20);
    if (count >= 2) CHECK(orders.size() >= 2);
  }
  const Permutation huge((std::int64_t{1} << 61) + 3, 9);
  CHECK(huge(0) != huge(1));
}

TEST_CASE("a permutation moves every element to every place about equally often") {
  constexpr std::int64_t count = 10;
  std::vector<int> hits(count * count);
  for (std::uint64_t key = 0; key < 20000; ++key) {
    const Permutation permutation(count, mix64(key));
    for (std::int64_t i = 0; i < count; ++i) ++hits[static_cast<std::size_t>(i * count + permutation(i))];
  }
  for (const int hit : hits) CHECK(std::abs(hit - 2000) < 250);
}

TEST_CASE("shuffling visits every sequence once per pass, each pass in another order, the same for a seed") {
  const auto ordered = TokenSource::arithmetic(5 * 97 + 1, 5, 1);
  const std::int64_t count = ordered->sequence_count();
  const auto pass_of = [&](const TokenSource& source, std::int64_t pass) {
    std::vector<Sequence> sequences;
    for (std::int64_t i = 0; i < count; ++i) sequences.push_back(read(source, pass * count + i));
    return sequences;
  };
  const auto in_order = pass_of(*ordered, 0);
  const auto shuffled = ordered->shuffled(42);
  CHECK(shuffled->sequence_count() == count);
  CHECK(shuffled->seq_len() == 5);
  const auto first = pass_of(*shuffled, 0);
  const auto second = pass_of(*shuffled, 1);
  CHECK(first != in_order);
  CHECK(first != second);
  CHECK(first == pass_of(*ordered->shuffled(42), 0));
  CHECK(first != pass_of(*ordered->shuffled(43), 0));
  for (auto pass : {first, second}) {
    auto sorted = in_order;
    std::sort(sorted.begin(), sorted.end());
    std::sort(pass.begin(), pass.end());
    CHECK(pass == sorted);
  }
  CHECK(shuffled->description().find("seed 42") != std::string::npos);
}

TEST_CASE("the shuffled source keeps the ordered one alive, and threads read at once") {
  const TemporaryFolder folder;
  auto source =
      TokenSource::from_file(folder.write("data", std::string(1000, 'a') + std::string(1000, 'b')), 11);
  const auto shuffled = source->shuffled(1);
  std::vector<Sequence> expected;
  for (std::int64_t i = 0; i < source->sequence_count(); ++i) expected.push_back(read(*shuffled, i));
  source.reset();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::int32_t> tokens(11), targets(11);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        shuffled->read(static_cast<std::int64_t>(i), tokens.data(), targets.data());
        if (tokens != expected[i].tokens || targets != expected[i].targets) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}
