// The timeline's panel: what it keeps between frames. Drawing is in timeline_panel.cpp, mouse and keys in
// timeline_input.cpp.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "viz/model/event_search.h"
#include "viz/model/flow_arrows.h"
#include "viz/model/logical_order.h"
#include "viz/model/range_statistics.h"
#include "viz/panels/panel.h"
#include "viz/panels/timeline_painter.h"
#include "viz/panels/timeline_scene.h"

namespace zero1::viz {

class TimelinePanel final : public Panel {
 public:
  std::string_view title() const override { return "Timeline"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override;
  bool unfinished() const override { return statistics_ && !statistics_->complete(); }

  // What tests look at.
  const TimeView& view() const { return logical_ ? causes_ : physical_; }
  const TimelineRows& rows() const { return rows_; }
  const Box& lanes_box() const { return lanes_; }
  const Box& strip_box() const { return strip_; }
  const Box& axis_box() const { return axis_; }
  float scroll_px() const { return scroll_px_; }
  bool logical() const { return logical_ != nullptr; }
  EventId hovered() const { return hovered_; }
  std::optional<trace::Interval> measured() const { return measured_; }
  const RangeStatistics* statistics() const { return statistics_.get(); }
  int primitives() const { return painter_.primitives(); }
  std::size_t arrows() const { return arrows_.visible.size(); }

 private:
  struct ArrowsKey {
    trace::Interval window;
    std::optional<int> rank, bucket;
    std::uint64_t events_revision = 0;
    friend bool operator==(const ArrowsKey&, const ArrowsKey&) = default;
  };
  struct Arrows {
    ArrowsKey key;
    bool known = false;
    std::vector<FlowArrow> all, visible;
  };

  TimeView& shown_view() { return logical_ ? causes_ : physical_; }
  const EventIndex& shown_events(const Document& document) const;
  bool follows(const Document& document) const {
    return document.moment.follow && (tracks_ || document.live == nullptr);
  }

  void follow_document(const Document& document);
  void move_along(const Document& document);
  void follow_selection(const Document& document);
  void show_iteration_of(const Document& document, EventId original);
  void bring_into_view(const Document& document, EventId original);
  void order_logically(const Document& document, trace::Interval window);
  void bring_rank_into_view(int rank);
  void toggle_logical(const Document& document);
  void toggle_folded(int rank);
  void go_to_step(Document& document, std::size_t index);
  void show_step(const Document& document, const EventIndex::Step& step);
  void step_by(Document& document, int by);
  void fit(const Document& document);
  void fit_all(const Document& document);
  void touched();
  void toggle_follow(Document& document);

  void select(Document& document, EventId original);
  void select_neighbour(Document& document, int by);
  void select_row(Document& document, int by);
  void select_first_in_view(Document& document);
  EventId selected_shown(const Document& document) const;
  EventId original(EventId shown) const;
  void search(Document& document, int by);

  void draw_toolbar(Document& document, const Theme& theme);
  void draw_status(const Document& document, const Theme& theme);
  void draw_content(Document& document, const Theme& theme);
  void arrange_rows(const Document& document);
  void paint(Document& document, const Theme& theme);
  void find_hovered(TimelineScene& scene, std::span<const TimelineBar> bars);
  std::span<const FlowArrow> arrows_in_view(const TimelineScene& scene);

  void handle_input(Document& document);
  void handle_mouse(Document& document);
  void handle_drag(Document& document);
  void handle_click(Document& document, ImVec2 mouse);
  void handle_keys(Document& document);
  void handle_moving_keys();
  void measure(const Document& document, trace::Interval range);
  void measure_selected(const Document& document, bool extend);
  void set_moment(Document& document, double at_ns);

  std::shared_ptr<EventIndex> seen_events_;
  std::uint64_t seen_selection_ = 0;
  Selection seen_;  ///< what it was
  std::uint64_t fit_revision_ = 0;

  TimeView physical_, causes_;
  std::unique_ptr<LogicalOrder> logical_;  ///< null: in physical time
  bool opening_ = true;                    ///< nothing of the document has been drawn yet
  bool touched_ = false;                   ///< the user has moved the view
  bool tracks_ = true;                     ///< the view moves along with a run
  bool followed_ = true;                   ///< the document did, a frame ago
  std::set<int> folded_;
  float scroll_px_ = 0;

  TimelineRows rows_;
  TimelineDrawing drawing_;
  TimelinePainter painter_;
  Arrows arrows_;
  bool show_arrows_ = true;
  bool modelled_in_view_ = false;

  Box strip_{}, axis_{}, lanes_{};
  float label_px_ = 0, lanes_px_ = 0;
  bool hovers_lanes_ = false;
  EventId hovered_ = -1;  ///< number in what is shown
  std::optional<std::size_t> hovered_step_;
  ImVec2 pressed_at_{};
  bool dragged_ = false;

  std::optional<trace::Interval> measured_;
  std::unique_ptr<RangeStatistics> statistics_;

  std::array<char, 128> search_text_{}, searched_text_{};
  std::unique_ptr<EventSearch> search_;
  bool focus_search_ = false, nothing_found_ = false;
};

}  // namespace zero1::viz
