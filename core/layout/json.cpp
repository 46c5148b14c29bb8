#include "core/layout/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/strict_json.h"

namespace zero1 {
namespace {

using nlohmann::json;

/// A value as messages show it, cut where it is long.
std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

[[noreturn]] void fail(const std::string& field, std::string_view expected, const json& found) {
  throw InputError(fmt::format("{}: expected {}, found {}", field, expected, shown(found)));
}

/// The fields of one JSON object, each read under the name that error messages give it.
class Fields {
 public:
  /// `where` is the path of the object, empty for the case itself.
  Fields(const json& object, std::string where, std::initializer_list<std::string_view> known)
      : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail(where_.empty() ? "case" : where_, "an object", object);
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      throw InputError(fmt::format("{}: unknown field; known are {}", path(key), fmt::join(known, ", ")));
    }
  }

  std::string path(std::string_view key) const {
    return fmt::format("{}{}{}", where_, where_.empty() ? "" : ".", key);
  }
  bool has(const char* key) const { return object_.contains(key); }

  const json& at(const char* key) const {
    if (!has(key)) throw InputError(fmt::format("{}: the field is missing", path(key)));
    return object_.at(key);
  }

  const json& array(const char* key) const {
    const json& value = at(key);
    if (!value.is_array()) fail(path(key), "a list", value);
    return value;
  }

  std::string string(const char* key) const {
    const json& value = at(key);
    if (!value.is_string()) fail(path(key), "a string", value);
    return value.get<std::string>();
  }

  bool boolean(const char* key) const {
    const json& value = at(key);
    if (!value.is_boolean()) fail(path(key), "true or false", value);
    return value.get<bool>();
  }

  bool boolean_or_false(const char* key) const { return has(key) && boolean(key); }

  int ranks(const char* key) const {
    const std::int64_t value = integer(at(key), path(key));
    if (value < 1 || value > max_dp_size) fail(path(key), fmt::format("1 to {} ranks", max_dp_size), at(key));
    return static_cast<int>(value);
  }

  static std::int64_t integer(const json& value, const std::string& field) {
    constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= largest;
    if (!value.is_number_integer() || !fits) fail(field, "an integer below 2^63", value);
    return value.get<std::int64_t>();
  }

 private:
  const json& object_;
  std::string where_;
};

ParamSpec parse_param(const json& object, const std::string& where) {
  const Fields fields(object, where, {"name", "shape", "dtype", "shared_embedding", "expert_parallel"});
  ParamSpec spec;
  spec.name = fields.string("name");
  const json& shape = fields.array("shape");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    spec.shape.push_back(Fields::integer(shape[i], fmt::format("{}[{}]", fields.path("shape"), i)));
  }
  const std::optional<DType> dtype = parse_dtype(fields.string("dtype"));
  if (!dtype) fail(fields.path("dtype"), "float32, bfloat16 or float16", fields.at("dtype"));
  spec.dtype = *dtype;
  spec.shared_embedding = fields.boolean_or_false("shared_embedding");
  spec.expert_parallel = fields.boolean_or_false("expert_parallel");
  return spec;
}

/// `case` itself, or an object that holds one and perhaps what it should give.
LayoutFile::Entry parse_entry(const json& object) {
  if (object.is_object() && object.contains("buckets") && !object.contains("params")) {
    throw InputError(
        "this is an `expect`, what `zero1 layout --json` prints of one case; expected the case itself");
  }
  if (!object.is_object() || !object.contains("case")) return {parse_layout_case(object), ""};
  const Fields fields(object, "", {"case", "expect"});
  return {parse_layout_case(fields.at("case")), fields.has("expect") ? fields.array("expect").dump() : ""};
}

}  // namespace

LayoutCase parse_layout_case(const json& object) {
  const Fields fields(object, "",
                      {"name", "params", "dp_size", "expert_dp_size", "bucket_size",
                       "pad_buckets_for_high_nccl_busbw", "grad_reduce_in_fp32"});
  LayoutCase result;
  if (fields.has("name")) result.name = fields.string("name");
  const json& params = fields.array("params");
  result.params.reserve(params.size());
  for (std::size_t i = 0; i < params.size(); ++i) {
    result.params.push_back(parse_param(params[i], fmt::format("params[{}]", i)));
  }
  result.options.dp_size = fields.ranks("dp_size");
  result.options.expert_dp_size = fields.ranks("expert_dp_size");
  if (!fields.at("bucket_size").is_null()) {
    result.options.bucket_size_elems = Fields::integer(fields.at("bucket_size"), "bucket_size");
  }
  result.options.pad_buckets_for_high_nccl_busbw = fields.boolean("pad_buckets_for_high_nccl_busbw");
  result.options.grad_reduce_in_fp32 = fields.boolean("grad_reduce_in_fp32");
  return result;
}

nlohmann::ordered_json layout_case_json(const LayoutCase& layout_case) {
  using nlohmann::ordered_json;
  ordered_json params = ordered_json::array();
  for (const ParamSpec& spec : layout_case.params) {
    ordered_json param = {
        {"name", spec.name}, {"shape", spec.shape}, {"dtype", std::string(name(spec.dtype))}};
    if (spec.shared_embedding) param["shared_embedding"] = true;
    if (spec.expert_parallel) param["expert_parallel"] = true;
    params.push_back(std::move(param));
  }
  const LayoutOptions& options = layout_case.options;
  ordered_json object = ordered_json::object();
  if (!layout_case.name.empty()) object["name"] = layout_case.name;
  object["params"] = std::move(params);
  object["dp_size"] = options.dp_size;
  object["expert_dp_size"] = options.expert_dp_size;
  object["bucket_size"] = nullptr;
  if (options.bucket_size_elems) object["bucket_size"] = *options.bucket_size_elems;
  object["pad_buckets_for_high_nccl_busbw"] = options.pad_buckets_for_high_nccl_busbw;
  object["grad_reduce_in_fp32"] = options.grad_reduce_in_fp32;
  return object;
}

LayoutFile parse_layout_file(std::string_view text, const std::string& source) {
  constexpr int max_depth = 64;
  json root;
  try {
    root = parse_strict_json(text, max_depth);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", source, error.what()));
  }
  LayoutFile file;
  file.is_list = root.is_array();
  const std::size_t count = file.is_list ? root.size() : 1;
  for (std::size_t i = 0; i < count; ++i) {
    try {
      file.entries.push_back(parse_entry(file.is_list ? root[i] : root));
    } catch (const InputError& error) {
      const std::string entry = file.is_list ? fmt::format(" entry [{}]:", i) : "";
      throw InputError(fmt::format("{}:{} {}", source, entry, error.what()));
    }
  }
  return file;
}

}  // namespace zero1
