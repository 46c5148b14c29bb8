#include "viz/panels/element_place_table.h"

#include <fmt/format.h>
#include <imgui.h>

#include "core/base/units.h"

namespace zero1::viz {

namespace {

void row(const Theme& theme, const char* label, const std::string& value) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::PushStyleColor(ImGuiCol_Text, theme.faint_text());
  ImGui::TextUnformatted(label);
  ImGui::PopStyleColor();
  ImGui::TableNextColumn();
  ImGui::TextWrapped("%s", value.c_str());
}

}  // namespace

void draw_element_place(const ElementPlace& place, const Layout& layout, const Theme& theme, bool sharded) {
  const BufferLayout& buffer = layout.buffers[static_cast<std::size_t>(place.buffer)];
  if (!ImGui::BeginTable("place", 2, ImGuiTableFlags_SizingFixedFit)) return;
  ImGui::TableSetupColumn("what");
  ImGui::TableSetupColumn("where", ImGuiTableColumnFlags_WidthStretch);
  row(theme, "element", element_name(layout, place.element));
  row(theme, "world",
      fmt::format("{} of {} in buffer {}", format_count(place.in_world), format_count(buffer.numel),
                  place.buffer));
  row(theme, "bucket",
      fmt::format("{} of {} in bucket {}", format_count(place.in_bucket),
                  format_count(buffer.buckets[static_cast<std::size_t>(place.bucket)].world.size()),
                  place.global_bucket));
  if (sharded) {
    row(theme, "shard",
        fmt::format("{} of {} in the shard of rank {}, its owner", format_count(place.in_shard),
                    format_count(buffer.shard_elems(place.bucket)), place.owner));
  } else {
    row(theme, "shard", "none: every rank owns everything");
  }
  row(theme, "types",
      fmt::format("parameter {}, gradient {}, optimizer float32", name(place.param_dtype),
                  name(place.grad_dtype)));
  ImGui::EndTable();
}

}  // namespace zero1::viz
