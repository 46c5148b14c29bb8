#include "ckpt/hdf5_walk.h"

#include <fmt/format.h>

namespace zero1::ckpt {

Hdf5Walk::Hdf5Walk(const InputFile& file, std::int64_t user_block_bytes)
    : file_(file),
      base_(static_cast<std::uint64_t>(user_block_bytes)),
      size_(static_cast<std::uint64_t>(file.size_bytes())),
      budget_(16 * size_ + (1 << 20)) {}

void Hdf5Walk::spend(std::uint64_t bytes) {
  if (bytes > budget_) throw NotUnderstood{"its structures refer to each other too often"};
  budget_ -= bytes;
}

std::string Hdf5Walk::read(std::uint64_t address, std::uint64_t bytes) {
  if (size_ < base_ || address > size_ - base_ || bytes > size_ - base_ - address)
    throw NotUnderstood{"a structure lies outside of the file"};
  spend(bytes);
  std::string found(static_cast<std::size_t>(bytes), '\0');
  file_.read_at(static_cast<std::int64_t>(base_ + address), found.data(), static_cast<std::int64_t>(bytes));
  return found;
}

void Hdf5Walk::expect(Bytes& bytes, std::string_view signature) {
  if (bytes.take(signature.size()) != signature)
    throw NotUnderstood{fmt::format("a structure does not begin with {}", signature)};
}

std::uint64_t Hdf5Walk::root_header() {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  constexpr std::uint64_t superblock_bytes = 100;
  const std::string block = size_ < base_ + superblock_bytes ? "" : read(0, superblock_bytes);
  if (!block.starts_with(signature)) throw NotUnderstood{"it does not begin as an HDF5 file does"};
  Bytes bytes(block);
  bytes.take(signature.size());
  const std::uint64_t version = bytes.number(1);
  if (version > 1) throw NotUnderstood{fmt::format("HDF5's superblock has version {}", version)};
  bytes.take(4);
  if (bytes.number(1) != 8 || bytes.number(1) != 8) throw NotUnderstood{"addresses are not of 8 bytes"};
  bytes.take(version == 0 ? 9 : 13);
  if (bytes.number(8) != base_) throw NotUnderstood{"addresses do not count from HDF5's first byte"};
  bytes.take(3 * 8 + 8);
  return bytes.number(8);
}

std::pair<std::uint64_t, std::uint64_t> Hdf5Walk::messages_of(std::uint64_t header, const std::string& name) {
  const std::string start = read(header, 16);
  Bytes bytes(start);
  const std::uint64_t version = bytes.number(1);
  if (version != 1) throw NotUnderstood{fmt::format("{}: an object header of version {}", name, version)};
  bytes.take(7);
  return {header + 16, bytes.number(4)};
}

std::string Hdf5Walk::names_of(std::uint64_t heap) {
  const std::string head = read(heap, 32);
  Bytes fields(head);
  expect(fields, "HEAP");
  fields.take(4);
  const std::uint64_t names_bytes = fields.number(8);
  fields.take(8);
  return read(fields.number(8), names_bytes);
}

void Hdf5Walk::visit_symbols_of(std::uint64_t node, std::string_view names, std::vector<std::uint64_t>& nodes,
                                const std::function<void(const Symbol&)>& visit) {
  if (!nodes_.insert(node).second) throw NotUnderstood{"a node of a group is used twice"};
  const std::string start = read(node, 8);
  Bytes head(start);
  if (start.starts_with("TREE")) {
    head.take(6);
    const std::uint64_t entries = head.number(2);
    const std::string content = read(node + 24, entries * 16);
    Bytes bytes(content);
    for (std::uint64_t i = 0; i < entries; ++i) {
      bytes.take(8);
      nodes.push_back(bytes.number(8));
    }
    return;
  }
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
    constexpr std::uint64_t cached_soft_link = 2;
    Symbol symbol;
    symbol.name = name_at(bytes.number(8));
    symbol.header = bytes.number(8);
    symbol.is_soft_link = bytes.number(4) == cached_soft_link;
    bytes.take(4);
    Bytes scratch(bytes.take(16));
    spend(symbol.name.size());
    if (symbol.is_soft_link) symbol.soft_link = name_at(scratch.number(4));
    visit(symbol);
  }
}

}  // namespace zero1::ckpt
