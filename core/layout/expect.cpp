// `expect` is written as text, row by row: a large layout has hundreds of thousands of rows, which no
// document in memory should have to hold.
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "core/base/text.h"
#include "core/layout/digest.h"
#include "core/layout/json.h"
#include "core/layout/range_map.h"

namespace zero1 {
namespace {

/// Text that goes to the stream in large pieces.
class ChunkedText {
 public:
  explicit ChunkedText(std::ostream& out) : out_(out) {}
  ~ChunkedText() = default;
  ChunkedText(const ChunkedText&) = delete;
  ChunkedText& operator=(const ChunkedText&) = delete;

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    if (buffer_.size() > chunk_bytes) flush();
  }

  void flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }

 private:
  static constexpr std::size_t chunk_bytes = std::size_t{1} << 16;
  std::ostream& out_;
  fmt::memory_buffer buffer_;
};

/// "" before the first element of a list, then ",".
class Comma {
 public:
  std::string_view operator()() {
    const std::string_view text = first_ ? "" : ",";
    first_ = false;
    return text;
  }

 private:
  bool first_ = true;
};

class ExpectWriter {
 public:
  ExpectWriter(std::ostream& out, const Layout& layout, RangeDetail detail)
      : text_(out), layout_(layout), detail_(detail) {
    quoted_names_.reserve(layout.specs.size());
    for (const ParamSpec& spec : layout.specs)
      quoted_names_.push_back(printable_json(nlohmann::json(spec.name).dump()));
  }

  void write() {
    text_.add("[");
    Comma comma;
    for (std::size_t b = 0; b < layout_.buffers.size(); ++b) {
      text_.add("{}\n  {{", comma());
      write_buffer(static_cast<int>(b));
      text_.add("\n  }}");
    }
    text_.add("{}]", layout_.buffers.empty() ? "" : "\n");
    text_.flush();
  }

 private:
  void write_buffer(int index) {
    const BufferLayout& buffer = at(layout_.buffers, index);
    text_.add("\n    \"param_dtype\": \"{}\",\n    \"grad_dtype\": \"{}\",\n    \"expert_parallel\": {},",
              name(buffer.param_dtype), name(buffer.grad_dtype), buffer.expert_parallel);
    text_.add("\n    \"dp_size\": {},\n    \"numel\": {},\n    \"numel_unpadded\": {},", buffer.dp_size,
              buffer.numel, buffer.numel_unpadded);
    write_buckets(buffer);
    if (detail_ == RangeDetail::digest) {
      const RangeDigest digest = range_digest(layout_, index);
      text_.add(
          ",\n    \"rank_ranges_sha256\": \"{}\",\n    \"rank_range_rows\": {},\n    \"num_buckets\": {}",
          digest.sha256, digest.rows, buffer.buckets.size());
    } else {
      write_param_index(index);
      write_rank_ranges(index);
    }
  }

  void write_buckets(const BufferLayout& buffer) {
    text_.add("\n    \"buckets\": [");
    Comma comma;
    for (const BucketLayout& bucket : buffer.buckets) {
      text_.add("{}\n      {{\"start\": {}, \"end\": {}, \"numel_unpadded\": {}", comma(), bucket.world.start,
                bucket.world.end, bucket.numel_unpadded);
      if (detail_ == RangeDetail::rows) {
        text_.add(", \"params\": [");
        Comma inner;
        for (const int param : bucket.params) text_.add("{}{}", inner(), quoted(param));
        text_.add("]");
      }
      text_.add("}}");
    }
    text_.add("\n    ]");
  }

  void write_param_index(int buffer) {
    text_.add(",\n    \"param_index\": {{");
    Comma comma;
    for (std::size_t i = 0; i < layout_.locations.size(); ++i) {
      const ParamLocation& location = layout_.locations[i];
      if (location.buffer != buffer) continue;
      text_.add("{}\n      {}: [{}, {}, {}]", comma(), quoted_names_[i], location.world.start,
                location.world.end, location.bucket);
    }
    text_.add("\n    }}");
  }

  void write_rank_ranges(int buffer) {
    text_.add(",\n    \"rank_ranges\": [");
    Comma ranks;
    for (RangeMapWalker walker(layout_, buffer); !walker.done();) {
      text_.add("{}\n      [", ranks());
      Comma rows;
      for (const ParamShard& row : walker.next()) {
        text_.add("{}[{},{},[{},{}],[{},{}],[{},{}],[{},{}]]", rows(), row.bucket, quoted(row.param),
                  row.gbuf_world.start, row.gbuf_world.end, row.gbuf_world_in_bucket.start,
                  row.gbuf_world_in_bucket.end, row.gbuf_local.start, row.gbuf_local.end,
                  row.param_range.start, row.param_range.end);
      }
      text_.add("]");
    }
    text_.add("\n    ]");
  }

  const std::string& quoted(int param) const { return at(quoted_names_, param); }

  ChunkedText text_;
  const Layout& layout_;
  const RangeDetail detail_;
  std::vector<std::string> quoted_names_;
};

}  // namespace

void write_expect_json(std::ostream& out, const Layout& layout, RangeDetail detail) {
  ExpectWriter(out, layout, detail).write();
}

std::string expect_json(const Layout& layout, RangeDetail detail) {
  std::ostringstream out;
  write_expect_json(out, layout, detail);
  return std::move(out).str();
}

}  // namespace zero1
