#include "viz/model/run_settings.h"

#include <nlohmann/json.hpp>

namespace zero1::viz {

bool run_flag(const trace::RunInfo& info, const char* field, bool otherwise) {
  const auto json = nlohmann::json::parse(info.config_json, nullptr, false);
  if (!json.is_object()) return otherwise;
  const auto found = json.find(field);
  return found != json.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

}  // namespace zero1::viz
