// Walks through an HDF5 file without an HDF5 library: on bytes that somebody made up, those crash or allocate
// without bound. The structures are those of the HDF5 File Format Specification, version 3.0, as far as the
// library writes them by default: superblock 0 or 1, groups as symbol tables, object headers of version 1.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ckpt/hdf5_bytes.h"
#include "core/data/input_file.h"

namespace zero1::ckpt {

inline constexpr std::uint64_t undefined_address = ~std::uint64_t{0};

/// The types of an object header's messages that somebody looks at.
enum class Hdf5Message : std::uint16_t {
  dataspace = 0x01,
  link_info = 0x02,
  datatype = 0x03,
  link = 0x06,
  external_files = 0x07,
  data_layout = 0x08,
  attribute = 0x0C,
  continuation = 0x10,
  symbol_table = 0x11,
};

/// Throws NotUnderstood where the file is damaged or has other structures. Takes time and memory in
/// proportion to the file's size, whatever is in it.
class Hdf5Walk {
 public:
  /// HDF5's own bytes begin at `user_block_bytes`, where addresses count from. `file` outlives it.
  Hdf5Walk(const InputFile& file, std::int64_t user_block_bytes);

  /// Where the root group's object header lies.
  std::uint64_t root_header();

  /// The bytes at an address.
  std::string read(std::uint64_t address, std::uint64_t bytes);
  /// Work is in proportion to the file: each of its bytes pays for a few bytes that are looked at.
  void spend(std::uint64_t bytes);
  static void expect(Bytes& bytes, std::string_view signature);

  /// Calls `visit(type, content)` for the messages of an object header, but for those that continue it.
  /// `name` is for messages to people.
  template <class Visit>
  void for_each_message(std::uint64_t header, const std::string& name, Visit&& visit) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks{messages_of(header, name)};
    while (!blocks.empty()) {
      const auto [address, bytes] = blocks.back();
      blocks.pop_back();
      const std::string block = read(address, bytes);
      for (Bytes messages(block); messages.left() >= 8;) {
        const auto type = static_cast<Hdf5Message>(messages.number(2));
        const std::uint64_t size = messages.number(2);
        messages.take(4);
        const std::string_view content = messages.take(size);
        if (type == Hdf5Message::continuation) {
          Bytes next(content);
          const std::uint64_t at = next.number(8);
          blocks.emplace_back(at, next.number(8));
        } else {
          visit(type, content);
        }
      }
    }
  }

  /// One entry of a group.
  struct Symbol {
    std::string_view name;
    std::uint64_t header = 0;
    bool is_soft_link = false;
    std::string_view soft_link;  ///< where it leads
  };
  /// Calls `visit(symbol)` for the entries of the group that a symbol table message describes.
  template <class Visit>
  void for_each_symbol(std::string_view symbol_table_message, Visit&& visit) {
    Bytes message(symbol_table_message);
    std::vector<std::uint64_t> nodes{message.number(8)};
    const std::string names = names_of(message.number(8));
    while (!nodes.empty()) {
      const std::uint64_t node = nodes.back();
      nodes.pop_back();
      visit_symbols_of(node, names, nodes, visit);
    }
  }

 private:
  std::pair<std::uint64_t, std::uint64_t> messages_of(std::uint64_t header, const std::string& name);
  std::string names_of(std::uint64_t heap);
  /// Of a leaf; an inner node's children go to `nodes`.
  void visit_symbols_of(std::uint64_t node, std::string_view names, std::vector<std::uint64_t>& nodes,
                        const std::function<void(const Symbol&)>& visit);

  const InputFile& file_;
  std::uint64_t base_;
  std::uint64_t size_;
  std::uint64_t budget_;
  std::set<std::uint64_t> nodes_;  ///< of groups, seen so far
};

}  // namespace zero1::ckpt
