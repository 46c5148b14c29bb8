// What the run was told, as a table.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

class SettingsPanel final : public Panel {
 public:
  std::string_view title() const override { return "Settings"; }
  void draw(Document& document, const Theme& theme) override;

 private:
  struct Row {
    std::string key;
    std::string value;
  };
  void read(const std::string& config);

  std::string config_;
  std::vector<Row> rows_;
  std::string modelled_;
};

void SettingsPanel::read(const std::string& config) {
  config_ = config;
  rows_.clear();
  modelled_.clear();
  const auto json = nlohmann::ordered_json::parse(config, nullptr, false);
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    rows_.push_back({key, value.is_string() ? value.get<std::string>()
                                            : value.dump(-1, ' ', false,
                                                         nlohmann::ordered_json::error_handler_t::replace)});
  }
  const auto number = [&json](const char* key) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
  };
  const double gbps = number("link_gbps");
  const double latency = number("link_latency_us");
  if (gbps > 0 || latency > 0) {
    modelled_ =
        fmt::format("The link is MODELLED: {}{:g} us per step. Communication times are not this machine's.",
                    gbps > 0 ? fmt::format("{:g} Gbit/s, ", gbps) : "", latency);
  }
}

void SettingsPanel::draw(Document& document, const Theme& theme) {
  if (document.info.config_json != config_) read(document.info.config_json);
  if (!modelled_.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, theme.changed());
    ImGui::TextWrapped("%s", modelled_.c_str());
    ImGui::PopStyleColor();
    ImGui::Spacing();
  }
  if (rows_.empty()) {
    ImGui::TextWrapped("No settings are known: this is no run, or its recording does not tell them.");
    return;
  }
  constexpr ImGuiTableFlags flags = ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit |
                                    ImGuiTableFlags_ScrollY | ImGuiTableFlags_BordersOuterH;
  if (!ImGui::BeginTable("settings", 2, flags)) return;
  ImGui::TableSetupColumn("setting");
  ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch);
  for (const Row& row : rows_) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushStyleColor(ImGuiCol_Text, theme.faint_text());
    ImGui::TextUnformatted(row.key.c_str());
    ImGui::PopStyleColor();
    ImGui::TableNextColumn();
    ImGui::TextWrapped("%s", row.value.c_str());
  }
  ImGui::EndTable();
}

}  // namespace

std::unique_ptr<Panel> make_settings_panel() {
  return std::make_unique<SettingsPanel>();
}

}  // namespace zero1::viz
