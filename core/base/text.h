// Text that comes from people and files: safe to show, and guessed where it was mistyped.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace zero1 {

/// `text` on one line of a terminal: control characters, which would act on it (C0, DEL and, in UTF-8, C1),
/// become U+FFFD. What is longer than `longest` bytes is cut before a character and ends in "…".
std::string printable(std::string_view text, std::size_t longest = std::string_view::npos);

/// `text` as a word of a shell's command line, to be copied from a message: in single quotes where a shell
/// would take it apart. Control characters as printable() shows them.
std::string shell_word(std::string_view text);

/// How many characters UTF-8 text has, and so, but for wide and combining ones, how many columns it takes.
std::size_t char_count(std::string_view utf8);

/// The candidate that `word` was probably meant to be: the one with the fewest letters typed wrong, left out,
/// added or swapped, at most one letter in three; else the only candidate that begins with `word`.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'X'?", or nothing where no candidate is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace zero1
