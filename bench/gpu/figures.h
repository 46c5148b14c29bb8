// What gpu_bench measures: every figure with its bound, printed as a table and kept as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace zero1::bench {

/// One line of the table. The bound was measured in the same run, in the same unit.
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;  ///< "GB/s": higher is better for every unit that has a bound
  std::optional<double> bound;
  std::string bound_name;      ///< "copy"
  std::optional<double> goal;  ///< for value / bound
  std::string note;            ///< the formula, sizes, counts
};

class Figures {
 public:
  /// Prints a heading; what is added next belongs to it.
  void begin_section(const std::string& title);
  void add(const Figure& figure);
  void skip(const std::string& why);  ///< this section cannot be measured here

  /// {"sections": [{"title", "skipped", "figures": [{"name", "value", "unit", "bound", "bound_name", "ratio",
  /// "goal", "met", "note"}]}]}; absent bounds and goals are null.
  const nlohmann::ordered_json& json() const { return json_; }

 private:
  nlohmann::ordered_json json_ = {{"sections", nlohmann::ordered_json::array()}};
};

}  // namespace zero1::bench
