// Files of token ids: what nanoGPT's and llm.c's preparation scripts write, and plain bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/data/input_file.h"

namespace zero1 {

/// How a file stores a token. automatic: a file whose name ends in .bin holds uint16, or what its header
/// says; every other file holds bytes.
enum class TokenDType : std::uint8_t { automatic, uint8, uint16, uint32 };

std::string_view name(TokenDType dtype);
/// "uint8", "uint16", "uint32"; nothing for other text.
std::optional<TokenDType> parse_token_dtype(std::string_view text);

/// Whether files of this name hold token ids, for which a vocabulary must be given, and not bytes.
bool holds_token_ids(std::string_view path, TokenDType dtype);

struct TokenFileOptions {
  TokenDType dtype = TokenDType::automatic;
  std::int64_t vocab_size = 256;  ///< every token is below it
};

/// An opened file of tokens, little-endian. A header as llm.c writes it (256 int32: 20240520, version 1, the
/// count: uint16; 20240801, version 7: uint32) is recognised and its count compared with the file's size;
/// a file without it (nanoGPT) holds nothing but tokens. Any thread reads.
class TokenFile {
 public:
  /// Throws InputError that names the file: unreadable, a header that its bytes or `dtype` contradict, an
  /// unknown version, half a token at the end, a header on a file that is to be read as bytes.
  TokenFile(const std::string& path, const TokenFileOptions& options);

  std::int64_t token_count() const { return token_count_; }
  std::string description() const;  ///< "corpus.txt (12,000 bytes)", "train.bin (1,024 tokens of uint16)"

  /// Tokens [first, first + count). Throws InputError naming the position of one that is not below the
  /// vocabulary's size.
  void read(std::int64_t first, std::int64_t count, std::int32_t* tokens) const;

  /// Reads the whole file as `read` does, and refuses one of uint32 that is read as uint16 because nobody
  /// said otherwise. `progress` (may be empty) is called with bytes done and in all.
  void check(const std::function<void(std::int64_t, std::int64_t)>& progress) const;

 private:
  void read_header();
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void refuse_token(std::int64_t position, std::uint32_t token) const;
  std::int64_t token_bytes() const;

  InputFile file_;
  TokenFileOptions options_;
  TokenDType dtype_ = TokenDType::uint8;  ///< as the file has it
  std::int64_t data_offset_ = 0;
  std::int64_t token_count_ = 0;
};

}  // namespace zero1
