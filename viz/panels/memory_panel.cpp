// Memory per rank beside what plain data parallelism would hold.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/units.h"
#include "viz/model/memory_plan.h"
#include "viz/model/run_settings.h"
#include "viz/panels/draw.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

constexpr int most_bars = 16;
constexpr std::array<const char*, 4> category_names{"parameters", "gradients", "optimizer", "activations"};

std::array<std::int64_t, 4> parts(const MemoryReport& report) {
  return {report.parameters, report.gradients, report.optimizer, report.activations};
}

std::int64_t total(const MemoryReport& report) {
  return report.parameters + report.gradients + report.optimizer + report.activations;
}

ImU32 part_colour(std::size_t part, const Theme& theme) {
  const std::array<trace::Kind, 3> like{trace::Kind::forward, trace::Kind::backward, trace::Kind::adamw};
  return part < like.size() ? theme.kind(like[part]) : theme.kind(trace::Kind::data);
}

class MemoryPanel final : public Panel {
 public:
  std::string_view title() const override { return "Memory"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override {
    return "bars  what each rank holds at the moment that is shown, below plain data parallelism\n"
           "click  select the rank";
  }

 private:
  struct Bar {
    std::string label;
    MemoryReport report;
    int rank = -1;
  };
  void collect(const Document& document);
  void draw_legend(const Theme& theme) const;
  void draw_bar(Document& document, const Theme& theme, const Bar& bar, float label_px, std::int64_t full);

  std::vector<Bar> bars_;
  std::size_t known_kinds_ = category_names.size();  ///< activations, the last, are known only from a run
  std::string note_;
};

void MemoryPanel::collect(const Document& document) {
  bars_.clear();
  note_.clear();
  const int ranks = document.events == nullptr ? 0 : document.info.ranks;
  // Of many ranks those around the selected one.
  const int middle = document.selection.rank.value_or(0);
  const int first = std::clamp(middle - most_bars / 2, 0, std::max(0, ranks - most_bars));
  for (int rank = first; rank < std::min(ranks, first + most_bars); ++rank) {
    const auto report = memory_at(*document.events, rank, document.moment.at_ns);
    if (!report) break;
    bars_.push_back({fmt::format("rank {}", rank), *report, rank});
  }
  known_kinds_ = bars_.empty() ? category_names.size() - 1 : category_names.size();
  if (ranks > most_bars) note_ = fmt::format("{} of {} ranks; select another to see it.\n", most_bars, ranks);
  if (document.layout == nullptr) return;
  MemoryReport plain = states_of_rank(*document.layout, false);
  if (!bars_.empty()) {
    plain.activations = bars_.front().report.activations;
  } else {
    bars_.push_back({"ZeRO-1, a rank", states_of_rank(*document.layout, true), -1});
    note_ = "Counted from the layout, without activations: they depend on the batch.";
    if (document.events != nullptr) note_ = "No memory has been recorded yet. " + note_;
  }
  // On top: it stays beside the ranks, however many there are.
  bars_.insert(bars_.begin(), {"plain data parallel", plain, -1});
}

void MemoryPanel::draw(Document& document, const Theme& theme) {
  collect(document);
  if (bars_.empty()) {
    ImGui::TextWrapped("Nothing is known of memory: neither events nor a layout.");
    return;
  }
  draw_legend(theme);
  std::int64_t full = 1;
  float label_px = 0;
  for (const Bar& bar : bars_) {
    full = std::max(full, total(bar.report));
    label_px = std::max(label_px, text_size(bar.label).x);
  }
  for (const Bar& bar : bars_) draw_bar(document, theme, bar, label_px, full);
  const std::int64_t plain = total(bars_.front().report);
  const std::int64_t here = total(bars_.back().report);
  if (bars_.size() > 1 && plain > 0) {
    const double percent = 100 * static_cast<double>(here) / static_cast<double>(plain);
    const std::string told =
        shards_optimizer(document.info)
            ? fmt::format(
                  "{} a rank instead of {}: {:.0f}% of it. ZeRO-1 shares out what the optimizer "
                  "holds; parameters and gradients stay whole.",
                  format_bytes(here), format_bytes(plain), percent)
            : "This run is plain data parallel: every rank holds all that the optimizer holds.";
    ImGui::TextWrapped("%s", told.c_str());
  }
  if (!note_.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, theme.faint_text());
    ImGui::TextWrapped("%s", note_.c_str());
    ImGui::PopStyleColor();
  }
}

void MemoryPanel::draw_legend(const Theme& theme) const {
  const float font = ImGui::GetFontSize();
  for (std::size_t i = 0; i < known_kinds_; ++i) {
    const float width = 1.2F * font + text_size(category_names[i]).x;
    if (i > 0) ImGui::SameLine(0, font);
    if (i > 0 && ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImDrawList& list = *ImGui::GetWindowDrawList();
    list.AddRectFilled(at, {at.x + 0.9F * font, at.y + 0.9F * font}, part_colour(i, theme));
    draw_text(list, {at.x + 1.2F * font, at.y}, theme.text(), category_names[i]);
    ImGui::Dummy({width, font});
  }
}

void MemoryPanel::draw_bar(Document& document, const Theme& theme, const Bar& bar, float label_px,
                           std::int64_t full) {
  const float font = ImGui::GetFontSize();
  const float height = 1.5F * font;
  const std::string sum = format_bytes(total(bar.report));
  const float sum_px = text_size("999.99 MiB").x;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = std::max(ImGui::GetContentRegionAvail().x, 4 * font);
  ImGui::PushID(bar.label.c_str());
  const bool clicked = ImGui::InvisibleButton("bar", {width, height});
  ImGui::PopID();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float text_y = at.y + (height - font) / 2;
  const bool chosen = bar.rank >= 0 && document.selection.rank == bar.rank;
  draw_text(list, {at.x, text_y}, chosen ? theme.selected() : theme.text(), bar.label);
  const float left = at.x + label_px + 0.6F * font;
  const float room = std::max(at.x + width - sum_px - 0.6F * font - left, font);
  float x = left;
  const auto bytes = parts(bar.report);
  for (std::size_t i = 0; i < known_kinds_; ++i) {
    const float part_px =
        room * static_cast<float>(static_cast<double>(bytes[i]) / static_cast<double>(full));
    const Box box{{x, at.y + 1}, {x + part_px, at.y + height - 1}};
    const ImU32 colour = part_colour(i, theme);
    list.AddRectFilled(box.min, box.max, colour);
    draw_label(list, box, Theme::text_on(colour), format_bytes(bytes[i]));
    x = box.max.x;
  }
  draw_text(list, {x + 0.5F * font, text_y}, theme.text(), sum);
  if (chosen) list.AddRect({left, at.y}, {x, at.y + height}, theme.selected(), 0, 0, 2);
  if (clicked && bar.rank >= 0) {
    Selection next = document.selection;
    next.rank = bar.rank;
    document.selection.set(next);
  }
  if (!ImGui::IsItemHovered()) return;
  std::string told = bar.label;
  for (std::size_t i = 0; i < known_kinds_; ++i)
    told += fmt::format("\n{}: {}", category_names[i], format_bytes(bytes[i]));
  ImGui::SetTooltip("%s", told.c_str());
}

}  // namespace

std::unique_ptr<Panel> make_memory_panel() {
  return std::make_unique<MemoryPanel>();
}

}  // namespace zero1::viz
