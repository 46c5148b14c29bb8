// The flags that every command of `zero1_viz` has: how it is shown.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "viz/model/document.h"

namespace zero1::app {

struct ViewFlags {
  std::string screenshot;
  std::string at;
  int frames = 0;
  std::string size;
  bool light = false;
  bool dark = false;
  float scale = 0;
  std::string tab;
  std::vector<std::string> select;
};

/// Accepts a number within these bounds; "nan" lies within none.
CLI::Validator number_between(double least, double most);

void add_view_flags(CLI::App& command, ViewFlags& flags);
/// --at, for commands that show something that moves.
void add_at_flag(CLI::App& command, ViewFlags& flags, const std::string& meaning);

/// Selects what --select names. Throws InputError naming it where there is no such thing.
void apply_selection(const ViewFlags& flags, viz::Document& document);

/// Shows the document in the window, or draws it into --screenshot's file.
void show(const ViewFlags& flags, viz::Document document);

}  // namespace zero1::app
