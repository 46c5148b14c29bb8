#include "core/data/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/units.h"
#include "core/data/permutation.h"

namespace zero1 {
namespace {

/// A sequence takes one token more than its length: the last target is the next sequence's first token.
std::int64_t count_sequences(std::int64_t tokens, std::int64_t seq_len, const std::string& what,
                             std::string_view unit) {
  if (seq_len < 1) throw InputError(fmt::format("the sequence length is {}, expected 1 or more", seq_len));
  if (tokens <= seq_len) {
    throw InputError(fmt::format(
        "{}: has {}, but one sequence of {} takes {}: give more data or a shorter "
        "sequence length",
        what, counted(tokens, unit), counted(seq_len, "token"), static_cast<std::uint64_t>(seq_len) + 1));
  }
  return (tokens - 1) / seq_len;
}

class FileTokens final : public TokenSource {
 public:
  FileTokens(const std::string& path, std::int64_t seq_len, const TokenFileOptions& options)
      : file_(path, options),
        seq_len_(seq_len),
        sequence_count_(count_sequences(file_.token_count(), seq_len, path,
                                        holds_token_ids(path, options.dtype) ? "token" : "byte")) {}

  std::int64_t sequence_count() const override { return sequence_count_; }
  std::int64_t seq_len() const override { return seq_len_; }
  std::string description() const override { return file_.description(); }

  void read(std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const override {
    thread_local std::vector<std::int32_t> both;
    both.resize(static_cast<std::size_t>(seq_len_) + 1);
    file_.read(index % sequence_count_ * seq_len_, seq_len_ + 1, both.data());
    std::copy_n(both.begin(), seq_len_, tokens);
    std::copy_n(both.begin() + 1, seq_len_, targets);
  }

 private:
  TokenFile file_;
  std::int64_t seq_len_;
  std::int64_t sequence_count_;
};

/// One sentence. Numbers have one or two digits, so that a small model can learn their sums.
std::string arithmetic_sentence(RandomStream& random) {
  const std::int64_t a = random.below(100);
  const std::int64_t b = random.below(100);
  switch (random.below(4)) {
    case 0: return fmt::format("{} + {} = {}.", a, b, a + b);
    case 1: return fmt::format("{} - {} = {}.", a + b, b, a);
    case 2: return fmt::format("{} times {} is {}.", a % 10, b % 10, (a % 10) * (b % 10));
    default: return fmt::format("{} is {} than {}.", a, a < b ? "less" : a > b ? "more" : "no more", b);
  }
}

class ArithmeticTokens final : public TokenSource {
 public:
  ArithmeticTokens(std::int64_t bytes, std::int64_t seq_len, std::uint64_t seed)
      : seq_len_(seq_len),
        sequence_count_(count_sequences(bytes, seq_len, "the arithmetic corpus", "byte")),
        seed_(seed) {
    const auto wanted = static_cast<std::size_t>(bytes);
    text_.reserve(wanted + 64);
    RandomStream random(seed);
    constexpr std::int64_t sentences_per_line = 8;
    for (std::int64_t sentence = 1; text_.size() < wanted; ++sentence) {
      text_ += arithmetic_sentence(random);
      text_ += sentence % sentences_per_line == 0 ? '\n' : ' ';
    }
    text_.resize(wanted);
  }

  std::int64_t sequence_count() const override { return sequence_count_; }
  std::int64_t seq_len() const override { return seq_len_; }
  std::string description() const override {
    return fmt::format("generated arithmetic ({} bytes, seed {})",
                       format_count(static_cast<std::int64_t>(text_.size())), seed_);
  }

  void read(std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const override {
    const auto start = static_cast<std::size_t>(index % sequence_count_ * seq_len_);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(text_.data()) + start;
    std::copy_n(bytes, seq_len_, tokens);
    std::copy_n(bytes + 1, seq_len_, targets);
  }

 private:
  std::int64_t seq_len_;
  std::int64_t sequence_count_;
  std::uint64_t seed_;
  std::string text_;
};

class ShuffledTokens final : public TokenSource {
 public:
  ShuffledTokens(std::shared_ptr<const TokenSource> ordered, std::uint64_t seed)
      : ordered_(std::move(ordered)), seed_(seed) {}

  std::int64_t sequence_count() const override { return ordered_->sequence_count(); }
  std::int64_t seq_len() const override { return ordered_->seq_len(); }
  std::string description() const override {
    return fmt::format("{}, shuffled with seed {}", ordered_->description(), seed_);
  }

  void read(std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const override {
    const std::int64_t count = sequence_count();
    const auto pass = static_cast<std::uint64_t>(index / count);
    const Permutation order(count, RandomStream(seed_, pass).next());
    ordered_->read(order(index % count), tokens, targets);
  }

 private:
  std::shared_ptr<const TokenSource> ordered_;
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<const TokenSource> TokenSource::from_file(const std::string& path, std::int64_t seq_len,
                                                          const TokenFileOptions& options) {
  return std::make_shared<FileTokens>(path, seq_len, options);
}

std::shared_ptr<const TokenSource> TokenSource::arithmetic(std::int64_t bytes, std::int64_t seq_len,
                                                           std::uint64_t seed) {
  return std::make_shared<ArithmeticTokens>(bytes, seq_len, seed);
}

std::shared_ptr<const TokenSource> TokenSource::shuffled(std::uint64_t shuffle_seed) const {
  return std::make_shared<ShuffledTokens>(shared_from_this(), shuffle_seed);
}

}  // namespace zero1
