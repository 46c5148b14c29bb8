#include "core/base/strict_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace zero1 {
namespace {

using nlohmann::json;

/// Reads without keeping anything but the keys of what is open. The library's own callback for this looks
/// through the whole list again after each of its objects: a list of 10^6 takes hours.
class Checker final : public nlohmann::json_sax<json> {
 public:
  explicit Checker(int max_depth) : max_depth_(static_cast<std::size_t>(max_depth)) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override { return open(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    constexpr std::size_t longest = 80;
    throw InputError(fmt::format("the field '{}' appears twice in one object", printable(name, longest)));
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // The library's text is "[json.exception…] parse error at line 1, column 2: …", and repeats what it has
    // read last, which may be megabytes.
    constexpr std::size_t longest = 200;
    std::string_view said = error.what();
    if (const std::size_t start = said.find("] "); start != said.npos) said.remove_prefix(start + 2);
    throw InputError(fmt::format("not JSON: {}", printable(said, longest)));
  }

 private:
  bool open() {
    if (keys_.size() >= max_depth_) throw InputError(fmt::format("nested deeper than {} levels", max_depth_));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::size_t max_depth_;
  std::vector<std::set<std::string>> keys_;  ///< of the objects and lists around what is read now
};

template <class Json>
Json parse(std::string_view text, int max_depth) {
  Checker checker(max_depth);
  json::sax_parse(text, &checker);
  return Json::parse(text);
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, int max_depth) {
  return parse<json>(text, max_depth);
}

nlohmann::ordered_json parse_strict_ordered_json(std::string_view text, int max_depth) {
  return parse<nlohmann::ordered_json>(text, max_depth);
}

}  // namespace zero1
