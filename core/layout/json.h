// Layouts as JSON: the golden schema, see tests/golden/README.md. A `case` goes in, `expect` comes out.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout/buffer_layout.h"

namespace zero1 {

/// One `case`: what a layout is computed from.
struct LayoutCase {
  std::string name;  ///< may be empty
  std::vector<ParamSpec> params;
  LayoutOptions options;

  friend bool operator==(const LayoutCase&, const LayoutCase&) = default;
};

/// Reads one `case` object. `name` and the parameters' marks are optional, every other field must be there,
/// and no further one. Throws InputError that begins with the field ("params[3].dtype: …"). What needs
/// arithmetic (sizes, duplicate names) is checked by compute_layout.
LayoutCase parse_layout_case(const nlohmann::json& json);

/// The inverse: marks that are false are left out, as in the golden files.
nlohmann::ordered_json layout_case_json(const LayoutCase& layout_case);

/// What one SPEC file holds.
struct LayoutFile {
  struct Entry {
    LayoutCase layout_case;
    std::string expect;  ///< the recorded `expect` as JSON text; empty where there is none
  };
  bool is_list = false;
  std::vector<Entry> entries;
};

/// Reads a `case` object, a `{"case": …, "expect": …}` object, or a list of either. Repeated keys are
/// errors. Throws InputError that begins with `source` and the entry.
LayoutFile parse_layout_file(std::string_view text, const std::string& source);

/// Which ranges of a layout are written.
enum class RangeDetail {
  rows,    ///< every rank's rows, the schema of layout_small.json
  digest,  ///< their SHA-256 in place of the rows, the schema of layout_large.json
};

/// Writes `expect`, one line per bucket, parameter and rank, holding one rank's rows at a time.
void write_expect_json(std::ostream& out, const Layout& layout, RangeDetail detail);

/// The same as text; for layouts of modest size.
std::string expect_json(const Layout& layout, RangeDetail detail);

}  // namespace zero1
