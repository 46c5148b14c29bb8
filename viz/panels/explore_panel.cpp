// Turns the options of a layout; every map redraws at once.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/units.h"
#include "core/layout/svg_paint.h"
#include "viz/model/exploration.h"
#include "viz/panels/draw.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

class ExplorePanel final : public Panel {
 public:
  std::string_view title() const override { return "Explore"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override {
    return "sliders  redraw the map at once; Ctrl+click to type a number\n"
           "model  shapes made from sizes, or the cases of a SPEC file";
  }

 private:
  void choose_model(Exploration& exploration);
  void turn_ranks(Exploration& exploration);
  void turn_bucket_size(Exploration& exploration);
  void turn_dtypes(Exploration& exploration);
  void tell(const Exploration& exploration, const Theme& theme);
};

void ExplorePanel::draw(Document& document, const Theme& theme) {
  if (document.exploration == nullptr) {
    ImGui::TextWrapped("This is a run. To try out layouts: zero1_viz explore");
    return;
  }
  Exploration& exploration = *document.exploration;
  ImGui::PushItemWidth(-FLT_MIN);
  choose_model(exploration);
  turn_ranks(exploration);
  turn_bucket_size(exploration);
  turn_dtypes(exploration);
  ImGui::PopItemWidth();
  tell(exploration, theme);
}

void ExplorePanel::choose_model(Exploration& exploration) {
  ImGui::TextUnformatted("model");
  const auto sources = exploration.sources();
  const auto current = static_cast<std::size_t>(exploration.source());
  if (!ImGui::BeginCombo("##model", sources[current].name.c_str(), ImGuiComboFlags_HeightLarge)) return;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    const bool first_preset = !sources[i].from_file && i > 0 && sources[i - 1].from_file;
    if (first_preset) ImGui::Separator();
    if (ImGui::Selectable(sources[i].name.c_str(), i == current)) exploration.choose(static_cast<int>(i));
    if (i == current) ImGui::SetItemDefaultFocus();
    ImGui::PopID();
  }
  ImGui::EndCombo();
}

void ExplorePanel::turn_ranks(Exploration& exploration) {
  LayoutOptions options = exploration.options();
  ImGui::TextUnformatted("data-parallel ranks (dp)");
  ImGui::SliderInt("##dp", &options.dp_size, 1, Exploration::most_ranks, "%d",
                   ImGuiSliderFlags_Logarithmic | ImGuiSliderFlags_AlwaysClamp);
  const bool experts = std::any_of(exploration.layout()->specs.begin(), exploration.layout()->specs.end(),
                                   [](const ParamSpec& spec) { return spec.expert_parallel; });
  if (experts) {
    ImGui::TextUnformatted("ranks that share experts (expert dp)");
    ImGui::SliderInt("##expert_dp", &options.expert_dp_size, 1, Exploration::most_ranks, "%d",
                     ImGuiSliderFlags_Logarithmic | ImGuiSliderFlags_AlwaysClamp);
  }
  exploration.set_options(options);
}

void ExplorePanel::turn_bucket_size(Exploration& exploration) {
  LayoutOptions options = exploration.options();
  ImGui::TextUnformatted("bucket size, elements");
  const std::int64_t whole = exploration.layout()->buffers.empty() ? Exploration::least_bucket_elems
                                                                   : exploration.layout()->buffers[0].numel;
  std::int64_t size = options.bucket_size_elems.value_or(whole);
  constexpr std::int64_t least = Exploration::least_bucket_elems;
  constexpr std::int64_t most = Exploration::most_bucket_elems;
  const std::string text = options.bucket_size_elems ? "%lld" : "one bucket per buffer";
  if (ImGui::SliderScalar("##bucket", ImGuiDataType_S64, &size, &least, &most, text.c_str(),
                          ImGuiSliderFlags_Logarithmic)) {
    options.bucket_size_elems = std::max<std::int64_t>(size, 1);
  }
  if (ImGui::Button("Megatron's default")) {
    options.bucket_size_elems = default_bucket_size(options.dp_size, true);
  }
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("with overlap: the larger of 40 M and 1 M x dp");
  ImGui::SameLine();
  bool one = !options.bucket_size_elems.has_value();
  if (ImGui::Checkbox("one per buffer", &one)) {
    options.bucket_size_elems =
        one ? std::nullopt : std::optional<std::int64_t>(std::clamp(whole / 4, least, most));
  }
  ImGui::Checkbox("pad for high NCCL bandwidth", &options.pad_buckets_for_high_nccl_busbw);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("every bucket becomes a multiple of 2^16 elements long");
  exploration.set_options(options);
}

void ExplorePanel::turn_dtypes(Exploration& exploration) {
  LayoutOptions options = exploration.options();
  ImGui::Checkbox("gradients in fp32", &options.grad_reduce_in_fp32);
  exploration.set_options(options);
  ImGui::TextUnformatted("parameters");
  constexpr std::array<std::optional<DType>, 4> choices{std::nullopt, DType::fp32, DType::bf16, DType::fp16};
  const auto label = [](const std::optional<DType>& dtype) {
    return dtype ? std::string(name(*dtype)) : std::string("as the model has them");
  };
  if (!ImGui::BeginCombo("##dtype", label(exploration.dtype()).c_str())) return;
  for (const auto& choice : choices) {
    if (ImGui::Selectable(label(choice).c_str(), choice == exploration.dtype())) {
      exploration.set_dtype(choice);
    }
  }
  ImGui::EndCombo();
}

void ExplorePanel::tell(const Exploration& exploration, const Theme& theme) {
  ImGui::Separator();
  if (!exploration.error().empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, theme.exposed());
    ImGui::TextWrapped("%s", exploration.error().c_str());
    ImGui::PopStyleColor();
  }
  const Layout& layout = *exploration.layout();
  std::int64_t params = 0;
  for (const ParamSpec& spec : layout.specs) params += spec.numel();
  std::int64_t elems = 0;
  std::int64_t per_rank = 0;
  for (const BufferLayout& buffer : layout.buffers) {
    elems += buffer.numel;
    per_rank += buffer.numel / buffer.dp_size;
  }
  if (!ImGui::BeginTable("figures", 2, ImGuiTableFlags_SizingFixedFit)) return;
  ImGui::TableSetupColumn("what");
  ImGui::TableSetupColumn("figure", ImGuiTableColumnFlags_WidthStretch);
  const auto row = [&](const char* what, const std::string& figure) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushStyleColor(ImGuiCol_Text, theme.faint_text());
    ImGui::TextUnformatted(what);
    ImGui::PopStyleColor();
    ImGui::TableNextColumn();
    ImGui::TextWrapped("%s", figure.c_str());
  };
  row("parameters", fmt::format("{} elements in {} tensors", svg::short_count(params), layout.specs.size()));
  row("buffers, buckets", fmt::format("{}, {}", layout.buffers.size(), layout.bucket_count()));
  row("padding",
      fmt::format("{} elements ({:.3g}%)", format_count(elems - params),
                  elems == 0 ? 0.0 : 100 * static_cast<double>(elems - params) / static_cast<double>(elems)));
  row("each rank owns", format_count(per_rank) + " elements");
  ImGui::EndTable();
}

}  // namespace

std::unique_ptr<Panel> make_explore_panel() {
  return std::make_unique<ExplorePanel>();
}

}  // namespace zero1::viz
