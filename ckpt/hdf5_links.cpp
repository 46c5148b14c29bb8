#include "ckpt/hdf5_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "ckpt/hdf5_walk.h"

namespace zero1::ckpt {
namespace {

bool is_rank_file(std::string_view name) {
  constexpr std::string_view prefix = "rank_";
  constexpr std::string_view suffix = ".h5";
  if (name.size() < prefix.size() + 5 + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix))
    return false;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Search {
 public:
  Search(const InputFile& file, std::int64_t front_bytes)
      : walk_(file, front_bytes), size_(static_cast<std::uint64_t>(file.size_bytes())) {}

  ForeignLinks run() {
    ForeignLinks result;
    try {
      pending_.push_back({walk_.root_header(), ""});
      while (!pending_.empty()) {
        const Object object = std::move(pending_.back());
        pending_.pop_back();
        visit(object);
      }
    } catch (const NotUnderstood& error) {
      result.unseen = error.why;
    }
    result.found = std::move(found_);
    return result;
  }

 private:
  struct Object {
    std::uint64_t header;
    std::string path;  ///< "" for the root
  };

  static std::string path_of(const Object& object) { return object.path.empty() ? "/" : shown(object.path); }
  void add(std::string line) {
    constexpr std::size_t most = 100;
    if (found_.size() == most) throw NotUnderstood{"there are more"};
    found_.push_back(std::move(line));
  }

  void visit(const Object& object) {
    if (!seen_.insert(object.header).second) {
      add(fmt::format("{} is a second name of an object", path_of(object)));
      return;
    }
    walk_.for_each_message(object.header, path_of(object), [&](Hdf5Message type, std::string_view content) {
      message(object, type, content);
    });
  }

  void message(const Object& object, Hdf5Message type, std::string_view content) {
    Bytes bytes(content);
    switch (type) {
      case Hdf5Message::link_info: link_info(object, bytes); break;
      case Hdf5Message::link: link(object, bytes); break;
      case Hdf5Message::external_files:
        add(fmt::format("{} has its data in external files", path_of(object)));
        break;
      case Hdf5Message::data_layout: data_layout(object, bytes); break;
      case Hdf5Message::symbol_table: symbol_table(object, content); break;
      default: break;
    }
  }

  void link_info(const Object& object, Bytes& bytes) {
    bytes.take(1);
    bytes.take((bytes.number(1) & 1) != 0 ? 8 : 0);
    const std::uint64_t heap = bytes.number(8);
    if (heap == undefined_address) return;
    name_links_of_heap(object, heap);
    throw NotUnderstood{fmt::format("{} keeps its links in a heap of its own", path_of(object))};
  }

  /// HDF5 moves a group's links there once it holds an external one and has many. Blocks are filled with one
  /// link behind the other; in a heap that has changed often there may be gaps, and some links stay unseen.
  void name_links_of_heap(const Object& object, std::uint64_t heap) {
    constexpr std::uint64_t header_bytes = 142;
    const std::string head = walk_.read(heap, header_bytes);
    Bytes header(head);
    Hdf5Walk::expect(header, "FRHP");
    header.take(5);
    const bool checksums = (header.number(1) & 2) != 0;
    header.take(4 + 12 * 8);
    const std::uint64_t width = header.number(2);
    const std::uint64_t smallest = header.number(8);
    const std::uint64_t largest = header.number(8);
    const std::uint64_t offset_bytes = (header.number(2) + 7) / 8;
    header.take(2);
    const std::uint64_t root = header.number(8);
    const std::uint64_t rows = header.number(2);
    const std::uint64_t prefix = 4 + 1 + 8 + offset_bytes;
    const auto name_links_of_block = [&](std::uint64_t address, std::uint64_t bytes) {
      const std::string block = walk_.read(address, bytes);
      Bytes links(block);
      Hdf5Walk::expect(links, "FHDB");
      links.take(prefix - 4 + (checksums ? 4 : 0));
      constexpr char link_version = 1;
      while (links.left() > 4 && links.next() == link_version) link(object, links);
    };
    if (rows == 0) return name_links_of_block(root, smallest);
    const std::string table = walk_.read(root, prefix + rows * width * 8);
    Bytes blocks(table);
    Hdf5Walk::expect(blocks, "FHIB");
    blocks.take(prefix - 4);
    std::uint64_t block_bytes = smallest;  // of the first two rows; then it doubles
    for (std::uint64_t row = 0; row < rows && block_bytes <= largest; ++row) {
      for (std::uint64_t i = 0; i < width; ++i) {
        const std::uint64_t address = blocks.number(8);
        if (address != undefined_address) name_links_of_block(address, block_bytes);
      }
      if (row > 0) block_bytes *= 2;
    }
  }

  void link(const Object& object, Bytes& bytes) {
    bytes.take(1);
    const std::uint64_t flags = bytes.number(1);
    const std::uint64_t type = (flags & 8) != 0 ? bytes.number(1) : 0;
    bytes.take((flags & 4) != 0 ? 8 : 0);
    bytes.take((flags & 16) != 0 ? 1 : 0);
    const std::string_view name = bytes.take(bytes.number(1 << (flags & 3)));
    if (type == 0) {
      pending_.push_back({bytes.number(8), child(object, name)});
      return;
    }
    Bytes value(bytes.take(bytes.number(2)));
    if (type == 1) {
      soft_link(object, name, value.take(value.left()));
    } else if (type == 64) {
      value.take(1);
      const std::string_view file = value.text();
      add(fmt::format("{} is an external link to {}:{}", shown(child(object, name)), shown(file),
                      shown(value.text())));
    } else {
      add(fmt::format("{} is a link of kind {}", shown(child(object, name)), type));
    }
  }

  std::string child(const Object& object, std::string_view name) {
    walk_.spend(object.path.size());
    return object.path + "/" + std::string(name);
  }
  void soft_link(const Object& object, std::string_view name, std::string_view to) {
    add(fmt::format("{} is a soft link to {}", shown(child(object, name)), shown(to)));
  }

  void data_layout(const Object& object, Bytes& bytes) {
    constexpr std::uint64_t virtual_class = 3;
    const std::uint64_t version = bytes.number(1);
    const std::uint64_t kind = bytes.number(1);
    if (version < 3) return;
    if (version > 4)
      throw NotUnderstood{fmt::format("{}: a data layout of version {}", path_of(object), version)};
    if (kind != virtual_class) return;
    const std::uint64_t heap = bytes.number(8);
    const std::uint64_t index = bytes.number(4);
    if (heap != undefined_address) virtual_sources(object, heap, index);  // else it maps nothing
  }

  void virtual_sources(const Object& object, std::uint64_t heap, std::uint64_t index) {
    const std::string mapping = heap_object(heap, index);
    Bytes bytes(mapping);
    const std::uint64_t version = bytes.number(1);
    if (version != 0)
      throw NotUnderstood{fmt::format("{}: a virtual dataset of version {}", path_of(object), version)};
    std::string_view last;
    for (std::uint64_t entries = bytes.number(8); entries > 0; --entries) {
      const std::string_view file = bytes.text();
      bytes.text();
      skip_selection(bytes);
      skip_selection(bytes);
      if (!is_rank_file(file) && file != last)
        add(fmt::format("{} is put together out of {}", path_of(object), shown(file)));
      last = file;
    }
  }

  /// An object of a global heap's collection.
  std::string heap_object(std::uint64_t address, std::uint64_t index) {
    // One collection holds many datasets' mappings: it is read object by object, each once.
    const std::string head = walk_.read(address, 16);
    Bytes bytes(head);
    Hdf5Walk::expect(bytes, "GCOL");
    bytes.take(4);
    const std::uint64_t collection = bytes.number(8);
    auto& known = collections_[address];
    if (known.empty()) {
      for (std::uint64_t at = 16; collection >= 16 && at <= collection - 16;) {
        const std::string entry = walk_.read(address + at, 16);
        Bytes fields(entry);
        const std::uint64_t found = fields.number(2);
        fields.take(6);
        const std::uint64_t size = fields.number(8);
        if (found == 0) break;  // what is free
        known[found] = {at + 16, size};
        if (size > size_) break;
        at += 16 + (size + 7) / 8 * 8;
      }
    }
    const auto place = known.find(index);
    if (place == known.end()) throw NotUnderstood{"a virtual dataset's mapping is not where it should be"};
    return walk_.read(address + place->second.first, place->second.second);
  }

  void symbol_table(const Object& object, std::string_view message) {
    walk_.for_each_symbol(message, [&](const Hdf5Walk::Symbol& symbol) {
      if (symbol.is_soft_link) {
        soft_link(object, symbol.name, symbol.soft_link);
      } else {
        pending_.push_back({symbol.header, child(object, symbol.name)});
      }
    });
  }

  Hdf5Walk walk_;
  std::uint64_t size_;
  std::vector<Object> pending_;
  std::set<std::uint64_t> seen_;  ///< object headers
  /// By address: where each object lies in it, and its size.
  std::map<std::uint64_t, std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>> collections_;
  std::vector<std::string> found_;
};

}  // namespace

ForeignLinks find_foreign_links(const InputFile& file, std::int64_t front_bytes) {
  return Search(file, front_bytes).run();
}

}  // namespace zero1::ckpt
