#include "core/trace/format.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace zero1::trace::format {

using Json = nlohmann::ordered_json;

std::uint64_t checksum(const void* data, std::size_t bytes) {
  return XXH3_64bits(data, bytes);
}

std::string to_json(const RunInfo& info) {
  Json buckets = Json::array();
  for (const RunInfo::Bucket& bucket : info.buckets) {
    buckets.push_back(
        {{"buffer", bucket.buffer}, {"start", bucket.start}, {"end", bucket.end}, {"bytes", bucket.bytes}});
  }
  const Json config = Json::parse(info.config_json, nullptr, false);
  if (config.is_discarded()) throw InputError("trace: RunInfo::config_json is not JSON: " + info.config_json);
  const Json layout = Json::parse(info.layout_json, nullptr, false);
  if (layout.is_discarded()) throw InputError("trace: RunInfo::layout_json is not JSON: " + info.layout_json);
  const Json json{{"ranks", info.ranks},
                  {"params", info.params},
                  {"layers", info.layers},
                  {"buckets", std::move(buckets)},
                  {"config", config},
                  {"layout", layout},
                  {"clock_uncertainty_ns", info.clock_uncertainty_ns}};
  // A name that is not UTF-8 must not cost the run its trace.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

/// Reads fields out of the file's JSON; every error names file and field.
class InfoParser {
 public:
  InfoParser(const Json& json, const std::string& path) : json_(json), path_(path) {}

  RunInfo parse() const {
    RunInfo info;
    info.ranks = static_cast<int>(integer(json_, "ranks", 1, max_ranks));
    info.params = names("params");
    info.layers = names("layers");
    for (const Json& bucket : field(json_, "buckets", Json::value_t::array)) {
      if (!bucket.is_object()) fail("buckets", "an array of objects");
      info.buckets.push_back({static_cast<int>(integer(bucket, "buffer", 0, INT32_MAX)),
                              integer(bucket, "start", 0, INT64_MAX), integer(bucket, "end", 0, INT64_MAX),
                              integer(bucket, "bytes", 0, INT64_MAX)});
    }
    info.config_json = dump(field(json_, "config", Json::value_t::null));
    if (json_.contains("layout"))
      info.layout_json = dump(json_["layout"]);  // the first files of version 1 lack it
    info.clock_uncertainty_ns = integer(json_, "clock_uncertainty_ns", 0, INT64_MAX);
    return info;
  }

 private:
  static std::string dump(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    throw InputError(
        fmt::format("{}: the run information's field \"{}\" is not {}; the file is damaged or not ours",
                    path_, key, expected));
  }

  /// Type null: any type.
  const Json& field(const Json& object, const char* key, Json::value_t type) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(key, "there");
    if (type == Json::value_t::array && !found->is_array()) fail(key, "an array");
    return *found;
  }

  std::int64_t integer(const Json& object, const char* key, std::int64_t least, std::int64_t most) const {
    const Json& value = field(object, key, Json::value_t::null);
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
      fail(key, "a whole number");
    }
    const auto number = value.get<std::int64_t>();
    if (number < least || number > most) fail(key, fmt::format("in {} … {}, but {}", least, most, number));
    return number;
  }

  std::vector<std::string> names(const char* key) const {
    std::vector<std::string> result;
    for (const Json& value : field(json_, key, Json::value_t::array)) {
      if (!value.is_string()) fail(key, "an array of strings");
      result.push_back(value.get<std::string>());
    }
    return result;
  }

  const Json& json_;
  const std::string& path_;
};

}  // namespace

RunInfo from_json(std::string_view text, const std::string& path) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object())
    throw InputError(path + ": the run information is not a JSON object; the file is damaged");
  return InfoParser(json, path).parse();
}

}  // namespace zero1::trace::format
