// One element, from the gradient that it gets to the forward pass that uses it, on every rank.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "viz/model/bucket_states.h"
#include "viz/model/element_probe.h"
#include "viz/model/event_index.h"
#include "viz/model/event_words.h"
#include "viz/model/history.h"
#include "viz/model/live_run.h"
#include "viz/model/run_settings.h"
#include "viz/panels/draw.h"
#include "viz/panels/element_place_table.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

constexpr ImGuiTableFlags stage_table_flags = ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerV |
                                              ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_ScrollX |
                                              ImGuiTableFlags_ScrollY;

constexpr std::size_t most_columns = 64;

class ElementPanel final : public Panel {
 public:
  std::string_view title() const override { return "Element"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override {
    return "choose  a parameter and an index, or click an element on the map\n"
           "table  its value at every stage, a column for each rank, its owner's first; faint: stale\n"
           "< and >  the iteration before and after";
  }

 private:
  void follow_selection(Document& document);
  void draw_choice(Document& document);
  void draw_params(const Layout& layout);
  void draw_values(Document& document, const Theme& theme);
  void draw_steps(Document& document, int shown);
  void draw_table(const ElementTable& table, const Document& document, const Theme& theme) const;
  void draw_memory(Document& document, const Theme& theme) const;

  ElementRef chosen_;
  std::optional<ElementRef> shown_;
  int step_ = -1;  ///< -1: that of the moment
  std::uint64_t seen_revision_ = 0;
  const LiveRun* seen_live_ = nullptr;
  ImGuiTextFilter search_;
};

void faint_paragraph(const Theme& theme, const std::string& text) {
  ImGui::PushStyleColor(ImGuiCol_Text, theme.faint_text());
  ImGui::TextWrapped("%s", text.c_str());
  ImGui::PopStyleColor();
}

/// Parts beside each other, none of them broken.
void in_a_row(const Theme& theme, const std::vector<std::string>& parts) {
  ImGui::PushStyleColor(ImGuiCol_Text, theme.faint_text());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) same_line_for(text_size(parts[i]).x);
    ImGui::TextUnformatted(parts[i].c_str());
  }
  ImGui::PopStyleColor();
}

std::string row_label(const ElementTable::Row& row, const trace::RunInfo& info) {
  if (row.stage != Stage::accumulated) return std::string(name(row.stage));
  return fmt::format("accumulated · microbatch {}, {}", row.microbatch,
                     row.layer >= 0 ? layer_name(row.layer, info) : "its layer");
}

void ElementPanel::draw(Document& document, const Theme& theme) {
  if (document.layout == nullptr || document.layout->specs.empty()) {
    ImGui::TextWrapped("No layout is known, so no element has a place.");
    return;
  }
  follow_selection(document);
  draw_choice(document);
  if (!shown_) {
    faint_paragraph(theme, "Choose a parameter and an index, or click an element on the ownership map.");
    return;
  }
  draw_element_place(place_of(*document.layout, *shown_), *document.layout, theme,
                     shards_optimizer(document.info));
  ImGui::Separator();
  draw_values(document, theme);
}

/// The selection of an element anywhere is followed here; so is what a run follows from its start.
void ElementPanel::follow_selection(Document& document) {
  if (shown_ && static_cast<std::size_t>(shown_->param) >= document.layout->specs.size()) shown_.reset();
  if (document.live.get() != seen_live_) {
    seen_live_ = document.live.get();
    if (seen_live_ != nullptr && document.live->element().place()) {
      shown_ = chosen_ = document.live->element().place()->element;
    } else if (seen_live_ != nullptr && shown_) {
      document.live->element().follow(shown_);
    }
  }
  if (document.selection.revision == seen_revision_) return;
  seen_revision_ = document.selection.revision;
  if (!document.selection.param) return;
  const int param = *document.selection.param;
  if (static_cast<std::size_t>(param) >= document.layout->specs.size()) return;
  if (chosen_.param != param) chosen_ = {param, 0};
  if (!document.selection.element) return;
  const std::int64_t numel = document.layout->specs[static_cast<std::size_t>(param)].numel();
  if (*document.selection.element < 0 || *document.selection.element >= numel) return;
  chosen_.index = *document.selection.element;
  if (shown_ == chosen_) return;
  shown_ = chosen_;
  if (document.live != nullptr) document.live->element().follow(shown_);
}

void ElementPanel::draw_choice(Document& document) {
  const Layout& layout = *document.layout;
  chosen_.param = std::clamp(chosen_.param, 0, static_cast<int>(layout.specs.size()) - 1);
  const std::int64_t numel = layout.specs[static_cast<std::size_t>(chosen_.param)].numel();
  const float font = ImGui::GetFontSize();
  const float others_px = (8 + 5) * font;  // the index and the button
  ImGui::SetNextItemWidth(std::clamp(ImGui::GetContentRegionAvail().x - others_px, 6 * font, 15 * font));
  if (ImGui::BeginCombo("##param", layout.specs[static_cast<std::size_t>(chosen_.param)].name.c_str())) {
    search_.Draw("##search");
    draw_params(layout);
    ImGui::EndCombo();
  }
  ImGui::SameLine();
  ImGui::SetNextItemWidth(8 * font);
  const std::int64_t one = 1;
  ImGui::InputScalar("##index", ImGuiDataType_S64, &chosen_.index, &one);
  chosen_.index = std::clamp<std::int64_t>(chosen_.index, 0, std::max<std::int64_t>(0, numel - 1));
  ImGui::SameLine();
  ImGui::BeginDisabled(numel == 0);
  if (ImGui::Button("Follow")) {
    Selection selection = document.selection;
    selection.param = chosen_.param;
    selection.element = chosen_.index;
    selection.bucket = place_of(layout, chosen_).global_bucket;
    selection.event.reset();
    document.selection.set(selection);
  }
  ImGui::EndDisabled();
}

/// Names are data: whatever is in them, each row is one parameter.
void ElementPanel::draw_params(const Layout& layout) {
  std::vector<int> found;
  for (int p = 0; p < static_cast<int>(layout.specs.size()); ++p) {
    if (search_.PassFilter(layout.specs[static_cast<std::size_t>(p)].name.c_str())) found.push_back(p);
  }
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(found.size()));
  while (clipper.Step()) {
    for (int row = clipper.DisplayStart; row < clipper.DisplayEnd; ++row) {
      const int p = found[static_cast<std::size_t>(row)];
      const std::string label = fmt::format("{}###{}", layout.specs[static_cast<std::size_t>(p)].name, p);
      if (ImGui::Selectable(label.c_str(), p == chosen_.param)) chosen_ = {p, 0};
    }
  }
}

void ElementPanel::draw_values(Document& document, const Theme& theme) {
  if (document.live == nullptr) {
    faint_paragraph(theme, "Values come from a run in this process: a recording has events, but no tensors.");
    return;
  }
  if (!document.live->can_read()) {
    faint_paragraph(
        theme,
        "Values are not available on a GPU: they are read from the ranks' memory in stream order, which "
        "only the CPU's can be without stopping the device.");
    return;
  }
  const ElementProbe& probe = document.live->element();
  const ElementTable table = element_table(probe.samples(), document.info.ranks, shown_ns(document), step_);
  draw_steps(document, table.step);
  if (table.rows.empty()) {
    faint_paragraph(theme,
                    "Nothing seen yet: values are kept from the moment on at which an element is chosen.");
  } else {
    draw_table(table, document, theme);
  }
  draw_memory(document, theme);
}

void ElementPanel::draw_steps(Document& document, int shown) {
  ImGui::AlignTextToFramePadding();
  ImGui::Text("Iteration %d", shown);
  ImGui::SameLine();
  if (ImGui::Button("<##step") && shown > 1) step_ = shown - 1;
  ImGui::SameLine(0, 2);
  if (ImGui::Button(">##step")) step_ = shown + 1;
  ImGui::SameLine();
  ImGui::BeginDisabled(step_ < 0);
  if (ImGui::Button("Latest")) step_ = -1;
  ImGui::EndDisabled();
  if (document.selection.step && ImGui::GetContentRegionAvail().x > 0) {
    ImGui::SameLine();
    if (ImGui::Button("Selected")) step_ = *document.selection.step;
  }
}

void ElementPanel::draw_table(const ElementTable& table, const Document& document, const Theme& theme) const {
  const int ranks = document.info.ranks;
  const bool sharded = shards_optimizer(document.info);
  const int owner = sharded ? place_of(*document.layout, *shown_).owner : -1;
  // The owner's come first: only it has all of them. ImGui's tables end at 64 columns.
  std::vector<int> shown_ranks;
  if (owner >= 0) shown_ranks.push_back(owner);
  for (int rank = 0; rank < ranks && shown_ranks.size() < most_columns - 1; ++rank) {
    if (rank != owner) shown_ranks.push_back(rank);
  }
  // Of gradients it is told what they are, a line each; beside each other two parameters fit into one.
  const float memory_px =
      (2.5F + 1.5F * static_cast<float>(std::min(ranks, 8))) * ImGui::GetTextLineHeightWithSpacing();
  const float height =
      std::max(6 * ImGui::GetTextLineHeightWithSpacing(), ImGui::GetContentRegionAvail().y - memory_px);
  if (!ImGui::BeginTable("values", static_cast<int>(shown_ranks.size()) + 1, stage_table_flags, {0, height}))
    return;
  ImGui::TableSetupScrollFreeze(1, 1);
  ImGui::TableSetupColumn("stage");
  for (const int rank : shown_ranks)
    ImGui::TableSetupColumn(fmt::format("rank {}{}", rank, rank == owner ? " (owner)" : "").c_str());
  ImGui::TableHeadersRow();
  for (const ElementTable::Row& row : table.rows) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(row_label(row, document.info).c_str());
    for (const int rank : shown_ranks) {
      ImGui::TableNextColumn();
      const auto& cell = row.cells[static_cast<std::size_t>(rank)];
      if (!cell) continue;
      const ImU32 colour = cell->stale ? theme.faint_text() : cell->newest ? theme.changed() : theme.text();
      ImGui::PushStyleColor(ImGuiCol_Text, colour);
      ImGui::Text("%s", fmt::format("{:.9g}{}", cell->value, cell->stale ? " stale" : "").c_str());
      ImGui::PopStyleColor();
    }
  }
  ImGui::EndTable();
}

/// What lies in the ranks' buffers now, where they stand still: also of what nothing has passed yet.
void ElementPanel::draw_memory(Document& document, const Theme& theme) const {
  if (document.live->state() != RunState::paused) return;
  const ElementPlace place = place_of(*document.layout, *shown_);
  faint_paragraph(theme, "gradient buffers now:");
  std::vector<std::string> params{"parameter buffers now:"};
  for (int rank = 0; rank < document.info.ranks; ++rank) {
    std::string grad = "…";
    std::string param = "…";
    document.live->read(rank, [&](RankTrainer& trainer) {
      const ParamAndGradBuffer& buffer =
          *trainer.data_parallel().buffers()[static_cast<std::size_t>(place.buffer)];
      grad = fmt::format("{:.9g}", element_value(buffer.grad_data(), place.in_world));
      param = fmt::format("{:.9g}", element_value(buffer.param_data(), place.in_world));
    });
    const std::string holds = gradient_content(*document.events, rank, place.global_bucket,
                                               rank == place.owner, document.events->range().end_ns);
    faint_paragraph(theme, fmt::format("rank {}: {}{}{}", rank, grad, holds.empty() ? "" : " ", holds));
    params.push_back(fmt::format("rank {}: {}", rank, param));
  }
  in_a_row(theme, params);
}

}  // namespace

std::unique_ptr<Panel> make_element_panel() {
  return std::make_unique<ElementPanel>();
}

}  // namespace zero1::viz
