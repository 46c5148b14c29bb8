// The page of keys and mouse.
#pragma once

#include <string_view>

#include "viz/panels/theme.h"

namespace zero1::viz {

/// A page in front of everything. Between `begin` and `end`, where `begin` has returned true, come sections.
class HelpPage {
 public:
  explicit HelpPage(const Theme& theme) : theme_(theme) {}

  /// Draws nothing unless `open`; the user's closing clears it.
  bool begin(bool& open) const;
  /// Lines of "key  what it does"; two spaces or more part the two.
  void section(std::string_view heading, std::string_view lines) const;
  void end() const;

 private:
  void line(std::string_view key, std::string_view what) const;

  const Theme& theme_;
};

}  // namespace zero1::viz
