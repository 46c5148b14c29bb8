#include "viz/panels/ownership_tooltip.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/units.h"
#include "core/layout/owners.h"
#include "viz/panels/draw.h"

namespace zero1::viz {

namespace {

constexpr std::int64_t shown_owners = 8;

std::string shown(const Range& range) {
  return fmt::format("[{}, {})", format_count(range.start), format_count(range.end));
}

/// "[3, 17]": an element's place in the parameter's shape.
std::string index_in_shape(const ParamSpec& spec, std::int64_t element) {
  std::vector<std::int64_t> index(spec.shape.size());
  for (std::size_t i = index.size(); i-- > 0;) {
    index[i] = element % spec.shape[i];
    element /= spec.shape[i];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

void tell_bucket(const MapScene& scene, const MapPlace& place) {
  const OwnershipMap::Bucket& bucket = scene.map.bucket(place.bucket);
  const BufferLayout& buffer = scene.map.layout().buffers[static_cast<std::size_t>(bucket.buffer)];
  const BucketLayout& layout = buffer.buckets[static_cast<std::size_t>(bucket.in_buffer)];
  plain_text(fmt::format("Bucket {}{}", place.bucket, buffer.expert_parallel ? ", expert-parallel" : ""));
  faint_text(scene.theme.faint_text(), fmt::format("buffer {}: parameters {}, gradients {}", bucket.buffer,
                                                   name(buffer.param_dtype), name(buffer.grad_dtype)));
  plain_text(
      fmt::format("{} of the buffer: {} elements", shown(layout.world), format_count(layout.world.size())));
  plain_text(fmt::format("{} parameters, {} elements of padding", layout.params.size(),
                         format_count(padding_elems(scene.map.layout(), layout))));
  plain_text(scene.sharded ? fmt::format("{} ranks own {} elements each", bucket.ranks,
                                         format_count(bucket.shard_elems))
                           : "every rank owns all of it");
}

void ranges_table(const MapScene& scene, int param) {
  const Range owners = owners_of(scene.map.layout(), param);
  if (!ImGui::BeginTable("ranges", 5, ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_BordersInnerV)) return;
  for (const char* title : {"rank", "param", "gbuf_local", "gbuf_world_in_bucket", "gbuf_world"}) {
    ImGui::TableSetupColumn(title);
  }
  ImGui::TableHeadersRow();
  const std::int64_t end = std::min(owners.end, owners.start + shown_owners);
  for (std::int64_t rank = owners.start; rank < end; ++rank) {
    const ParamShard shard = param_shard(scene.map.layout(), param, static_cast<int>(rank));
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const ImU32 colour = scene.theme.rank(static_cast<int>(rank), scene.map.max_ranks());
    ImGui::TableSetBgColor(ImGuiTableBgTarget_CellBg, colour);
    ImGui::PushStyleColor(ImGuiCol_Text, Theme::text_on(colour));
    plain_text(fmt::format("{}", rank));
    ImGui::PopStyleColor();
    for (const Range& range :
         {shard.param_range, shard.gbuf_local, shard.gbuf_world_in_bucket, shard.gbuf_world}) {
      ImGui::TableNextColumn();
      plain_text(shown(range));
    }
  }
  ImGui::EndTable();
  if (end < owners.end)
    faint_text(scene.theme.faint_text(), fmt::format("… and {} more ranks", owners.end - end));
}

void tell_param(const MapScene& scene, const MapPlace& place) {
  const ParamSpec& spec = scene.map.layout().specs[static_cast<std::size_t>(*place.param)];
  plain_text(spec.name);
  faint_text(scene.theme.faint_text(), fmt::format("{}, [{}], {} elements", name(spec.dtype),
                                                   fmt::join(spec.shape, ", "), format_count(spec.numel())));
  const std::string here =
      fmt::format("here: element {} = {}", format_count(place.element), index_in_shape(spec, place.element));
  if (!scene.sharded) {
    plain_text("every rank owns all of it");
    return plain_text(here);
  }
  const Range owners = owners_of(scene.map.layout(), *place.param);
  plain_text(owners.size() == 1 ? fmt::format("rank {} owns all of it", owners.start)
                                : fmt::format("split among {} ranks: {} to {}", owners.size(), owners.start,
                                              owners.end - 1));
  ranges_table(scene, *place.param);
  plain_text(fmt::format("{}, owned by rank {}", here, place.rank));
}

void tell_owner(const MapScene& scene, const MapPlace& place) {
  if (!scene.sharded)
    return plain_text(fmt::format("Every rank owns all of bucket {}: this run shards nothing", place.bucket));
  const OwnershipMap::Bucket& bucket = scene.map.bucket(place.bucket);
  const Range shard = scene.map.shard_axis(place.bucket, place.rank).shifted(-bucket.axis.start);
  plain_text(fmt::format("Rank {} owns this shard of bucket {}", place.rank, place.bucket));
  plain_text(fmt::format("{} of the bucket: {} elements", shown(shard), format_count(shard.size())));
  if (place.param) {
    faint_text(
        scene.theme.faint_text(),
        fmt::format("here: {}", scene.map.layout().specs[static_cast<std::size_t>(*place.param)].name));
  } else {
    faint_text(scene.theme.faint_text(), "here: padding");
  }
}

void tell_state(const MapScene& scene, const MapRow& row, const MapPlace& place) {
  if (scene.states == nullptr) return;
  const BucketMoment moment = scene.states->at(row.rank, place.bucket, scene.document.moment.at_ns);
  plain_text(fmt::format("Bucket {} on rank {}", place.bucket, row.rank));
  if (moment.own == moment.others) {
    plain_text(fmt::format("all shards: {}", name(moment.own)));
  } else {
    plain_text(fmt::format("own shard: {}", name(moment.own)));
    plain_text(fmt::format("the others' shards: {}", name(moment.others)));
  }
  if (moment.others == PieceState::left_over)
    faint_text(scene.theme.faint_text(), "stale: this rank's own sums, which nobody needs any more");
  if (moment.others == PieceState::stale)
    faint_text(scene.theme.faint_text(), "stale: the parameters of the step before");
  if (moment.own == PieceState::unknown) return;
  plain_text(moment.golden > 0
                 ? fmt::format("{} of {} gradients have reported", moment.ready, moment.golden)
                 : fmt::format("{} gradients have reported; how many there are is learnt in the "
                               "first iteration",
                               moment.ready));
  faint_text(scene.theme.faint_text(),
             fmt::format("step {}, since {}", moment.step,
                         format_duration_ns(scene.document.moment.at_ns - moment.since_ns)));
}

}  // namespace

void tell_place(const MapScene& scene, const MapRow& row, const MapPlace& place) {
  switch (row.what) {
    case MapRow::What::header: return tell_bucket(scene, place);
    case MapRow::What::owners: return tell_owner(scene, place);
    case MapRow::What::state: return tell_state(scene, row, place);
    case MapRow::What::param_values:
    case MapRow::What::gradient_values:
    case MapRow::What::params:
      if (place.param) return tell_param(scene, place);
      plain_text("Padding");
      faint_text(scene.theme.faint_text(),
                 scene.sharded
                     ? fmt::format("bucket {}, owned by rank {} all the same", place.bucket, place.rank)
                     : fmt::format("bucket {}", place.bucket));
  }
}

void tell_selected(const MapScene& scene, std::span<const MapRow> rows) {
  const Selection& selection = scene.document.selection;
  const auto known = [](const std::optional<int>& index, std::size_t count) {
    return index && *index >= 0 && static_cast<std::size_t>(*index) < count;
  };
  MapRow::What what = MapRow::What::header;
  Range axis;
  if (known(selection.param, scene.map.layout().specs.size())) {
    what = MapRow::What::params;
    axis = scene.map.param_axis(*selection.param);
  } else if (known(selection.bucket, scene.map.buckets().size())) {
    axis = scene.map.bucket(*selection.bucket).axis;
  }
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const MapRow& each) { return each.what == what; });
  if (axis.empty() || row == rows.end()) return;
  const std::int64_t at =
      axis.start + std::clamp<std::int64_t>(selection.element.value_or(0), 0, axis.size() - 1);
  const float x = std::clamp(scene.x_of(at), scene.left, scene.right);
  // Where it is wide, it reaches to both sides as far as there is room.
  const float share = (x - scene.left) / std::max(1.0F, scene.right - scene.left);
  ImGui::SetNextWindowPos({x, row->bottom + 4}, ImGuiCond_Always, {share, 0});
  ImGui::BeginTooltip();
  tell_place(scene, *row, scene.map.place_at(at));
  ImGui::EndTooltip();
}

}  // namespace zero1::viz
