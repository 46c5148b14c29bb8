// How tensors that were found fit those that are wanted, and which flags would help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "core/data/name_rules.h"
#include "core/data/square_matrices.h"

namespace zero1 {
namespace {

std::string stored_as(const MappedTensor& tensor) {
  return tensor.name == tensor.stored ? "" : fmt::format(" (stored as {})", printable(tensor.stored));
}

class Comparison {
 public:
  Comparison(const std::vector<NamedShape>& wanted, const std::vector<MappedTensor>& found)
      : wanted_(wanted), found_(found), turned_(found.size()) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      turned_[i] = found[i].transposed;
      if (!found[i].excluded) by_name_[found[i].name] = i;
    }
  }

  TensorFit run() {
    for (const NamedShape& each : wanted_) compare(each);
    for (const MappedTensor& tensor : found_) {
      if (tensor.excluded || !by_name_.contains(tensor.name)) continue;
      fit_.faults += fmt::format("\n  unexpected: {} [{}]{}", printable(tensor.name),
                                 fmt::join(tensor.shape, ", "), stored_as(tensor));
      unexpected_.push_back(&tensor);
    }
    advise();
    return std::move(fit_);
  }

 private:
  void compare(const NamedShape& wanted) {
    const auto place = by_name_.find(wanted.name);
    if (place == by_name_.end()) {
      const bool excluded = std::any_of(found_.begin(), found_.end(), [&](const MappedTensor& each) {
        return each.excluded && each.stored == wanted.name;
      });
      fit_.faults += fmt::format("\n  missing: {} [{}]{}", printable(wanted.name),
                                 fmt::join(wanted.shape, ", "), excluded ? " (left out by --exclude)" : "");
      if (!excluded) missing_.push_back(&wanted);
      return;
    }
    const std::size_t index = place->second;
    const MappedTensor& tensor = found_[index];
    by_name_.erase(place);
    if (tensor.shape == wanted.shape) return;
    const bool fits_turned = wanted.is_matrix() && tensor.shape.size() == 2 &&
                             tensor.shape[0] == wanted.shape[1] && tensor.shape[1] == wanted.shape[0];
    fit_.faults += fmt::format("\n  {}: shape [{}], expected [{}]{}{}", printable(tensor.name),
                               fmt::join(tensor.shape, ", "), fmt::join(wanted.shape, ", "),
                               !fits_turned        ? ""
                               : tensor.transposed ? ", which it has as it is stored"
                                                   : ", which it has when transposed",
                               stored_as(tensor));
    if (!fits_turned) return;
    turned_[index] = !tensor.transposed;
    (tensor.transposed ? turned_wrongly_ : to_turn_).push_back(tensor.stored);
  }

  void advise() {
    if (!to_turn_.empty()) {
      fit_.advice += fmt::format(
          "\nMatrices are stored [in, out] (transformers' Conv1D) where [out, in] is "
          "expected; --transpose '{}' transposes them",
          pattern_for(to_turn_));
      const std::vector<std::string> squares = undecided_squares(found_, turned_);
      if (!squares.empty()) {
        fit_.advice += fmt::format(
            "; square ones fit either way, so that --transpose or --no-transpose must "
            "name them too: '{}'",
            pattern_for(squares));
      }
    }
    if (!turned_wrongly_.empty())
      fit_.advice += fmt::format("\nLeave matrices as they are stored with --no-transpose '{}'",
                                 pattern_for(turned_wrongly_));
    const std::string rename = rename_by_prefix();
    if (!rename.empty()) {
      fit_.advice += fmt::format("\nThe names differ in what they begin with: --rename '{}'", rename);
    } else if (!missing_.empty() && !unexpected_.empty()) {
      fit_.advice += "\nGive tensors other names with --rename OLD=NEW";
    }
    if (!unexpected_.empty()) fit_.advice += "\nLeave tensors out with --exclude PATTERN";
  }

  /// What is missing is there, behind one and the same prefix, or without one that is wanted.
  std::string rename_by_prefix() const {
    if (missing_.empty()) return "";
    constexpr std::size_t tried = 8;  // time in proportion to the names
    for (const MappedTensor* tensor : unexpected_) {
      for (std::size_t m = 0; m < std::min(tried, missing_.size()); ++m) {
        const NamedShape* each = missing_[m];
        if (tensor->name.ends_with("." + each->name)) {
          const std::string prefix = tensor->name.substr(0, tensor->name.size() - each->name.size());
          if (most_are_there(prefix, "")) return without_dot(prefix) + "\\.(.*)=\\1";
        } else if (each->name.ends_with("." + tensor->name)) {
          const std::string prefix = each->name.substr(0, each->name.size() - tensor->name.size());
          if (most_are_there("", prefix)) return "(.*)=" + prefix + "\\1";
        }
      }
    }
    return "";
  }
  static std::string without_dot(const std::string& prefix) {
    return pattern_for({prefix.substr(0, prefix.size() - 1)});
  }
  bool most_are_there(const std::string& found_prefix, const std::string& wanted_prefix) const {
    const auto there = std::count_if(missing_.begin(), missing_.end(), [&](const NamedShape* each) {
      return each->name.starts_with(wanted_prefix) &&
             by_name_.contains(found_prefix + each->name.substr(wanted_prefix.size()));
    });
    return 2 * there > static_cast<std::ptrdiff_t>(missing_.size());
  }

  const std::vector<NamedShape>& wanted_;
  const std::vector<MappedTensor>& found_;
  std::map<std::string, std::size_t> by_name_;  ///< of what is found and not yet wanted
  std::vector<bool> turned_;
  std::vector<const NamedShape*> missing_;
  std::vector<const MappedTensor*> unexpected_;
  std::vector<std::string> to_turn_, turned_wrongly_;
  TensorFit fit_;
};

}  // namespace

TensorFit compare_tensors(const std::vector<NamedShape>& wanted, const std::vector<MappedTensor>& found) {
  return Comparison(wanted, found).run();
}

}  // namespace zero1
