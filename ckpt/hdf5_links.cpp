// The structures are those of the HDF5 File Format Specification, version 3.0, as far as the library writes
// them by default: superblock 0 or 1, groups as symbol tables, object headers of version 1.
#include "ckpt/hdf5_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "ckpt/hdf5_bytes.h"

namespace zero1::ckpt {
namespace {

constexpr std::uint64_t undefined_address = ~std::uint64_t{0};

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
      : file_(file),
        base_(static_cast<std::uint64_t>(front_bytes)),
        size_(static_cast<std::uint64_t>(file.size_bytes())),
        budget_(16 * size_ + (1 << 20)) {}

  ForeignLinks run() {
    ForeignLinks result;
    try {
      pending_.push_back({root_header(), ""});
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

  /// Work is in proportion to the file: each of its bytes pays for a few bytes that are looked at.
  void spend(std::uint64_t bytes) {
    if (bytes > budget_) throw NotUnderstood{"its structures refer to each other too often"};
    budget_ -= bytes;
  }
  std::string read(std::uint64_t address, std::uint64_t bytes) {
    if (size_ < base_ || address > size_ - base_ || bytes > size_ - base_ - address)
      throw NotUnderstood{"a structure lies outside of the file"};
    spend(bytes);
    std::string found(static_cast<std::size_t>(bytes), '\0');
    file_.read_at(static_cast<std::int64_t>(base_ + address), found.data(), static_cast<std::int64_t>(bytes));
    return found;
  }
  static void expect(Bytes& bytes, std::string_view signature) {
    if (bytes.take(signature.size()) != signature)
      throw NotUnderstood{fmt::format("a structure does not begin with {}", signature)};
  }

  std::uint64_t root_header() {
    const std::string block = read(0, 100);
    Bytes bytes(block);
    expect(bytes, "\x89HDF\r\n\x1a\n");
    const std::uint64_t version = bytes.number(1);
    if (version > 1) throw NotUnderstood{fmt::format("HDF5's superblock has version {}", version)};
    bytes.take(4);
    if (bytes.number(1) != 8 || bytes.number(1) != 8) throw NotUnderstood{"addresses are not of 8 bytes"};
    bytes.take(version == 0 ? 9 : 13);
    if (bytes.number(8) != base_) throw NotUnderstood{"addresses do not count from HDF5's first byte"};
    bytes.take(3 * 8 + 8);
    return bytes.number(8);
  }

  void visit(const Object& object) {
    if (!seen_.insert(object.header).second) {
      add(fmt::format("{} is a second name of an object", path_of(object)));
      return;
    }
    const std::string start = read(object.header, 16);
    Bytes header(start);
    const std::uint64_t version = header.number(1);
    if (version != 1)
      throw NotUnderstood{fmt::format("{}: an object header of version {}", path_of(object), version)};
    header.take(7);
    blocks_ = {{object.header + 16, header.number(4)}};
    while (!blocks_.empty()) {
      const auto [address, bytes] = blocks_.back();
      blocks_.pop_back();
      const std::string block = read(address, bytes);
      for (Bytes messages(block); messages.left() >= 8;) {
        const std::uint64_t type = messages.number(2);
        const std::uint64_t size = messages.number(2);
        messages.take(4);
        message(object, type, messages.take(size));
      }
    }
  }

  void message(const Object& object, std::uint64_t type, std::string_view content) {
    Bytes bytes(content);
    switch (type) {
      case 0x02: link_info(object, bytes); break;
      case 0x06: link(object, bytes); break;
      case 0x07: add(fmt::format("{} has its data in external files", path_of(object))); break;
      case 0x08: data_layout(object, bytes); break;
      case 0x10: {
        const std::uint64_t address = bytes.number(8);
        blocks_.emplace_back(address, bytes.number(8));
        break;
      }
      case 0x11: {
        const std::uint64_t tree = bytes.number(8);
        symbol_table(object, tree, bytes.number(8));
        break;
      }
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
    const std::string head = read(heap, header_bytes);
    Bytes header(head);
    expect(header, "FRHP");
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
      const std::string block = read(address, bytes);
      Bytes links(block);
      expect(links, "FHDB");
      links.take(prefix - 4 + (checksums ? 4 : 0));
      constexpr char link_version = 1;
      while (links.left() > 4 && links.next() == link_version) link(object, links);
    };
    if (rows == 0) return name_links_of_block(root, smallest);
    const std::string table = read(root, prefix + rows * width * 8);
    Bytes blocks(table);
    expect(blocks, "FHIB");
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
    spend(object.path.size());
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
    const std::string head = read(address, 16);
    Bytes bytes(head);
    expect(bytes, "GCOL");
    bytes.take(4);
    const std::uint64_t collection = bytes.number(8);
    auto& known = collections_[address];
    if (known.empty()) {
      for (std::uint64_t at = 16; collection >= 16 && at <= collection - 16;) {
        const std::string entry = read(address + at, 16);
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
    return read(address + place->second.first, place->second.second);
  }

  void symbol_table(const Object& object, std::uint64_t tree, std::uint64_t heap) {
    const std::string head = read(heap, 32);
    Bytes fields(head);
    expect(fields, "HEAP");
    fields.take(4);
    const std::uint64_t names_bytes = fields.number(8);
    fields.take(8);
    const std::string names = read(fields.number(8), names_bytes);
    std::vector<std::uint64_t> nodes{tree};
    while (!nodes.empty()) {
      const std::uint64_t node = nodes.back();
      nodes.pop_back();
      if (!seen_.insert(node).second) throw NotUnderstood{"a node of a group is used twice"};
      const std::string start = read(node, 8);
      if (start.starts_with("TREE")) {
        tree_node(node, start, nodes);
      } else {
        symbols(object, node, start, names);
      }
    }
  }

  void tree_node(std::uint64_t node, const std::string& start, std::vector<std::uint64_t>& nodes) {
    Bytes head(start);
    head.take(6);
    const std::uint64_t entries = head.number(2);
    const std::string content = read(node + 24, entries * 16);
    Bytes bytes(content);
    for (std::uint64_t i = 0; i < entries; ++i) {
      bytes.take(8);
      nodes.push_back(bytes.number(8));
    }
  }

  void symbols(const Object& object, std::uint64_t node, const std::string& start, const std::string& names) {
    Bytes head(start);
    expect(head, "SNOD");
    head.take(2);
    const std::uint64_t entries = head.number(2);
    const auto name_at = [&](std::uint64_t offset) {
      Bytes rest(names);
      rest.take(offset);
      return rest.text();
    };
    const std::string content = read(node + 8, entries * 40);
    Bytes bytes(content);
    for (std::uint64_t i = 0; i < entries; ++i) {
      const std::string_view name = name_at(bytes.number(8));
      const std::uint64_t header = bytes.number(8);
      const std::uint64_t cached = bytes.number(4);
      bytes.take(4);
      Bytes scratch(bytes.take(16));
      spend(name.size());
      if (cached == 2) {
        soft_link(object, name, name_at(scratch.number(4)));
      } else {
        pending_.push_back({header, child(object, name)});
      }
    }
  }

  const InputFile& file_;
  std::uint64_t base_;
  std::uint64_t size_;
  std::uint64_t budget_;
  std::vector<Object> pending_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks_;  ///< of the object being visited
  std::set<std::uint64_t> seen_;                                 ///< object headers and nodes
  /// By address: where each object lies in it, and its size.
  std::map<std::uint64_t, std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>> collections_;
  std::vector<std::string> found_;
};

}  // namespace

ForeignLinks find_foreign_links(const InputFile& file, std::int64_t front_bytes) {
  return Search(file, front_bytes).run();
}

}  // namespace zero1::ckpt
