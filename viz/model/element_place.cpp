#include "viz/model/element_place.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace zero1::viz {

namespace {

std::vector<std::int64_t> coordinates_of(const ParamSpec& spec, std::int64_t index) {
  std::vector<std::int64_t> coordinates(spec.shape.size());
  for (std::size_t d = spec.shape.size(); d-- > 0;) {
    coordinates[d] = index % spec.shape[d];
    index /= spec.shape[d];
  }
  return coordinates;
}

}  // namespace

ElementPlace place_of(const Layout& layout, const ElementRef& element) {
  if (element.param < 0 || static_cast<std::size_t>(element.param) >= layout.specs.size()) {
    throw InputError(fmt::format("parameter {}: the model has {}", element.param, layout.specs.size()));
  }
  const ParamSpec& spec = layout.specs[static_cast<std::size_t>(element.param)];
  const ParamLocation& location = layout.locations[static_cast<std::size_t>(element.param)];
  if (element.index < 0 || element.index >= location.world.size()) {
    throw InputError(fmt::format("{}: element {}, expected one of its {}", spec.name, element.index,
                                 location.world.size()));
  }
  const BufferLayout& buffer = layout.buffers[static_cast<std::size_t>(location.buffer)];
  ElementPlace place;
  place.element = element;
  place.coordinates = coordinates_of(spec, element.index);
  place.buffer = location.buffer;
  place.bucket = location.bucket;
  place.global_bucket = layout.global_bucket(location.buffer, location.bucket);
  place.in_world = location.world.start + element.index;
  place.in_bucket = place.in_world - buffer.buckets[static_cast<std::size_t>(location.bucket)].world.start;
  const std::int64_t shard = buffer.shard_elems(location.bucket);
  place.owner = static_cast<int>(place.in_bucket / shard);
  place.in_shard = place.in_bucket % shard;
  place.param_dtype = buffer.param_dtype;
  place.grad_dtype = buffer.grad_dtype;
  return place;
}

std::optional<ElementRef> element_at(const Layout& layout, int buffer, std::int64_t in_world) {
  for (std::size_t p = 0; p < layout.locations.size(); ++p) {
    const ParamLocation& location = layout.locations[p];
    if (location.buffer == buffer && location.world.contains(in_world)) {
      return ElementRef{static_cast<int>(p), in_world - location.world.start};
    }
  }
  return std::nullopt;
}

std::string element_name(const Layout& layout, const ElementRef& element) {
  const ParamSpec& spec = layout.specs.at(static_cast<std::size_t>(element.param));
  if (spec.shape.empty()) return spec.name;
  return fmt::format("{}[{}]", spec.name, fmt::join(coordinates_of(spec, element.index), ", "));
}

}  // namespace zero1::viz
