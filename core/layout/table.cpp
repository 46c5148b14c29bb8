#include "core/layout/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/layout/owners.h"
#include "core/layout/range_map.h"

namespace zero1 {
namespace {

/// Columns as wide as their widest cell; names lean left, numbers right.
class TextTable {
 public:
  struct Column {
    std::string_view title;
    bool right = true;
  };

  TextTable(std::vector<Column> columns, std::string_view row_noun, std::size_t max_rows)
      : columns_(std::move(columns)), row_noun_(row_noun), max_rows_(max_rows) {}

  /// Whether the rows shown are enough; further ones are only counted, with `skip`.
  bool full() const { return rows_.size() >= max_rows_; }
  void skip() { ++hidden_; }
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void append_to(std::string& out) const {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::size_t width = char_count(columns_[c].title);
      for (const auto& row : rows_) width = std::max(width, char_count(row[c]));
      widths.push_back(width);
    }
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.emplace_back(column.title);
    append_row(out, titles, widths);
    for (const auto& row : rows_) append_row(out, row, widths);
    if (hidden_ > 0) {
      fmt::format_to(std::back_inserter(out), "  … {} more {} (--all shows them)\n",
                     format_count(static_cast<std::int64_t>(hidden_)), row_noun_);
    }
  }

 private:
  void append_row(std::string& out, const std::vector<std::string>& cells,
                  const std::vector<std::size_t>& widths) const {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string padding(widths[c] - char_count(cells[c]), ' ');
      line += "  ";
      line += columns_[c].right ? padding + cells[c] : cells[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }

  std::vector<Column> columns_;
  std::string_view row_noun_;
  std::size_t max_rows_;
  std::size_t hidden_ = 0;
  std::vector<std::vector<std::string>> rows_;
};

std::string shown_shape(const ParamSpec& spec) {
  return spec.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(spec.shape, "×"));
}

/// "3" or "3-7"; "none" for a parameter without elements.
std::string shown_owners(const Range& ranks) {
  if (ranks.empty()) return "none";
  return ranks.size() == 1 ? format_count(ranks.start)
                           : fmt::format("{}-{}", format_count(ranks.start), format_count(ranks.end - 1));
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.2f}%",
                     whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void append_buffer_heading(std::string& out, const BufferLayout& buffer, std::size_t index) {
  fmt::format_to(std::back_inserter(out), "Buffer {}: {} parameters, {} gradients, {}{}\n", index,
                 name(buffer.param_dtype), name(buffer.grad_dtype),
                 counted(buffer.dp_size, buffer.expert_parallel ? "expert rank" : "rank"),
                 buffer.expert_parallel ? " (expert-parallel)" : "");
}

void append_buckets(std::string& out, const Layout& layout, const BufferLayout& buffer,
                    std::size_t max_rows) {
  TextTable table({{"bucket"},
                   {"elements [start, end)", false},
                   {"size"},
                   {"padding"},
                   {"each rank owns"},
                   {"parameters"}},
                  "buckets", max_rows);
  for (std::size_t k = 0; k < buffer.buckets.size(); ++k) {
    if (table.full()) {
      table.skip();
      continue;
    }
    const BucketLayout& bucket = buffer.buckets[k];
    table.add({fmt::format("{}", k), format_range(bucket.world), format_count(bucket.world.size()),
               format_count(padding_elems(layout, bucket)),
               format_count(buffer.shard_elems(static_cast<int>(k))),
               format_count(static_cast<std::int64_t>(bucket.params.size()))});
  }
  table.append_to(out);
}

void append_params(std::string& out, const Layout& layout, const BufferLayout& buffer, std::size_t max_rows) {
  TextTable table({{"bucket"},
                   {"parameter", false},
                   {"shape", false},
                   {"elements [start, end)", false},
                   {"size"},
                   {"owned by ranks", false},
                   {"", false}},
                  "parameters", max_rows);
  for (std::size_t k = 0; k < buffer.buckets.size(); ++k) {
    for (const int param : buffer.buckets[k].params) {
      if (table.full()) {
        table.skip();
        continue;
      }
      const ParamSpec& spec = at(layout.specs, param);
      const Range world = at(layout.locations, param).world;
      table.add({fmt::format("{}", k), printable(spec.name), shown_shape(spec), format_range(world),
                 format_count(world.size()), shown_owners(owners_of(layout, param)),
                 spec.shared_embedding ? "shared embedding" : ""});
    }
  }
  table.append_to(out);
}

std::string name_of(const Layout& layout, int param) {
  return printable(at(layout.specs, param).name);
}

}  // namespace

std::string layout_table(const Layout& layout, std::string_view title, std::size_t max_rows) {
  std::int64_t params_total = 0;
  for (const ParamLocation& location : layout.locations) params_total += location.world.size();
  std::string out =
      fmt::format("{}{}{}, {} in {}, {}\n", printable(title), title.empty() ? "" : ": ",
                  counted(layout.specs.size(), "parameter"), counted(params_total, "element"),
                  counted(layout.buffers.size(), "buffer"), counted(layout.bucket_count(), "bucket"));
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    const BufferLayout& buffer = layout.buffers[b];
    std::int64_t padding = 0;
    for (const BucketLayout& bucket : buffer.buckets) padding += padding_elems(layout, bucket);
    out += "\n";
    append_buffer_heading(out, buffer, b);
    fmt::format_to(std::back_inserter(out), "  {}, of which {} ({}) are padding; {}; each rank owns {}\n\n",
                   counted(buffer.numel, "element"), format_count(padding), percent(padding, buffer.numel),
                   counted(buffer.buckets.size(), "bucket"), format_count(buffer.numel / buffer.dp_size));
    append_buckets(out, layout, buffer, max_rows);
    out += "\n";
    append_params(out, layout, buffer, max_rows);
  }
  return out;
}

std::string rank_table(const Layout& layout, int rank, std::size_t max_rows) {
  int largest = 0;
  for (const BufferLayout& buffer : layout.buffers) largest = std::max(largest, buffer.dp_size);
  if (rank < 0 || rank >= largest) {
    throw InputError(
        fmt::format("rank {}: there is no such rank, the layout has {}", rank, counted(largest, "rank")));
  }
  std::string out;
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    const BufferLayout& buffer = layout.buffers[b];
    if (b > 0) out += "\n";
    append_buffer_heading(out, buffer, b);
    if (rank >= buffer.dp_size) {
      fmt::format_to(std::back_inserter(out), "  has no rank {}\n", rank);
      continue;
    }
    RangeMapWalker walker(layout, static_cast<int>(b), rank);
    std::int64_t owned = 0;
    TextTable table({{"bucket"},
                     {"parameter", false},
                     {"in the buffer", false},
                     {"in the bucket", false},
                     {"in the shard", false},
                     {"in the parameter", false},
                     {"size"}},
                    "rows", max_rows);
    for (const ParamShard& row : walker.next()) {
      owned += row.param_range.size();
      if (table.full()) {
        table.skip();
        continue;
      }
      table.add({fmt::format("{}", row.bucket), name_of(layout, row.param), format_range(row.gbuf_world),
                 format_range(row.gbuf_world_in_bucket), format_range(row.gbuf_local),
                 format_range(row.param_range), format_count(row.param_range.size())});
    }
    fmt::format_to(std::back_inserter(out), "  rank {} owns {}, {} of them padding\n\n", rank,
                   counted(buffer.numel / buffer.dp_size, "element"),
                   format_count(buffer.numel / buffer.dp_size - owned));
    table.append_to(out);
  }
  return out;
}

std::string param_table(const Layout& layout, int param, std::size_t max_rows) {
  const ParamSpec& spec = at(layout.specs, param);
  const ParamLocation& location = at(layout.locations, param);
  const Range owners = owners_of(layout, param);
  std::string out = fmt::format(
      "{} ({}, {}, {})\n  buffer {}, bucket {}, elements {} of the buffer, held by {}\n\n",
      name_of(layout, param), name(spec.dtype), shown_shape(spec), counted(location.world.size(), "element"),
      location.buffer, location.bucket, format_range(location.world), counted(owners.size(), "rank"));
  TextTable table({{"rank"},
                   {"in the parameter", false},
                   {"in the shard", false},
                   {"in the bucket", false},
                   {"in the buffer", false},
                   {"size"},
                   {"share"}},
                  "ranks", max_rows);
  for (std::int64_t rank = owners.start; rank < owners.end; ++rank) {
    if (table.full()) {
      table.skip();
      continue;
    }
    const ParamShard shard = param_shard(layout, param, static_cast<int>(rank));
    table.add({format_count(rank), format_range(shard.param_range), format_range(shard.gbuf_local),
               format_range(shard.gbuf_world_in_bucket), format_range(shard.gbuf_world),
               format_count(shard.gbuf_world.size()),
               percent(shard.gbuf_world.size(), location.world.size())});
  }
  table.append_to(out);
  return out;
}

}  // namespace zero1
