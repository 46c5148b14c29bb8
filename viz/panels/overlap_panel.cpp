// Overlap and exposed time by iteration and bucket, and why it was exposed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/base/clock.h"
#include "core/base/units.h"
#include "viz/model/event_index.h"
#include "viz/model/exposure_reasons.h"
#include "viz/model/history.h"
#include "viz/panels/draw.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

constexpr std::size_t most_kept_steps = 4096;
constexpr double explaining_ms = 4;  // per frame, one step at least
constexpr const char* overlap_means =
    "the share of the time in communication during which the same rank computes";
constexpr const char* exposed_means =
    "time in which computing waits for communication; with the overlapped time it does not add up to that of "
    "communication: a rank may neither compute nor wait, or wait before its collective begins";
constexpr ImGuiTableFlags bucket_table_flags =
    ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_BordersInnerV;

class OverlapPanel final : public Panel {
 public:
  std::string_view title() const override { return "Overlap"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override {
    return "bars  communication of each iteration, the exposed part in its own colour; click one\n"
           "rows  a bucket each: how much was exposed, and why; hover for the reason, click to select\n"
           "overlap  the share of the time in communication during which the same rank computes\n"
           "exposed  time in which computing waits. The two do not add up to the communication's time: a "
           "rank "
           "may neither compute nor wait, or wait before its collective begins";
  }
  bool unfinished() const override { return unfinished_frame_; }

 private:
  bool may_explain();
  const StepExposure* explained(const EventIndex& events, const EventIndex::Step& step);
  const EventIndex::Step* shown_step(const Document& document) const;
  void draw_bars(Document& document, const Theme& theme, int shown);
  void draw_summary(const StepExposure& step, const Theme& theme) const;
  void draw_buckets(Document& document, const StepExposure& step, const Theme& theme) const;
  void draw_bucket(Document& document, const StepExposure& step, int bucket,
                   const trace::CommFigures& figures, const Theme& theme) const;
  void draw_waits(Document& document, const StepExposure& step, const Theme& theme) const;

  const EventIndex* events_ = nullptr;
  OverlapFlags flags_;
  std::map<int, StepExposure> steps_;  ///< of steps that every rank has ended
  StepExposure unfinished_;            ///< the one that is shown, where it is none of them
  std::uint64_t unfinished_revision_ = 0;
  std::int64_t explain_until_ns_ = 0;
  bool explained_any_ = false, unfinished_frame_ = false;  ///< in this frame
};

/// Is there time left in this frame? One step is explained in each. Whatever is, the next frame shows it
/// better.
bool OverlapPanel::may_explain() {
  unfinished_frame_ = true;
  return !std::exchange(explained_any_, true) || now_ns() < explain_until_ns_;
}

/// A step that has not ended everywhere may be explained anew whenever more is known.
const StepExposure* OverlapPanel::explained(const EventIndex& events, const EventIndex::Step& step) {
  const auto found = steps_.find(step.step);
  if (found != steps_.end()) return &found->second;
  const bool ended = step.ranks >= events.ranks();
  if (!ended) {
    if (unfinished_.step == step.step && unfinished_revision_ == events.revision()) return &unfinished_;
    if (!may_explain()) return unfinished_.step == step.step ? &unfinished_ : nullptr;
    unfinished_ = explain_step(events, step.step, flags_);
    unfinished_revision_ = events.revision();
    return &unfinished_;
  }
  if (!may_explain()) return nullptr;
  if (steps_.size() >= most_kept_steps) steps_.erase(steps_.begin());
  return &(steps_[step.step] = explain_step(events, step.step, flags_));
}

/// The selected one; else the last that has ended everywhere by the moment that is shown.
const EventIndex::Step* OverlapPanel::shown_step(const Document& document) const {
  const EventIndex& events = *document.events;
  if (document.selection.step) {
    const EventIndex::Step* selected = events.find_step(*document.selection.step);
    if (selected != nullptr) return selected;
  }
  const EventIndex::Step* last = nullptr;
  const std::int64_t at_ns = shown_ns(document);
  const auto steps = events.steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (step->ranks < events.ranks() || step->when.end_ns > at_ns) continue;
    last = &*step;
    break;
  }
  return last;
}

void OverlapPanel::draw(Document& document, const Theme& theme) {
  if (document.events == nullptr) {
    ImGui::TextWrapped("No run and no recording: nothing has been communicated.");
    return;
  }
  if (document.events.get() != events_) {
    events_ = document.events.get();
    flags_ = overlap_flags(document.info);
    steps_.clear();
    unfinished_ = {};
  }
  explain_until_ns_ = now_ns() + static_cast<std::int64_t>(explaining_ms * 1e6);
  explained_any_ = unfinished_frame_ = false;
  const EventIndex::Step* step = shown_step(document);
  if (step == nullptr) {
    ImGui::TextWrapped("No iteration has ended yet.");
    return;
  }
  const StepExposure* exposure = explained(*document.events, *step);
  draw_bars(document, theme, step->step);
  if (exposure == nullptr) return;
  draw_summary(*exposure, theme);
  draw_buckets(document, *exposure, theme);
  draw_waits(document, *exposure, theme);
}

void OverlapPanel::draw_bars(Document& document, const Theme& theme, int shown) {
  const auto steps = document.events->steps();
  const float font = ImGui::GetFontSize();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size{std::max(4 * font, ImGui::GetContentRegionAvail().x), 4 * font};
  const float bar_px = std::floor(0.7F * font);
  const auto room = static_cast<std::size_t>(size.x / bar_px);
  // The bars end with the newest step, or a little after the shown one where that lies further back.
  std::size_t end = steps.size();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].step == shown)
      end = std::clamp(i + room / 2 + 1, std::min(room, steps.size()), steps.size());
  }
  const std::size_t begin = end > room ? end - room : 0;
  const bool clicked = ImGui::InvisibleButton("bars", size);
  const bool hovered = ImGui::IsItemHovered();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, theme.grid());
  double tallest = 1e-6;
  for (std::size_t i = begin; i < end; ++i) {
    const auto known = steps_.find(steps[i].step);
    if (known != steps_.end()) tallest = std::max(tallest, known->second.report.figures.mean.comm_ms);
  }
  for (std::size_t i = begin; i < end; ++i) {
    const StepExposure* step = explained(*document.events, steps[i]);
    const float left = at.x + static_cast<float>(i - begin) * bar_px;
    const bool under_mouse =
        hovered && ImGui::GetIO().MousePos.x >= left && ImGui::GetIO().MousePos.x < left + bar_px;
    if (under_mouse && clicked) {
      Selection selection = document.selection;
      selection.step = steps[i].step;
      document.selection.set(selection);
    }
    if (step == nullptr) continue;
    const trace::StepFigures::Values& mean = step->report.figures.mean;
    const auto height = [&](double value) {
      return size.y * static_cast<float>(std::min(1.0, value / tallest));
    };
    const float bottom = at.y + size.y;
    const float right = left + bar_px - 1;
    list.AddRectFilled({left, bottom - height(mean.comm_ms)}, {right, bottom},
                       theme.kind(trace::Kind::collective_run));
    list.AddRectFilled({left, bottom - height(mean.exposed_comm_ms)}, {right, bottom}, theme.exposed());
    if (steps[i].step == shown) list.AddRect({left, at.y}, {right, bottom}, theme.selected());
    if (under_mouse) {
      ImGui::SetTooltip("iteration %d: %.3f ms of communication, %.3f ms exposed", steps[i].step,
                        mean.comm_ms, mean.exposed_comm_ms);
    }
  }
}

/// A line for each that has a share, per rank.
std::string reasons(const ExposureShares& shares, int ranks) {
  std::string text;
  for (int i = 0; i < exposure_reason_count; ++i) {
    const std::int64_t ns = shares.ns[static_cast<std::size_t>(i)] / std::max(1, ranks);
    if (ns > 0) text += fmt::format("\n{}: {}", name(static_cast<ExposureReason>(i)), format_duration_ns(ns));
  }
  return text;
}

void OverlapPanel::draw_summary(const StepExposure& step, const Theme& theme) const {
  const trace::StepFigures::Values& mean = step.report.figures.mean;
  const int ranks = step.report.figures.ranks;
  const std::string whose = ranks == 1 ? "" : fmt::format(", all figures per rank, means of {}", ranks);
  ImGui::TextWrapped(
      "%s", fmt::format("Iteration {}{}: {:.3f} ms, {:.3f} ms of communication, {:.3f} ms "
                        "exposed, {:.0f}% overlapped",
                        step.step, whose, mean.ms, mean.comm_ms, mean.exposed_comm_ms, 100 * mean.overlap)
                .c_str());
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("overlap: %s\nexposed: %s", overlap_means, exposed_means);
  const ExposureReason reason = step.all.largest();
  if (step.waits.empty()) return;
  const auto widest =
      std::max_element(step.waits.begin(), step.waits.end(),
                       [&](const auto& a, const auto& b) { return a.share_ns(reason) < b.share_ns(reason); });
  ImGui::PushStyleColor(ImGuiCol_Text, theme.exposed());
  ImGui::TextWrapped("Most of it, %s: %s. %s",
                     format_duration_ns(step.all[reason] / std::max(1, ranks)).c_str(),
                     std::string(name(reason)).c_str(), explain(reason, widest->collective).c_str());
  ImGui::PopStyleColor();
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Exposed%s", reasons(step.all, ranks).c_str());
}

/// As tall as its rows, but not so tall that the waits below have no room.
void OverlapPanel::draw_buckets(Document& document, const StepExposure& step, const Theme& theme) const {
  const auto& buckets = step.report.buckets;
  const float row_px = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const float all_px = row_px * (static_cast<float>(buckets.size()) + 1.2F);
  const float height = std::min(all_px, std::max(5 * row_px, ImGui::GetContentRegionAvail().y * 0.6F));
  if (!ImGui::BeginTable("buckets", 5, bucket_table_flags | ImGuiTableFlags_ScrollY, {0, height})) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  constexpr std::array<std::pair<const char*, const char*>, 5> headings{
      {{"bucket", nullptr},
       {"communication", nullptr},
       {"exposed", exposed_means},
       {"overlap", overlap_means},
       {"why", "the reason for the largest part of the exposed time"}}};
  for (const auto& [heading, meaning] : headings) ImGui::TableSetupColumn(heading);
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  for (const auto& [heading, meaning] : headings) {
    ImGui::TableNextColumn();
    ImGui::TableHeader(heading);
    if (meaning != nullptr && ImGui::IsItemHovered()) ImGui::SetTooltip("%s: %s", heading, meaning);
  }
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(buckets.size()));
  while (clipper.Step()) {
    auto row = std::next(buckets.begin(), clipper.DisplayStart);
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i, ++row)
      draw_bucket(document, step, row->first, row->second, theme);
  }
  ImGui::EndTable();
}

void OverlapPanel::draw_bucket(Document& document, const StepExposure& step, int bucket,
                               const trace::CommFigures& figures, const Theme& theme) const {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  // A bucket's colour is made for areas: letters in it need more contrast.
  ImGui::PushStyleColor(ImGuiCol_Text, mixed(theme.bucket(bucket), theme.text(), theme.dark ? 0.2F : 0.45F));
  const std::string label = bucket < 0 ? "none" : fmt::format("{}", bucket);
  if (ImGui::Selectable(label.c_str(), document.selection.bucket == bucket,
                        ImGuiSelectableFlags_SpanAllColumns)) {
    Selection selection;
    if (bucket >= 0) selection.bucket = bucket;
    selection.step = step.step;
    document.selection.set(selection);
  }
  ImGui::PopStyleColor();
  const auto shares = step.buckets.find(bucket);
  const int ranks = std::max(1, step.report.figures.ranks);
  if (ImGui::IsItemHovered() && shares != step.buckets.end()) {
    ImGui::SetTooltip("Exposed%s", reasons(shares->second, ranks).c_str());
  }
  for (const std::string& figure :
       {format_duration_ns(figures.comm_ns / ranks), format_duration_ns(figures.exposed_ns / ranks),
        fmt::format("{:.0f}%", 100 * figures.overlap())}) {
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(figure.c_str());
  }
  ImGui::TableNextColumn();
  if (figures.exposed_ns > 0 && shares != step.buckets.end())
    ImGui::TextUnformatted(std::string(name(shares->second.largest())).c_str());
}

void OverlapPanel::draw_waits(Document& document, const StepExposure& step, const Theme& theme) const {
  if (step.waits.empty()) {
    ImGui::TextWrapped("Nothing was exposed.");
    return;
  }
  // Narrow, it leaves out what the tooltip tells too.
  const bool parts = ImGui::GetContentRegionAvail().x > 34 * ImGui::GetFontSize();
  if (!ImGui::BeginTable(parts ? "waits" : "short waits", parts ? 6 : 4,
                         bucket_table_flags | ImGuiTableFlags_ScrollY))
    return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* heading : {"rank", "wait, bucket", "exposed"}) ImGui::TableSetupColumn(heading);
  if (parts) {
    for (const char* heading : {"in line", "for peers"}) ImGui::TableSetupColumn(heading);
  }
  ImGui::TableSetupColumn("why");
  ImGui::TableHeadersRow();
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(step.waits.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const ExposedWait& wait = step.waits[static_cast<std::size_t>(i)];
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      ImGui::PushID(i);
      const Selection& selected = document.selection;
      const bool chosen = selected.rank == wait.rank && selected.bucket.value_or(wait.bucket) == wait.bucket;
      if (ImGui::Selectable(fmt::format("{}", wait.rank).c_str(), chosen,
                            ImGuiSelectableFlags_SpanAllColumns)) {
        Selection selection;
        selection.rank = wait.rank;
        if (wait.bucket >= 0) selection.bucket = wait.bucket;
        selection.step = step.step;
        document.selection.set(selection);
      }
      ImGui::PopID();
      if (ImGui::IsItemHovered()) {
        const std::string reason = explain(wait.reason, wait.collective);
        ImGui::SetTooltip("%s\n%s in line, %s for peers", reason.c_str(),
                          format_duration_ns(wait.queueing_ns).c_str(),
                          format_duration_ns(wait.peers_ns).c_str());
      }
      ImGui::TableNextColumn();
      ImGui::Text("%s, %d", std::string(name(wait.collective)).c_str(), wait.bucket);
      ImGui::TableNextColumn();
      ImGui::PushStyleColor(ImGuiCol_Text, theme.exposed());
      ImGui::TextUnformatted(format_duration_ns(wait.when.end_ns - wait.when.start_ns).c_str());
      ImGui::PopStyleColor();
      if (parts) {
        for (const std::int64_t ns : {wait.queueing_ns, wait.peers_ns}) {
          ImGui::TableNextColumn();
          ImGui::TextUnformatted(format_duration_ns(ns).c_str());
        }
      }
      ImGui::TableNextColumn();
      std::string why(name(wait.reason));
      if (wait.reason == ExposureReason::slow_peer && wait.slowest_rank >= 0)
        why += fmt::format(" (rank {})", wait.slowest_rank);
      ImGui::TextUnformatted(why.c_str());
    }
  }
  ImGui::EndTable();
}

}  // namespace

std::unique_ptr<Panel> make_overlap_panel() {
  return std::make_unique<OverlapPanel>();
}

}  // namespace zero1::viz
