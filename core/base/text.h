// Text that comes from people and files: safe to show, and guessed where it was mistyped.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace zero1 {

/// `text` on one line of a terminal. What would act on the terminal or deceive its reader is escaped: control
/// characters (C0, DEL, C1), line separators and bidirectional controls as in `\n`, `\x1b`, `\u202e`, and
/// bytes that are not UTF-8 as in `\xff`. What is longer than `longest` bytes is cut before a character and
/// ends in "…".
std::string printable(std::string_view text, std::size_t longest = std::string_view::npos);

/// The same for text that was composed of lines, with names that are printable already: its line breaks stay.
std::string printable_lines(std::string_view text);

/// The same for a message, which may hold names as they are: line breaks
/// stay from the first detail on, which is indented by two spaces; names in details are printable already.
std::string printable_message(std::string_view message);

/// JSON text, whose strings hold no C0 control characters, with all else that printable() escapes as
/// `\uXXXX`: the same values.
std::string printable_json(std::string_view json);

/// Whether `text` is UTF-8 throughout.
bool is_utf8(std::string_view text);

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
