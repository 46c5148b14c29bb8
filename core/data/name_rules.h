// What --rename, --exclude, --transpose and --no-transpose make of the tensors of a file or checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zero1 {

/// The flags' values as given. Every pattern is matched against whole names as they are stored: the name
/// itself, or else a regular expression (ECMAScript). Of several renames the first that matches decides.
struct NameRules {
  std::vector<std::string> renames;     ///< OLD=NEW; \1 to \9 in NEW are OLD's groups, \0 the whole name
  std::vector<std::string> excludes;    ///< tensors to leave out
  std::vector<std::string> transposes;  ///< matrices to transpose
  std::vector<std::string> as_stored;   ///< matrices to leave as they are, also where `transposes` match

  bool empty() const {
    return renames.empty() && excludes.empty() && transposes.empty() && as_stored.empty();
  }
  friend bool operator==(const NameRules&, const NameRules&) = default;
};

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;

  bool is_matrix() const { return shape.size() == 2; }
};

/// One tensor, as it is stored and as it is taken.
struct MappedTensor {
  std::string stored;               ///< its name in the source
  std::string name;                 ///< its name from now on
  std::vector<std::int64_t> shape;  ///< from now on
  bool excluded = false;
  bool transposed = false;
  bool orientation_said = false;  ///< --transpose or --no-transpose names it
  bool is_state = false;          ///< follows the parameter that it belongs to

  std::vector<std::int64_t> stored_shape() const {
    return transposed ? std::vector<std::int64_t>{shape[1], shape[0]} : shape;
  }
};

/// Whether NAME.exp_avg and NAME.exp_avg_sq beside a tensor NAME are its optimizer states, which follow it.
enum class StateTensors { beside, none };

/// Applies the rules; one entry per tensor, in their order. `source` begins the messages. Throws InputError
/// when a rule is malformed or decides nothing, when two tensors would get one name, when what is to be
/// transposed has three or more dimensions, and when square matrices are left undecided while others of
/// their kind are transposed: their shape cannot tell.
std::vector<MappedTensor> map_tensors(const NameRules& rules, const std::vector<NamedShape>& tensors,
                                      StateTensors states, const std::string& source);

/// What the rules did, for people: a line each for tensors left out and transposed, naming the first few.
std::vector<std::string> describe(const std::vector<MappedTensor>& tensors);

/// How what was found fits what is wanted. Both empty when it does.
struct TensorFit {
  std::string faults;  ///< a line each, "\n  missing: w [3]"; also unexpected, and other shapes
  std::string advice;  ///< lines that name the flags that would help
};
/// Compares by name; tensors that are left out do not count as found.
TensorFit compare_tensors(const std::vector<NamedShape>& wanted, const std::vector<MappedTensor>& found);

/// Whether `a` comes before `b` where runs of digits count as numbers: h.2 before h.10.
bool natural_less(std::string_view a, std::string_view b);

/// [rows, columns] in `values` becomes [columns, rows].
std::vector<float> transpose(const std::vector<float>& values, std::int64_t rows, std::int64_t columns);

}  // namespace zero1
