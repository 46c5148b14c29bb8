// The colours of everything that means something, in a light and in a dark window.
#pragma once

#include <imgui.h>

#include "core/trace/event.h"

namespace zero1::viz {

/// Ranks: Okabe and Ito's palette up to eight, viridis beyond, as in `zero1 layout`'s pictures. Buckets: hues
/// that differ most between neighbours. Both can be told apart with any kind of colour vision, and panels
/// write the number too where it fits.
struct Theme {
  bool dark = true;
  float scale = 1;  ///< of the monitor; sizes in panels are multiples of the font's size, or times this

  ImU32 rank(int rank, int ranks) const;
  ImU32 bucket(int bucket) const;  ///< -1: a collective without a bucket
  ImU32 kind(trace::Kind kind) const;
  ImU32 exposed() const;  ///< exposed communication, and nothing else
  ImU32 padding() const;
  ImU32 selected() const;
  ImU32 changed() const;  ///< what the last step has changed
  ImU32 text() const;
  ImU32 faint_text() const;
  ImU32 background() const;
  ImU32 grid() const;
  /// Black or white, whichever can be read on `fill`.
  static ImU32 text_on(ImU32 fill);
};

}  // namespace zero1::viz
