#include "viz/panels/breakpoint_list.h"

#include <imgui.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "viz/model/event_index.h"
#include "viz/model/event_words.h"
#include "viz/model/live_run.h"
#include "viz/panels/draw.h"

namespace zero1::viz {

namespace {

using trace::Kind;

/// The kinds at which a run can be stopped, in the order of an iteration.
constexpr std::array kinds{Kind::step,
                           Kind::data,
                           Kind::microbatch,
                           Kind::forward,
                           Kind::backward,
                           Kind::grad_ready,
                           Kind::bucket_state,
                           Kind::check_gradients,
                           Kind::scale_gradients,
                           Kind::collective_issue,
                           Kind::collective_run,
                           Kind::collective_wait,
                           Kind::copy_grads,
                           Kind::grad_norm,
                           Kind::clip,
                           Kind::adamw,
                           Kind::evaluation,
                           Kind::memory};

std::optional<trace::Breakpoint> at_selection(const Document& document) {
  if (document.selection.event && document.events != nullptr &&
      *document.selection.event < document.events->size())
    return breakpoint_at(document.events->event(*document.selection.event));
  return breakpoint_at(document.selection);
}

std::optional<int> chosen(int value) {
  return value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

void add_breakpoint(Document& document, const trace::Breakpoint& where) {
  Breakpoints breakpoints = document.live->breakpoints();
  breakpoints.add(where);
  document.live->set_breakpoints(std::move(breakpoints));
}

void BreakpointList::break_at_selection(Document& document) const {
  if (const auto where = at_selection(document)) add_breakpoint(document, *where);
}

void BreakpointList::draw(Document& document, const Theme& theme) {
  LiveRun& live = *document.live;
  ImGui::Separator();
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("Breakpoints");
  ImGui::SameLine();
  const auto here = at_selection(document);
  ImGui::BeginDisabled(!here);
  if (ImGui::Button("Break here (K)")) break_at_selection(document);
  ImGui::EndDisabled();
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) {
    ImGui::SetTooltip("%s", here ? describe(*here, document.info).c_str()
                                 : "Select an event, a bucket or a parameter first");
  }
  ImGui::SameLine();
  if (ImGui::Button("Add …")) ImGui::OpenPopup("new breakpoint");
  draw_new(document);

  Breakpoints breakpoints = live.breakpoints();
  bool edited = false;
  std::optional<std::size_t> removed;
  for (std::size_t i = 0; i < breakpoints.entries().size(); ++i) {
    const BreakpointEntry& entry = breakpoints.entries()[i];
    ImGui::PushID(static_cast<int>(i));
    bool enabled = entry.enabled;
    if (ImGui::Checkbox("##on", &enabled)) {
      breakpoints.enable(i, enabled);
      edited = true;
    }
    ImGui::SameLine();
    if (ImGui::Button("x")) removed = i;
    ImGui::SameLine();
    ImGui::PushStyleColor(ImGuiCol_Text, enabled ? theme.text() : theme.faint_text());
    ImGui::TextWrapped("%s", describe(breakpoints.entries()[i].where, document.info).c_str());
    ImGui::PopStyleColor();
    ImGui::PopID();
  }
  if (removed) breakpoints.remove(*removed);
  if (edited || removed) live.set_breakpoints(std::move(breakpoints));
}

void BreakpointList::draw_new(Document& document) {
  if (!ImGui::BeginPopup("new breakpoint")) return;
  const std::string kind =
      kind_ < 0 ? "any event" : std::string(name(kinds[static_cast<std::size_t>(kind_)]));
  ImGui::SetNextItemWidth(12 * ImGui::GetFontSize());
  if (ImGui::BeginCombo("kind", kind.c_str())) {
    if (ImGui::Selectable("any event", kind_ < 0)) kind_ = -1;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (ImGui::Selectable(std::string(name(kinds[i])).c_str(), kind_ == index)) kind_ = index;
    }
    ImGui::EndCombo();
  }
  number_or_any("rank", rank_, document.info.ranks - 1);
  number_or_any("bucket", bucket_, static_cast<int>(document.info.buckets.size()) - 1);
  number_or_any("parameter", param_, static_cast<int>(document.info.params.size()) - 1);
  number_or_any("iteration", step_, INT32_MAX);
  trace::Breakpoint where;
  if (kind_ >= 0) where.kind = kinds[static_cast<std::size_t>(kind_)];
  where.rank = chosen(rank_);
  where.bucket = chosen(bucket_);
  where.param = chosen(param_);
  where.step = chosen(step_);
  ImGui::TextUnformatted(describe(where, document.info).c_str());
  if (ImGui::Button("Add")) {
    add_breakpoint(document, where);
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
}

}  // namespace zero1::viz
