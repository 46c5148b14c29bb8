// Runs, stops and steps the run, and tells who stands still for whom.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/units.h"
#include "viz/model/event_index.h"
#include "viz/model/event_words.h"
#include "viz/model/history.h"
#include "viz/model/live_run.h"
#include "viz/panels/breakpoint_list.h"
#include "viz/panels/draw.h"
#include "viz/panels/input.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

constexpr float slowest_events_per_s = 1;
constexpr float fastest_events_per_s = 2000;
constexpr int most_waits = 32;

class ControlPanel final : public Panel {
 public:
  std::string_view title() const override { return "Control"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override {
    return "Space  run or pause;  R  run to the next breakpoint\n"
           "N, B, P, I  on by one event, bucket, phase, iteration\n"
           ", and .  (here also Left and Right)  the view back and forward;  End  follow the run again\n"
           "K  break at what is selected";
  }

 private:
  void draw_status(Document& document, const Theme& theme) const;
  void draw_explanation(const LiveRun& live, const Theme& theme) const;
  void draw_commands(LiveRun& live);
  void draw_slow_motion(LiveRun& live);
  void draw_view(Document& document, const Theme& theme);
  void draw_waits(Document& document, const Theme& theme);
  void handle_keys(Document& document);

  StepUnit unit_ = StepUnit::event;
  float events_per_s_ = 20;
  BreakpointList breakpoints_;
};

void wrapped(ImU32 colour, const std::string& text) {
  ImGui::PushStyleColor(ImGuiCol_Text, colour);
  ImGui::TextWrapped("%s", text.c_str());
  ImGui::PopStyleColor();
}

void toggle(LiveRun& live) {
  const bool moves = live.state() == RunState::running || live.gate().running();
  if (moves) {
    live.pause();
  } else {
    live.run();
  }
}

void ControlPanel::draw(Document& document, const Theme& theme) {
  draw_status(document, theme);
  if (document.live != nullptr) {
    draw_explanation(*document.live, theme);
    draw_commands(*document.live);
    draw_slow_motion(*document.live);
  }
  draw_view(document, theme);
  if (document.live != nullptr) {
    breakpoints_.draw(document, theme);
    draw_waits(document, theme);  // last: it comes and goes, and may be long
  }
  handle_keys(document);
}

void ControlPanel::draw_status(Document& document, const Theme& theme) const {
  const std::int64_t dropped = document.live != nullptr     ? document.live->dropped()
                               : document.events != nullptr ? document.events->dropped()
                                                            : 0;
  const std::string drops = event_count(dropped) + " dropped";
  if (document.live == nullptr) {
    ImGui::TextWrapped("%s",
                       document.events != nullptr ? "A recording: there is no run to control." : "No run.");
    if (document.events != nullptr) wrapped(dropped > 0 ? theme.exposed() : theme.faint_text(), drops);
    return;
  }
  const LiveRun& live = *document.live;
  const RunState state = live.state();
  std::string text = live.slow_motion() > 0 ? "slow motion" : std::string(name(state));
  const auto metrics = live.metrics();
  if (!metrics.empty()) {
    text += fmt::format(" · iteration {} of {} done · loss {:.4f}", metrics.back().step,
                        live.config().train_iters, metrics.back().loss);
  }
  const bool stopped = state == RunState::paused;
  wrapped(state == RunState::failed ? theme.exposed() : stopped ? theme.changed() : theme.text(), text);
  const bool ended = live.over() && document.events != nullptr;
  const std::int64_t so_far_ns = ended ? document.events->range().end_ns : live.clock_ns();
  wrapped(dropped > 0 ? theme.exposed() : theme.faint_text(),
          fmt::format("{} · {}", drops, format_duration_ns(so_far_ns)));
  if (state == RunState::failed) wrapped(theme.exposed(), live.failure());
}

void ControlPanel::draw_explanation(const LiveRun& live, const Theme& theme) const {
  if (live.title().empty()) return;
  ImGui::Separator();
  ImGui::TextWrapped("%s", live.title().c_str());
  wrapped(theme.faint_text(), live.explanation());
  if (const std::string again = live.begin_again(); !again.empty()) {
    const auto stops = live.breakpoints().entries();
    const bool every_iteration = std::any_of(stops.begin(), stops.end(), [](const BreakpointEntry& entry) {
      return entry.enabled && !entry.where.step;
    });
    wrapped(theme.changed(),
            fmt::format("The explanation ends here. {} To begin again, close the window and start anew: {}",
                        every_iteration ? "R stops at the same place in every iteration."
                                        : "No stop is left: R runs on, Space pauses.",
                        again));
  }
  ImGui::Separator();
}

void ControlPanel::draw_commands(LiveRun& live) {
  const RunState state = live.state();
  const bool over = live.over();
  ImGui::BeginDisabled(over);
  const bool runs = state == RunState::running || state == RunState::starting;
  if (ImGui::Button(runs ? "Pause (Space)###run" : "Run (Space)###run")) toggle(live);
  const std::array<std::pair<const char*, void (LiveRun::*)()>, 5> steps{
      {{"Event (N)", &LiveRun::step_event},
       {"Bucket (B)", &LiveRun::step_bucket},
       {"Phase (P)", &LiveRun::step_phase},
       {"Iteration (I)", &LiveRun::step_iteration},
       {"To breakpoint (R)", &LiveRun::run_to_breakpoint}}};
  for (const auto& [label, command] : steps) {
    same_line_for(text_size(label).x + 2 * ImGui::GetStyle().FramePadding.x);
    if (ImGui::Button(label)) (live.*command)();
  }
  ImGui::EndDisabled();
}

void ControlPanel::draw_slow_motion(LiveRun& live) {
  ImGui::BeginDisabled(live.over());
  bool slow = live.slow_motion() > 0;
  if (ImGui::Checkbox("Slow motion", &slow)) live.set_slow_motion(slow ? events_per_s_ : 0);
  ImGui::SameLine();
  ImGui::SetNextItemWidth(-1);
  const bool moved = ImGui::SliderFloat("##rate", &events_per_s_, slowest_events_per_s, fastest_events_per_s,
                                        "%.0f events/s", ImGuiSliderFlags_Logarithmic);
  if (moved && slow) live.set_slow_motion(std::max(events_per_s_, slowest_events_per_s));
  ImGui::EndDisabled();
}

void ControlPanel::draw_view(Document& document, const Theme& theme) {
  if (document.events == nullptr) return;
  ImGui::Separator();
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("View");
  ImGui::SameLine();
  if (ImGui::Button("<##back")) go_back(document, unit_);
  ImGui::SameLine(0, 2);
  if (ImGui::Button(">##forward")) go_forward(document, unit_);
  ImGui::SameLine();
  ImGui::SetNextItemWidth(6 * ImGui::GetFontSize());
  if (ImGui::BeginCombo("##unit", std::string(name(unit_)).c_str())) {
    for (int i = 0; i < step_unit_count; ++i) {
      const auto unit = static_cast<StepUnit>(i);
      if (ImGui::Selectable(std::string(name(unit)).c_str(), unit == unit_)) unit_ = unit;
    }
    ImGui::EndCombo();
  }
  ImGui::SameLine();
  ImGui::BeginDisabled(document.moment.follow);
  if (ImGui::Button("Follow (End)")) follow(document);
  ImGui::EndDisabled();
  if (document.moment.follow) return;
  const std::int64_t behind_ns = document.events->range().end_ns - document.moment.at_ns;
  const auto last = document.events->last_at(document.moment.at_ns);
  const std::string event =
      last ? fmt::format(" · after {} on rank {}", what(document.events->event(*last), document.info),
                         document.events->event(*last).rank)
           : std::string();
  wrapped(theme.changed(),
          fmt::format("The view is {} behind the newest event{}", format_duration_ns(behind_ns), event));
}

void ControlPanel::draw_waits(Document& document, const Theme& theme) {
  const RunState state = document.live->state();
  if (state != RunState::paused && document.live->slow_motion() <= 0) return;
  ImGui::Separator();
  ImGui::TextUnformatted("Who stands still");
  const std::vector<Wait> waits = document.live->waiting();
  if (waits.empty()) wrapped(theme.faint_text(), "Nobody yet: every rank computes.");
  for (int i = 0; i < std::min(static_cast<int>(waits.size()), most_waits); ++i) {
    const Wait& wait = waits[static_cast<std::size_t>(i)];
    ImGui::PushID(i);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x;
    const ImVec2 size = ImGui::CalcTextSize(wait.text.c_str(), nullptr, false, width);
    if (ImGui::InvisibleButton("wait", {width, size.y})) {
      Selection selection;
      selection.rank = wait.rank;
      if (wait.bucket) selection.bucket = wait.bucket;
      if (wait.held && wait.held->bucket >= 0) selection.bucket = wait.held->bucket;
      if (wait.held && wait.held->param >= 0) selection.param = wait.held->param;
      document.selection.set(selection);
    }
    const ImU32 colour = ImGui::IsItemHovered() ? theme.selected()
                         : wait.held            ? theme.text()
                                                : theme.exposed();
    ImGui::GetWindowDrawList()->AddText(nullptr, 0, at, colour, wait.text.c_str(), nullptr, width);
    ImGui::PopID();
  }
  if (static_cast<int>(waits.size()) > most_waits) {
    wrapped(theme.faint_text(), fmt::format("… and {} more", static_cast<int>(waits.size()) - most_waits));
  }
}

void ControlPanel::handle_keys(Document& document) {
  if (!input::letters_free()) return;
  if (document.events != nullptr) {
    const bool here = ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows);
    if (input::pressed(',', true) || (here && input::pressed(ImGuiKey_LeftArrow, true)))
      go_back(document, unit_);
    if (input::pressed('.', true) || (here && input::pressed(ImGuiKey_RightArrow, true)))
      go_forward(document, unit_);
    if (input::pressed(ImGuiKey_End)) follow(document);
  }
  if (document.live == nullptr || document.live->over()) return;
  LiveRun& live = *document.live;
  // With the keyboard's own cursor on a button, Space belongs to that button.
  if (input::pressed(ImGuiKey_Space) && !ImGui::GetIO().NavVisible) toggle(live);
  if (input::pressed('N', true)) live.step_event();
  if (input::pressed('B', true)) live.step_bucket();
  if (input::pressed('P', true)) live.step_phase();
  if (input::pressed('I', true)) live.step_iteration();
  if (input::pressed('R', true)) live.run_to_breakpoint();
  if (input::pressed('K')) breakpoints_.break_at_selection(document);
}

}  // namespace

std::unique_ptr<Panel> make_control_panel() {
  return std::make_unique<ControlPanel>();
}

}  // namespace zero1::viz
