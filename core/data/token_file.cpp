#include "core/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"

namespace zero1 {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::array<std::string_view, 4> dtype_names{"automatic", "uint8", "uint16", "uint32"};

constexpr std::int64_t header_bytes = 256 * sizeof(std::int32_t);

/// What a header begins with.
struct HeaderKind {
  std::int32_t magic;
  std::int32_t version;
  TokenDType dtype;
};
constexpr HeaderKind header_kinds[] = {{20240520, 1, TokenDType::uint16}, {20240801, 7, TokenDType::uint32}};

/// Tokens of any width as they are stored, one after the other; `visit(index, token)`.
template <class Visit>
void for_each_token(const std::uint8_t* bytes, std::int64_t count, std::int64_t token_bytes, Visit&& visit) {
  const auto visit_as = [&]<class T>(T token) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(&token, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      visit(i, static_cast<std::uint32_t>(token));
    }
  };
  if (token_bytes == 1)
    visit_as(std::uint8_t{});
  else if (token_bytes == 2)
    visit_as(std::uint16_t{});
  else
    visit_as(std::uint32_t{});
}

}  // namespace

std::string_view name(TokenDType dtype) {
  return dtype_names[static_cast<std::size_t>(dtype)];
}

std::optional<TokenDType> parse_token_dtype(std::string_view text) {
  for (const TokenDType dtype : {TokenDType::uint8, TokenDType::uint16, TokenDType::uint32}) {
    if (text == name(dtype)) return dtype;
  }
  return std::nullopt;
}

bool holds_token_ids(std::string_view path, TokenDType dtype) {
  if (dtype == TokenDType::automatic) return path.ends_with(".bin");
  return dtype != TokenDType::uint8;
}

TokenFile::TokenFile(const std::string& path, const TokenFileOptions& options)
    : file_(path), options_(options), dtype_(options.dtype) {
  const bool ids = holds_token_ids(path, options.dtype);
  if (dtype_ == TokenDType::automatic) dtype_ = ids ? TokenDType::uint16 : TokenDType::uint8;
  if (options.dtype != TokenDType::uint8) read_header();
  const std::int64_t data_bytes = file_.size_bytes() - data_offset_;
  if (data_bytes % token_bytes() != 0) {
    fail(
        fmt::format("{} of tokens are no whole number of {}; say how tokens are stored with --token-dtype "
                    "(uint8: train on its bytes)",
                    counted(data_bytes, "byte"), name(dtype_)));
  }
  token_count_ = data_bytes / token_bytes();
}

std::int64_t TokenFile::token_bytes() const {
  return std::int64_t{1} << (static_cast<int>(dtype_) - static_cast<int>(TokenDType::uint8));
}

void TokenFile::fail(const std::string& why) const {
  throw InputError(fmt::format("{}: {}", file_.path(), why));
}

void TokenFile::read_header() {
  if (file_.size_bytes() < header_bytes) return;
  std::array<std::int32_t, 3> header{};  // magic, version, count
  file_.read_at(0, header.data(), sizeof(header));
  const auto* kind = std::find_if(std::begin(header_kinds), std::end(header_kinds),
                                  [&](const HeaderKind& each) { return each.magic == header[0]; });
  if (kind == std::end(header_kinds)) return;
  const std::int64_t data_bytes = file_.size_bytes() - header_bytes;
  const std::int64_t found = data_bytes / (kind->dtype == TokenDType::uint16 ? 2 : 4);
  if (header[1] != kind->version) {
    fail(fmt::format("has llm.c's header ({}) in version {}, expected version {}", kind->magic, header[1],
                     kind->version));
  }
  if (!holds_token_ids(file_.path(), options_.dtype)) {
    fail(
        fmt::format("is a file of tokens with llm.c's header: give --token-dtype {} and --vocab-size to "
                    "train on its tokens, or --token-dtype uint8 to train on its bytes",
                    name(kind->dtype)));
  }
  if (options_.dtype != TokenDType::automatic && options_.dtype != kind->dtype) {
    fail(fmt::format("has a header of llm.c that says {}, --token-dtype says {}; leave the flag out",
                     name(kind->dtype), name(options_.dtype)));
  }
  dtype_ = kind->dtype;
  data_offset_ = header_bytes;
  if (header[2] != found || data_bytes % token_bytes() != 0) {
    fail(fmt::format(
        "its header promises {} of {}, but {} follow it, which hold {}: it was cut, or is not whole yet",
        counted(header[2], "token"), name(dtype_), counted(data_bytes, "byte"), format_count(found)));
  }
}

std::string TokenFile::description() const {
  if (dtype_ == TokenDType::uint8) return fmt::format("{} ({})", file_.path(), counted(token_count_, "byte"));
  return fmt::format("{} ({} of {})", file_.path(), counted(token_count_, "token"), name(dtype_));
}

void TokenFile::refuse_token(std::int64_t position, std::uint32_t token) const {
  const bool bytes = dtype_ == TokenDType::uint8;
  fail(
      fmt::format("{} {} at position {} is not below the vocabulary's size, {}: give a larger --vocab-size{}",
                  bytes ? "byte" : "token", format_count(token), format_count(position),
                  format_count(options_.vocab_size),
                  bytes || data_offset_ > 0
                      ? ""
                      : ", or say how tokens are stored with --token-dtype (uint8: train on its bytes)"));
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int32_t* tokens) const {
  // Reads go through the page cache. A mapping would save the copy, but would end the program with a
  // signal where the file is cut short meanwhile.
  thread_local std::vector<std::uint8_t> bytes;
  const std::int64_t wanted = count * token_bytes();
  bytes.resize(static_cast<std::size_t>(wanted));
  file_.read_at(data_offset_ + first * token_bytes(), bytes.data(), wanted);
  std::uint32_t largest = 0;
  for_each_token(bytes.data(), count, token_bytes(), [&](std::int64_t i, std::uint32_t token) {
    tokens[i] = static_cast<std::int32_t>(token);
    largest = std::max(largest, token);
  });
  if (largest < options_.vocab_size) return;
  for_each_token(bytes.data(), count, token_bytes(), [&](std::int64_t i, std::uint32_t token) {
    if (token >= options_.vocab_size) refuse_token(first + i, token);
  });
}

void TokenFile::check(const std::function<void(std::int64_t, std::int64_t)>& progress) const {
  if (dtype_ == TokenDType::uint8 && options_.vocab_size >= 256) return;
  constexpr std::int64_t piece_tokens = 1 << 20;
  std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(std::min<std::int64_t>(piece_tokens, token_count_)));
  std::int32_t largest_even = 0;
  std::int32_t largest_odd = 0;
  for (std::int64_t first = 0; first < token_count_; first += piece_tokens) {
    const std::int64_t count = std::min<std::int64_t>(piece_tokens, token_count_ - first);
    read(first, count, tokens.data());
    for (std::int64_t i = 0; i + 1 < count; i += 2) {
      largest_even = std::max(largest_even, tokens[static_cast<std::size_t>(i)]);
      largest_odd = std::max(largest_odd, tokens[static_cast<std::size_t>(i) + 1]);
    }
    if (progress) progress((first + count) * token_bytes(), token_count_ * token_bytes());
  }
  // The upper halves of uint32 tokens of every vocabulary in use are 0 to 3.
  const bool halves = largest_odd < 4 && largest_even >= 256 && token_count_ % 2 == 0;
  if (dtype_ == TokenDType::uint16 && options_.dtype == TokenDType::automatic && data_offset_ == 0 &&
      halves) {
    fail(
        fmt::format("every other one of its uint16 tokens is at most {}, as in a file of uint32: say how "
                    "tokens are stored with --token-dtype uint32 (or uint16)",
                    largest_odd));
  }
}

}  // namespace zero1
