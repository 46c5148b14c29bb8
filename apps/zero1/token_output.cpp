#include "apps/zero1/token_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"

namespace zero1::app {

namespace {

/// How many bytes the character has that begins with `front`; 1 where none does.
std::size_t char_bytes(char front) {
  const auto code = static_cast<unsigned char>(front);
  return code >= 0xF0 && code < 0xF8   ? 4
         : code >= 0xE0 && code < 0xF0 ? 3
         : code >= 0xC2 && code < 0xE0 ? 2
                                       : 1;
}

bool continues_char(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

}  // namespace

std::string TokenOutput::take_shown(std::string& bytes) {
  std::string shown;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::size_t wanted = char_bytes(bytes[at]);
    std::size_t length = 1;
    while (length < wanted && at + length < bytes.size() && continues_char(bytes[at + length])) ++length;
    if (length < wanted && at + length == bytes.size()) break;  // the rest may still come
    const std::string_view character = std::string_view(bytes).substr(at, length);
    const bool broken = length < wanted || continues_char(character[0]) ||
                        (wanted == 1 && static_cast<unsigned char>(character[0]) >= 0x80);
    if (character == "\n" || character == "\t")
      shown += character;
    else
      shown += broken || printable(character) != character ? "\uFFFD" : character;
    at += length;
  }
  bytes.erase(0, at);
  return shown;
}

void TokenOutput::write(std::span<const std::int32_t> tokens) {
  std::string out;
  for (const std::int32_t token : tokens) {
    if (text_)
      pending_ += static_cast<char>(token);
    else
      out += fmt::format("{}{}", first_ && out.empty() ? "" : ",", token);
  }
  first_ = false;
  if (text_) {
    out = terminal_ ? take_shown(pending_) : pending_;
    if (!terminal_) pending_.clear();
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
}

void TokenOutput::finish() {
  if (!pending_.empty()) std::fputs("\uFFFD", stdout);
  std::fputs("\n", stdout);
}

}  // namespace zero1::app
