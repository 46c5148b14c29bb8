// What a program says: the one way to its standard output and standard error. Names from files, paths and
// values of flags come from anybody; here they lose what would act on the terminal that shows them.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/text.h"

namespace zero1 {

/// An argument of say() that is a message, not a name: see printable_message().
struct Message {
  std::string_view text;
};

namespace detail {

/// Text as it may be shown; everything else as it is.
template <class Value>
decltype(auto) shown(const Value& value) {
  if constexpr (std::is_same_v<Value, Message>) {
    return printable_message(value.text);
  } else if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
    return printable(value);
  } else {
    return (value);
  }
}

template <class... Shown>
std::string format_shown(fmt::string_view format, const Shown&... args) {
  return fmt::vformat(format, fmt::make_format_args(args...));
}

/// A Message is formatted as the text that it is shown as.
template <class Value>
using Formatted = std::conditional_t<std::is_same_v<Value, Message>, std::string, Value>;

void write(std::FILE* to, std::string_view text);

}  // namespace detail

/// fmt::print, where every text among `args` is shown by printable(). What standard output does not take is
/// reported by finish_output().
template <class... Args>
void say(std::FILE* to, fmt::format_string<detail::Formatted<Args>...> format, const Args&... args) {
  detail::write(to, detail::format_shown(format, detail::shown(args)...));
}

template <class... Args>
void say(fmt::format_string<detail::Formatted<Args>...> format, const Args&... args) {
  say(stdout, format, args...);
}

/// Text on standard output that was composed of lines: see printable_lines().
void print_lines(std::string_view text);

/// A line of JSON text, or lines of it, on standard output: see printable_json().
void print_json_text(std::string_view json);
/// The value, indented; bytes that are not UTF-8 become U+FFFD.
void print_json(const nlohmann::ordered_json& json);

/// From now on standard output takes every line at once, also into a file or a pipe.
void flush_each_line();

/// Before the first output: opens what the caller has closed of standard input, output and error, so that no
/// file that is opened later takes its place and gets the text.
void claim_standard_files();

/// At the end of a program: throws Error unless standard output has taken everything.
void finish_output();

}  // namespace zero1
