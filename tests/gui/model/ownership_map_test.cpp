// The ownership map's numbers: against Megatron-LM's own layouts, and against a drawing element by element.
#include "viz/model/ownership_map.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "core/base/file.h"
#include "core/layout/json.h"

using namespace zero1;
using namespace zero1::viz;
using nlohmann::json;

namespace {

std::shared_ptr<const Layout> layout_of(const LayoutCase& layout_case) {
  return std::make_shared<const Layout>(compute_layout(layout_case.params, layout_case.options));
}

/// What a recorded `expect` says of every element of the axis: its owner and its parameter.
struct Expected {
  std::vector<int> owner;
  std::vector<std::string> param;  ///< empty: padding
};

Expected expected_elements(const json& expect) {
  Expected all;
  for (const json& buffer : expect) {
    const auto start = all.owner.size();
    const auto numel = buffer["numel"].get<std::size_t>();
    const auto ranks = buffer["dp_size"].get<std::int64_t>();
    all.owner.resize(start + numel, -1);
    all.param.resize(start + numel);
    for (const json& bucket : buffer["buckets"]) {
      const auto first = bucket["start"].get<std::int64_t>();
      const auto size = bucket["end"].get<std::int64_t>() - first;
      for (std::int64_t i = 0; i < size; ++i) {
        all.owner[start + static_cast<std::size_t>(first + i)] = static_cast<int>(i / (size / ranks));
      }
    }
    for (std::size_t rank = 0; rank < buffer["rank_ranges"].size(); ++rank) {
      for (const json& row : buffer["rank_ranges"][rank]) {
        for (auto at = row[2][0].get<std::size_t>(); at < row[2][1].get<std::size_t>(); ++at) {
          CHECK(all.owner[start + at] == static_cast<int>(rank));
          all.param[start + at] = row[1].get<std::string>();
        }
      }
    }
  }
  return all;
}

/// A band drawn without any cleverness: all pieces, then for every column those that touch it.
struct BrutePiece {
  std::int64_t start = 0, end = 0;
  int index = 0, bucket = 0;
};

std::vector<BrutePiece> brute_pieces(const OwnershipMap& map, Band band) {
  std::vector<BrutePiece> pieces;
  int last_bucket = -1;
  for (std::int64_t at = 0; at < map.numel(); ++at) {
    const MapPlace place = map.place_at(at);
    int index = place.bucket;
    if (band == Band::params) index = place.param.value_or(-1);
    if (band == Band::owners) index = place.rank;
    const bool goes_on = !pieces.empty() && pieces.back().index == index && place.bucket == last_bucket;
    if (goes_on) {
      pieces.back().end = at + 1;
    } else {
      pieces.push_back({at, at + 1, index, place.bucket});
    }
    last_bucket = place.bucket;
  }
  return pieces;
}

struct Column {
  int index = 0;
  bool merged = false;
};

std::map<int, Column> brute_columns(const std::vector<BrutePiece>& pieces, const MapView& view,
                                    std::int64_t numel) {
  std::map<int, Column> columns;
  for (int c = 0; c < view.columns; ++c) {
    const double start = std::max(view.axis_of(c), 0.0);
    const double end = std::min(view.axis_of(c + 1), static_cast<double>(numel));
    if (start >= static_cast<double>(numel)) break;
    const double middle = (view.axis_of(c) + end) / 2;
    int touching = 0;
    Column column;
    for (const BrutePiece& piece : pieces) {
      // Elements are whole: a column touches those that any part of it lies on.
      const auto from = static_cast<std::int64_t>(std::floor(start));
      const auto to = std::max(from + 1, static_cast<std::int64_t>(std::ceil(end)));
      if (piece.end <= from || piece.start >= to) continue;
      ++touching;
      const auto at = static_cast<std::int64_t>(std::floor(std::max(middle, 0.0)));
      if (at >= piece.start && at < piece.end) column.index = piece.index;
    }
    column.merged = touching >= 3;
    columns[c] = column;
  }
  return columns;
}

void check_band(const OwnershipMap& map, Band band, const MapView& view) {
  std::vector<MapPiece> pieces;
  map.pieces(band, view, pieces);
  const auto brute = brute_columns(brute_pieces(map, band), view, map.numel());
  REQUIRE(!pieces.empty());
  CHECK(pieces.size() <= static_cast<std::size_t>(view.columns));
  int at = pieces.front().begin_px;
  CHECK(at == brute.begin()->first);
  for (const MapPiece& piece : pieces) {
    CHECK(piece.begin_px == at);  // without gap or overlap
    REQUIRE(piece.end_px > piece.begin_px);
    at = piece.end_px;
    for (int c = piece.begin_px; c < piece.end_px; ++c) {
      REQUIRE(brute.contains(c));
      CHECK(piece.merged() == brute.at(c).merged);
      if (!piece.merged()) CHECK(piece.index == brute.at(c).index);
    }
  }
  CHECK(at == brute.rbegin()->first + 1);
}

}  // namespace

TEST_CASE("what is drawn of every element is its owner and parameter by Megatron-LM's own layouts") {
  const std::string path = ZERO1_GOLDEN_DIR "/layout_small.json";
  int cases = 0;
  std::int64_t elements = 0;
  for (const LayoutFile::Entry& entry : parse_layout_file(read_file(path), path).entries) {
    CAPTURE(entry.layout_case.name);
    const OwnershipMap map(layout_of(entry.layout_case));
    const Expected expected = expected_elements(json::parse(entry.expect));
    REQUIRE(map.numel() == static_cast<std::int64_t>(expected.owner.size()));
    ++cases;
    elements += map.numel();
    std::vector<MapPiece> pieces;
    // One element to a pixel, a screen at a time.
    constexpr int columns = 1000;
    int wrong = 0;
    for (std::int64_t first = 0; first < map.numel(); first += columns) {
      const MapView view{static_cast<double>(first), 1, columns};
      map.pieces(Band::owners, view, pieces);
      int at = 0;
      for (const MapPiece& piece : pieces) {
        wrong += piece.begin_px == at && !piece.merged() ? 0 : 1;
        for (; at < piece.end_px; ++at) {
          wrong += expected.owner[static_cast<std::size_t>(first + at)] == piece.index ? 0 : 1;
        }
      }
      CHECK(at == std::min<std::int64_t>(columns, map.numel() - first));
      map.pieces(Band::params, view, pieces);
      at = 0;
      for (const MapPiece& piece : pieces) {
        const std::string name =
            piece.index < 0 ? "" : map.layout().specs[static_cast<std::size_t>(piece.index)].name;
        for (; at < piece.end_px; ++at) {
          wrong += expected.param[static_cast<std::size_t>(first + at)] == name ? 0 : 1;
        }
      }
    }
    CHECK(wrong == 0);
  }
  CHECK(cases == 64);
  CHECK(elements > 100'000);
}

TEST_CASE("bands at any zoom are those of a drawing without cleverness") {
  std::mt19937_64 random(7);
  const auto between = [&random](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    LayoutCase layout_case;
    const auto params = between(1, 60);
    for (std::int64_t p = 0; p < params; ++p) {
      layout_case.params.push_back({.name = "p" + std::to_string(p),
                                    .shape = {between(0, 3) == 0 ? between(100, 900) : between(1, 7)},
                                    .dtype = between(0, 4) == 0 ? DType::bf16 : DType::fp32});
    }
    layout_case.options.dp_size = static_cast<int>(between(1, 9));
    if (between(0, 2) > 0) layout_case.options.bucket_size_elems = between(1, 700);
    const OwnershipMap map(layout_of(layout_case));
    for (int zoom = 0; zoom < 6; ++zoom) {
      MapView view;
      view.columns = static_cast<int>(between(1, 120));
      view.elems_per_px =
          std::ldexp(1.0 + static_cast<double>(between(0, 99)) / 100, static_cast<int>(between(-5, 6)));
      view.first = static_cast<double>(between(0, map.numel() - 1)) + static_cast<double>(between(0, 3)) / 4;
      CAPTURE(view.first);
      CAPTURE(view.elems_per_px);
      CAPTURE(view.columns);
      for (const Band band : {Band::buckets, Band::params, Band::owners}) check_band(map, band, view);
    }
  }
}

TEST_CASE("a place has the coordinates that the layout gives it") {
  const std::string path = ZERO1_GOLDEN_DIR "/layout_small.json";
  for (const LayoutFile::Entry& entry : parse_layout_file(read_file(path), path).entries) {
    const OwnershipMap map(layout_of(entry.layout_case));
    const Layout& layout = map.layout();
    for (std::size_t p = 0; p < layout.specs.size(); ++p) {
      const Range axis = map.param_axis(static_cast<int>(p));
      if (axis.empty()) continue;
      for (const std::int64_t at : {axis.start, axis.end - 1}) {
        const MapPlace place = map.place_at(at);
        REQUIRE(place.param == static_cast<int>(p));
        CHECK(place.element == at - axis.start);
        CHECK(place.world == layout.locations[p].world.start + place.element);
        CHECK(place.bucket == map.param_bucket(static_cast<int>(p)));
        const ParamShard shard = param_shard(layout, static_cast<int>(p), place.rank);
        CHECK(shard.param_range.contains(place.element));
        CHECK(place.local - shard.gbuf_local.start == place.element - shard.param_range.start);
        CHECK(place.in_bucket - shard.gbuf_world_in_bucket.start == place.element - shard.param_range.start);
        CHECK(map.shard_axis(place.bucket, place.rank).contains(at));
      }
    }
  }
}

TEST_CASE("one parameter's shards are its rows of the range map") {
  const std::string path = ZERO1_GOLDEN_DIR "/layout_small.json";
  for (const LayoutFile::Entry& entry : parse_layout_file(read_file(path), path).entries) {
    const Layout layout = compute_layout(entry.layout_case.params, entry.layout_case.options);
    for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
      const RangeMap rows = build_range_map(layout, static_cast<int>(b));
      for (int rank = 0; rank < rows.rank_count(); ++rank) {
        std::map<int, ParamShard> of_param;
        for (const ParamShard& row : rows.rank(rank)) of_param.emplace(row.param, row);
        for (std::size_t p = 0; p < layout.specs.size(); ++p) {
          if (layout.locations[p].buffer != static_cast<int>(b)) continue;
          const ParamShard shard = param_shard(layout, static_cast<int>(p), rank);
          const auto row = of_param.find(static_cast<int>(p));
          if (row == of_param.end()) {
            CHECK(shard.gbuf_world.empty());
          } else {
            CHECK(shard == row->second);
          }
        }
      }
    }
  }
}

TEST_CASE("views zoom at the cursor, and stay on the axis") {
  constexpr std::int64_t numel = 1'000'000;
  MapView view = fit_view(0, numel, 1000, numel);
  CHECK(view.first == 0);
  CHECK(view.elems_per_px == doctest::Approx(1000));
  const double under_cursor = view.axis_of(700);
  for (int i = 0; i < 20; ++i) {
    view = zoom_view(view, 700, 1.5, numel);
    CHECK(view.axis_of(700) == doctest::Approx(under_cursor).epsilon(1e-9));
  }
  for (int i = 0; i < 200; ++i) view = zoom_view(view, 700, 1.5, numel);
  CHECK(1 / view.elems_per_px == doctest::Approx(160));  // single elements
  for (int i = 0; i < 300; ++i) view = pan_view(view, -900, numel);
  CHECK(view.first >= 0);
  for (int i = 0; i < 300; ++i) view = zoom_view(view, 10, 0.5, numel);
  CHECK(view.first == 0);
  CHECK(view.end() == doctest::Approx(static_cast<double>(numel)));
}

TEST_CASE("a huge model costs what its pixels cost") {
  std::vector<ParamSpec> specs;
  for (int p = 0; p < 100'000; ++p)
    specs.push_back({.name = "p" + std::to_string(p), .shape = {1 + p % 977}});
  LayoutOptions options;
  options.dp_size = 1024;
  options.bucket_size_elems = 40'000;
  const OwnershipMap map(std::make_shared<const Layout>(compute_layout(std::move(specs), options)));
  std::vector<MapPiece> pieces;
  for (MapView view = fit_view(0, static_cast<double>(map.numel()), 1600, map.numel());
       view.elems_per_px > 0.01; view = zoom_view(view, 801, 3, map.numel())) {
    for (const Band band : {Band::buckets, Band::params, Band::owners}) {
      map.pieces(band, view, pieces);
      CHECK(pieces.size() <= 1600);
      CHECK(pieces.front().begin_px == 0);
      CHECK(pieces.back().end_px == 1600);
    }
  }
}

TEST_CASE("names are found by any part, whatever the case") {
  std::vector<ParamSpec> specs{{.name = "h.0.Mlp.weight", .shape = {3}},
                               {.name = "h.1.mlp.weight", .shape = {3}},
                               {.name = "\xe5\xb1\x82.\xe6\x9d\x83\xe9\x87\x8d", .shape = {3}},
                               {.name = "nothing", .shape = {0}}};
  const OwnershipMap map(std::make_shared<const Layout>(compute_layout(std::move(specs), {})));
  CHECK(map.find("MLP").size() == 2);
  CHECK(map.find("1.m") == std::vector<int>{1});
  CHECK(map.find("\xe6\x9d\x83") == std::vector<int>{2});
  CHECK(map.find("absent").empty());
  CHECK(map.find("nothing").empty());  // it has no element to go to
}
