#include "viz/panels/timeline_details.h"

#include <fmt/format.h>

#include "core/base/units.h"
#include "viz/model/event_fields.h"
#include "viz/model/event_words.h"
#include "viz/panels/draw.h"

namespace zero1::viz {

namespace {

void cell(const std::string& value) {
  ImGui::TableNextColumn();
  plain_text(value);
}

constexpr ImGuiTableFlags detail_table_flags = ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_RowBg |
                                               ImGuiTableFlags_ScrollY | ImGuiTableFlags_BordersInnerV;

void header(std::initializer_list<const char*> columns) {
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* column : columns) ImGui::TableSetupColumn(column);
  ImGui::TableHeadersRow();
}

}  // namespace

void show_event_tooltip(const Document& document, const Theme& theme, EventId id) {
  const trace::Event event = document.events->event(id);
  ImGui::BeginTooltip();
  plain_text(what(event, document.info));
  if (ImGui::BeginTable("fields", 2, ImGuiTableFlags_SizingFixedFit)) {
    for (const auto& [name, value] : event_fields(event, document.info)) {
      ImGui::TableNextColumn();
      faint_text(theme.faint_text(), name);
      cell(value);
    }
    ImGui::EndTable();
  }
  ImGui::EndTooltip();
}

void show_merged_tooltip(const Document& document, const Theme& theme, const TimelineBar& bar) {
  ImGui::BeginTooltip();
  plain_text(fmt::format(
      "{} events in {}", format_count(bar.count),
      format_duration_ns(duration_ns({.begin_ns = bar.look.begin_ns, .end_ns = bar.look.end_ns}))));
  std::string mostly = what_happened(bar.look.kind, bar.look.detail);
  if (bar.look.bucket >= 0) mostly += fmt::format(" of bucket {}", bar.look.bucket);
  faint_text(theme.faint_text(), "mostly " + mostly);
  if (bar.look.exposed) plain_text("with exposed communication");
  if (bar.look.modelled) faint_text(theme.faint_text(), "durations include a modelled link");
  faint_text(theme.faint_text(), "zoom in to see them one by one");
  (void)document;
  ImGui::EndTooltip();
}

void show_step_tooltip(const EventIndex::Step& step, bool prepares) {
  ImGui::BeginTooltip();
  plain_text(fmt::format("step {}", step.step));
  plain_text(format_duration_ns(duration_ns({.begin_ns = step.when.start_ns, .end_ns = step.when.end_ns})));
  plain_text(fmt::format("{} {} ended", step.ranks, step.ranks == 1 ? "rank has" : "ranks have"));
  if (prepares) plain_text("the first one: it also prepares matrix products and memory, once");
  ImGui::EndTooltip();
}

void show_statistics(const RangeStatistics& statistics, const Theme& theme) {
  const trace::Interval range = statistics.range();
  plain_text(fmt::format("Measured {}, from {:.6f} to {:.6f} ms",
                         format_duration_ns(range.end_ns - range.start_ns),
                         static_cast<double>(range.start_ns) / 1e6, static_cast<double>(range.end_ns) / 1e6));
  if (!statistics.complete()) {
    ImGui::SameLine();
    faint_text(theme.faint_text(), fmt::format("counting, {:.0f}%", 100 * statistics.progress()));
  }
  const float half = ImGui::GetContentRegionAvail().x * 0.55F;
  const float height = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginTable("kinds", 4, detail_table_flags, {half, height})) {
    header({"what", "count", "sum in the range", "mean"});
    for (const auto& [key, figures] : statistics.kinds()) {
      ImGui::TableNextRow();
      cell(what_happened(key.first, key.second));
      cell(format_count(figures.count));
      cell(figures.sum_ns == 0 ? "" : format_duration_ns(figures.sum_ns));
      cell(figures.sum_ns == 0 ? "" : format_duration_ns(TimeView::to_ns(figures.mean_ns())));
    }
    ImGui::EndTable();
  }
  ImGui::SameLine();
  if (ImGui::BeginTable("ranks", 5, detail_table_flags, {0, height})) {
    header({"rank", "communication", "overlapped", "exposed", "overlap"});
    for (const auto& [rank, figures] : statistics.ranks()) {
      ImGui::TableNextRow();
      cell(std::to_string(rank));
      cell(format_duration_ns(figures.comm_ns));
      cell(format_duration_ns(figures.overlapped_ns));
      ImGui::TableNextColumn();
      if (figures.exposed_ns > 0) ImGui::PushStyleColor(ImGuiCol_Text, theme.exposed());
      plain_text(format_duration_ns(figures.exposed_ns));
      if (figures.exposed_ns > 0) ImGui::PopStyleColor();
      cell(fmt::format("{:.1f}%", 100 * figures.overlap()));
    }
    ImGui::EndTable();
  }
}

}  // namespace zero1::viz
