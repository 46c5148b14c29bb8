// The breakpoints of a live run, as a part of the control panel.
#pragma once

#include "core/trace/gate.h"
#include "viz/model/document.h"
#include "viz/panels/theme.h"

namespace zero1::viz {

/// `document.live` must be there.
void add_breakpoint(Document& document, const trace::Breakpoint& where);

class BreakpointList {
 public:
  /// `document.live` must be there.
  void draw(Document& document, const Theme& theme);
  /// Adds one at the selected event, parameter or bucket; without any it does nothing.
  void break_at_selection(Document& document) const;

 private:
  void draw_new(Document& document);

  // What "Add" would add; -1: any.
  int kind_ = -1;
  int rank_ = -1, bucket_ = -1, param_ = -1, step_ = -1;
};

}  // namespace zero1::viz
