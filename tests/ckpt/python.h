// Other people's readers: Python and its packages.
#pragma once

#include <fmt/format.h>

#include <string>

#include "tests/ckpt/ckpt_support.h"
#include "tests/support/command.h"

namespace zero1::test {

/// A Python that has `package`; the distribution's has the distribution's packages, whatever stands first in
/// PATH. Empty: there is none.
inline std::string python_with(const std::string& package) {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (run_command(fmt::format("{} -c 'import {}'", python, package)).status == 0) return python;
  }
  return "";
}

/// PlacedValues as text: a line per parameter and state with its name, the state's, and every element's bits.
inline std::string placed_values_text(const std::vector<ParamSpec>& specs) {
  std::string text;
  for (std::size_t p = 0; p < specs.size(); ++p) {
    for (const ckpt::State state : ckpt::all_states) {
      text += fmt::format("{} {}", specs[p].name, ckpt::name(state));
      for (std::int64_t i = 0; i < specs[p].numel(); ++i) {
        text += fmt::format(" {:08x}",
                            std::bit_cast<std::uint32_t>(PlacedValues::value(static_cast<int>(p), state, i)));
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace zero1::test
