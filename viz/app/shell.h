// Everything inside the window: menu, panels and their places, status line, help. Knows no back end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "viz/app/preferences.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

class Shell {
 public:
  Shell(Document document, Preferences preferences, float scale);
  ~Shell();

  /// One frame, between NewFrame and Render, at ImGui's display size.
  void draw();

  Document& document() { return document_; }
  Preferences& preferences() { return preferences_; }
  bool quit() const { return quit_; }
  /// Would another frame show more, with nothing new from outside? Of the last frame.
  bool unfinished() const { return unfinished_; }
  /// Of the monitor. Fonts are the caller's to rebuild.
  void set_scale(float scale);
  const Theme& theme() const { return theme_; }
  void toggle_theme();
  /// Brings a panel of the right column to the front. Throws InputError that lists them where there is none
  /// of this name.
  void show_tab(std::string_view title);

 private:
  enum class Place { upper, lower, strip, tab };
  struct Entry {
    std::unique_ptr<Panel> panel;
    Place place = Place::tab;
    std::string title;
    float tallest_px = 0;  ///< its content has been this tall
  };
  struct Area {
    ImVec2 at;
    ImVec2 size;
  };

  void add(std::unique_ptr<Panel> panel, Place place);
  void add_panels();
  bool shown(const Entry& entry) const { return !preferences_.hidden_panels.contains(entry.title); }
  Entry* find(Place place);
  int shown_tabs() const;

  void handle_keys();
  static void move_bar(float& share, float by);
  void focus_panel(int number);
  void draw_menu();
  void draw_status(const Area& area);
  void draw_places(const Area& area);
  void draw_panel(Entry& entry);
  void draw_window(Entry& entry, const Area& area);
  void draw_tabs(const Area& area);
  void draw_help();
  void begin_search();
  void draw_splitter(const char* id, const Area& area, bool vertical, float whole, float& share, float sign);

  Document document_;
  Preferences preferences_;
  Theme theme_;
  std::vector<Entry> entries_;
  std::string wanted_focus_;
  std::string wanted_tab_;
  std::string wanted_content_;
  bool help_open_ = false;
  bool quit_ = false;
  bool unfinished_ = false;
  bool searching_ = false;  ///< a panel that searches has the keys
};

}  // namespace zero1::viz
