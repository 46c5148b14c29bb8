// Tokens on standard output, as they are made.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace zero1::app {

/// Bytes as they are, or token ids with commas between them. On a terminal control characters but line feeds
/// and tabs are shown as U+FFFD: the bytes of a model may be anything.
class TokenOutput {
 public:
  TokenOutput(bool text, bool terminal) : text_(text), terminal_(terminal) {}

  /// Flushes; a character of several bytes appears on a terminal when it is complete.
  void write(std::span<const std::int32_t> tokens);
  /// Ends the line.
  void finish();

  /// What of `bytes` can be shown on a terminal by now; the rest, an incomplete character, is left in it.
  static std::string take_shown(std::string& bytes);

 private:
  bool text_;
  bool terminal_;
  bool first_ = true;
  std::string pending_;  ///< bytes of a character that is not complete
};

}  // namespace zero1::app
