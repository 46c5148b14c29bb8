// Takes HDF5's structures apart, without an HDF5 library and without believing a number in them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/text.h"

namespace zero1::ckpt {

/// The search ends here.
struct NotUnderstood {
  std::string why;
};

/// Names come from the file: as short as a message can be, and without what moves a terminal's cursor.
inline std::string shown(std::string_view name) {
  constexpr std::size_t longest = 200;
  return printable(name, longest);
}

/// Bytes read front to back; what goes beyond their end is not understood.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) throw NotUnderstood{"a structure ends too early"};
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::uint64_t number(int size) {
    std::uint64_t value = 0;
    const std::string_view bytes = take(static_cast<std::uint64_t>(size));
    for (int i = size - 1; i >= 0; --i) {
      value = value << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    }
    return value;
  }
  std::string_view text() {
    const std::size_t end = rest_.find('\0');
    if (end == std::string_view::npos) throw NotUnderstood{"a name does not end"};
    const std::string_view found = take(end);
    take(1);
    return found;
  }
  std::uint64_t left() const { return rest_.size(); }
  char next() const { return rest_.front(); }  ///< there must be one left

 private:
  std::string_view rest_;
};

/// A selection of elements, as virtual datasets store it.
inline void skip_selection(Bytes& bytes) {
  constexpr std::uint64_t points = 1;
  constexpr std::uint64_t hyperslab = 2;
  const std::uint64_t type = bytes.number(4);
  const std::uint64_t version = bytes.number(4);
  if (version == 1) {
    bytes.take(4);
    bytes.take(bytes.number(4));
  } else if (type == hyperslab && version == 2) {
    bytes.take(1);
    bytes.take(bytes.number(4));
  } else if (type == hyperslab && version == 3) {
    const bool regular = (bytes.number(1) & 1) != 0;
    const auto size = static_cast<int>(bytes.number(1));
    const std::uint64_t rank = bytes.number(4);
    if (size > 8) throw NotUnderstood{"a selection's numbers are too large"};
    const std::uint64_t numbers = regular ? 4 : 2 * bytes.number(size);
    if (rank > 32 || numbers > bytes.left()) throw NotUnderstood{"a selection is too large"};
    bytes.take(numbers * rank * static_cast<std::uint64_t>(size));
  } else {
    throw NotUnderstood{fmt::format("a selection of type {}, version {}{}", type, version,
                                    type == points ? " (points)" : "")};
  }
}

}  // namespace zero1::ckpt
