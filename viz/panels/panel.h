// A panel: one window of the program, one file each.
#pragma once

#include <memory>
#include <string_view>

#include "viz/model/document.h"
#include "viz/panels/theme.h"

namespace zero1::viz {

/// Draws with ImGui between its Begin and End, which the app calls: panels know no back end and no monitor,
/// and tests draw them without either. Keeps only what belongs to the view (zoom, scroll, filter); what is
/// selected and when lies in the Document. Must not block on the run.
class Panel {
 public:
  virtual ~Panel() = default;

  /// The window's title and its name in the saved layout; never changes.
  virtual std::string_view title() const = 0;
  virtual void draw(Document& document, const Theme& theme) = 0;
  /// Would another frame show more, with nothing new from outside? Of the last `draw`.
  virtual bool unfinished() const { return false; }
  /// Does it have a field to search in, which `/` leads to while the panel has the keys?
  virtual bool searches() const { return false; }
  /// `/` was pressed where no panel has the keys that searches.
  virtual void begin_search() {}
  /// One line for the help overlay per way to use it: "wheel  zoom at the cursor".
  virtual std::string_view help() const { return {}; }
};

std::unique_ptr<Panel> make_ownership_panel();
std::unique_ptr<Panel> make_timeline_panel();
std::unique_ptr<Panel> make_control_panel();
std::unique_ptr<Panel> make_element_panel();
std::unique_ptr<Panel> make_memory_panel();
std::unique_ptr<Panel> make_overlap_panel();
std::unique_ptr<Panel> make_metrics_panel();
std::unique_ptr<Panel> make_log_panel();
std::unique_ptr<Panel> make_settings_panel();
std::unique_ptr<Panel> make_explore_panel();

}  // namespace zero1::viz
