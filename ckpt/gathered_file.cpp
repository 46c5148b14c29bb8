#include "ckpt/gathered_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ckpt/hdf5_walk.h"
#include "core/base/error.h"

namespace zero1::ckpt {
namespace {

/// What an object's header says that matters here.
struct Object {
  std::string dataspace, datatype, data_layout, symbol_table;  ///< the messages; empty: it has none
  std::string format;                                          ///< the attribute of this name
  bool is_group() const { return !symbol_table.empty(); }
};

/// An attribute's name and its bytes, of version 1, where each part is filled up to 8 bytes.
std::pair<std::string, std::string> parse_attribute(std::string_view message) {
  Bytes bytes(message);
  if (bytes.number(1) != 1) return {};
  bytes.take(1);
  const std::uint64_t name = bytes.number(2);
  const std::uint64_t type = bytes.number(2);
  const std::uint64_t space = bytes.number(2);
  const auto filled = [](std::uint64_t size) { return (size + 7) / 8 * 8; };
  Bytes name_bytes(bytes.take(filled(name)));
  std::string found(name_bytes.text());
  bytes.take(filled(type) + filled(space));
  std::string value(bytes.take(bytes.left()));
  value.resize(std::min(value.size(), value.find('\0')));
  return {std::move(found), std::move(value)};
}

std::vector<std::int64_t> parse_shape(std::string_view message) {
  Bytes bytes(message);
  const std::uint64_t version = bytes.number(1);
  const std::uint64_t dims = bytes.number(1);
  bytes.take(1);
  const std::uint64_t kind = bytes.number(1);
  constexpr std::uint64_t null_space = 2;
  if (version != 1 && (version != 2 || kind == null_space))
    throw NotUnderstood{fmt::format("a dataspace of version {}", version)};
  if (version == 1) bytes.take(4);
  std::vector<std::int64_t> shape;
  for (std::uint64_t d = 0; d < dims; ++d) {
    const std::uint64_t size = bytes.number(8);
    if (!std::in_range<std::int64_t>(size)) throw NotUnderstood{"a dimension is too large"};
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

std::int64_t elems_of(const std::vector<std::int64_t>& shape) {
  try {
    return ParamSpec{"", shape}.numel();
  } catch (const InputError&) {
    throw NotUnderstood{fmt::format("[{}] is too large", fmt::join(shape, ", "))};
  }
}

/// IEEE 754 binary32, little-endian.
bool is_float32(std::string_view message) {
  Bytes bytes(message);
  constexpr std::uint64_t floating_point = 1;
  if ((bytes.number(1) & 0x0F) != floating_point) return false;
  constexpr std::uint64_t big_endian_or_vax = 0x41;
  const bool little_endian = (bytes.number(3) & big_endian_or_vax) == 0;
  const bool size = bytes.number(4) == 4;
  bytes.take(2);
  const bool precision = bytes.number(2) == 32;
  const bool exponent = bytes.number(1) == 23 && bytes.number(1) == 8;
  const bool mantissa = bytes.number(1) == 0 && bytes.number(1) == 23;
  return little_endian && size && precision && exponent && mantissa && bytes.number(4) == 127;
}

bool is_fixed_string(std::string_view message) {
  constexpr int text = 3;
  return !message.empty() && (message.front() & 0x0F) == text;
}

/// Where the bytes of contiguous data lie, from HDF5's first byte; nothing where there are none.
std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_place(std::string_view message) {
  Bytes bytes(message);
  const std::uint64_t version = bytes.number(1);
  const std::uint64_t kind = bytes.number(1);
  constexpr std::array<std::string_view, 4> kinds{"inside its header", "contiguous", "in chunks",
                                                  "in other files, as a virtual dataset"};
  if (version != 3 && version != 4) throw NotUnderstood{fmt::format("a data layout of version {}", version)};
  if (kind != 1) {
    throw NotUnderstood{
        fmt::format("its data lie {}, not contiguous",
                    kind < kinds.size() ? kinds[static_cast<std::size_t>(kind)] : "elsewhere")};
  }
  const std::uint64_t address = bytes.number(8);
  const std::uint64_t size = bytes.number(8);
  if (address == undefined_address) return std::nullopt;
  return std::pair{address, size};
}

/// Takes the '%' off that group_path puts in front of a part of a name.
std::string unescaped(std::string_view part) {
  return std::string(part.starts_with('%') ? part.substr(1) : part);
}

std::optional<State> state_called(std::string_view name_of_dataset) {
  for (const State state : all_states) {
    if (name_of_dataset == name(state)) return state;
  }
  return std::nullopt;
}

}  // namespace

class GatheredFile::Parser {
 public:
  explicit Parser(GatheredFile& file) : file_(file), walk_(file.file_, 0) {}

  void run() {
    const Object root = object_at(walk_.root_header(), "/");
    if (root.format != "zero1-lab gathered checkpoint") refuse_format(root.format);
    std::optional<std::uint64_t> model;
    for_each(root, [&](std::string_view name, std::uint64_t header) {
      if (name == "model") model = header;
      if (name == "state") file_.state_json_ = text_at(header, "/state");
      if (name == "layout") file_.layout_json_ = text_at(header, "/layout");
      if (name == "model_config") file_.model_json_ = text_at(header, "/model_config");
    });
    if (!model) throw NotUnderstood{"it has no group /model"};
    groups_.push_back({*model, "", "/model"});
    while (!groups_.empty()) {
      const Group group = std::move(groups_.back());
      groups_.pop_back();
      read_group(group);
    }
    for (const Param& param : file_.params_) {
      if (!param.has(State::param)) throw NotUnderstood{shown(param.name) + " has states and no values"};
    }
  }

 private:
  struct Group {
    std::uint64_t header;
    std::string param;  ///< its name so far
    std::string path;
  };

  [[noreturn]] static void refuse_format(const std::string& format) {
    if (format == "zero1-lab checkpoint" || format == "zero1-lab rank file") {
      throw NotUnderstood{
          "it is part of a checkpoint, which needs no import: `zero1 ckpt reshard` takes the folder"};
    }
    throw NotUnderstood{"it is not what `zero1 ckpt gather` writes"};
  }

  Object object_at(std::uint64_t header, const std::string& path) {
    if (!seen_.insert(header).second) throw NotUnderstood{shown(path) + " is a second name of an object"};
    Object object;
    walk_.for_each_message(header, path, [&](Hdf5Message type, std::string_view content) {
      switch (type) {
        case Hdf5Message::dataspace: object.dataspace = content; break;
        case Hdf5Message::datatype: object.datatype = content; break;
        case Hdf5Message::data_layout: object.data_layout = content; break;
        case Hdf5Message::symbol_table: object.symbol_table = content; break;
        case Hdf5Message::external_files:
          throw NotUnderstood{shown(path) + " has its data in external files"};
        case Hdf5Message::link:
        case Hdf5Message::link_info: throw NotUnderstood{shown(path) + " is a group of another kind"};
        case Hdf5Message::attribute: {
          auto [name, value] = parse_attribute(content);
          if (name == "format") object.format = std::move(value);
          break;
        }
        default: break;
      }
    });
    return object;
  }

  template <class Visit>
  void for_each(const Object& group, Visit&& visit) {
    if (!group.is_group()) throw NotUnderstood{"a group is none"};
    walk_.for_each_symbol(group.symbol_table, [&](const Hdf5Walk::Symbol& symbol) {
      if (symbol.is_soft_link) throw NotUnderstood{shown(symbol.name) + " is a soft link"};
      visit(symbol.name, symbol.header);
    });
  }

  /// Adds what lies at `place` to messages.
  template <class Action>
  static auto in(const std::string& path, Action&& action) {
    try {
      return action();
    } catch (const NotUnderstood& fault) {
      throw NotUnderstood{fmt::format("{}: {}", shown(path), fault.why)};
    }
  }

  std::string text_at(std::uint64_t header, const std::string& path) {
    const Object object = object_at(header, path);
    return in(path, [&] {
      if (!is_fixed_string(object.datatype) || object.dataspace.empty() ||
          !parse_shape(object.dataspace).empty())
        throw NotUnderstood{"it is not one string of fixed length"};
      const auto place = parse_place(object.data_layout);
      return place ? walk_.read(place->first, place->second) : std::string();
    });
  }

  void read_group(const Group& group) {
    const Object object = object_at(group.header, group.path);
    std::optional<std::size_t> param;
    for_each(object, [&](std::string_view name, std::uint64_t header) {
      const std::string path = fmt::format("{}/{}", group.path, name);
      walk_.spend(path.size() + group.param.size());
      const std::optional<State> state = group.path == "/model" ? std::nullopt : state_called(name);
      if (!state) {
        const std::string part = unescaped(name);
        groups_.push_back({header, group.path == "/model" ? part : group.param + "/" + part, path});
        return;
      }
      if (!param) {
        param = file_.params_.size();
        file_.params_.push_back({group.param, {}, {}});
      }
      read_dataset(file_.params_[*param], *state, header, path);
    });
  }

  void read_dataset(Param& param, State state, std::uint64_t header, const std::string& path) {
    const Object object = object_at(header, path);
    in(path, [&] {
      if (object.dataspace.empty() || !is_float32(object.datatype))
        throw NotUnderstood{"it is not a dataset of little-endian float32"};
      std::vector<std::int64_t> shape = parse_shape(object.dataspace);
      const std::int64_t elems = elems_of(shape);
      const auto place = parse_place(object.data_layout);
      const auto size = static_cast<std::uint64_t>(file_.file_.size_bytes());
      const bool inside =
          elems == 0 || (place && place->first <= size && place->second <= size - place->first &&
                         static_cast<std::uint64_t>(elems) == place->second / elem_bytes &&
                         place->second % elem_bytes == 0);
      if (!inside) {
        throw NotUnderstood{
            fmt::format("the data of its [{}] elements do not lie inside the file", fmt::join(shape, ", "))};
      }
      const bool first =
          std::none_of(all_states.begin(), all_states.end(), [&](State each) { return param.has(each); });
      if (!first && shape != param.shape)
        throw NotUnderstood{"its shape is not that of the parameter's other datasets"};
      param.shape = std::move(shape);
      param.offset_bytes[static_cast<std::size_t>(state)] =
          elems == 0 ? 0 : static_cast<std::int64_t>(place->first);
    });
  }

  GatheredFile& file_;
  Hdf5Walk walk_;
  std::vector<Group> groups_;
  std::set<std::uint64_t> seen_;
};

GatheredFile::GatheredFile(const std::string& path) : file_(path) {
  try {
    constexpr std::string_view checkpoint_begin = "zero1-lab checkpoint ";
    std::string begin(checkpoint_begin.size(), '\0');
    if (file_.size_bytes() > static_cast<std::int64_t>(begin.size()))
      file_.read_at(0, begin.data(), static_cast<std::int64_t>(begin.size()));
    if (begin == checkpoint_begin) {
      throw NotUnderstood{
          "it is part of a checkpoint, which needs no import: `zero1 ckpt reshard` takes the folder"};
    }
    Parser(*this).run();
  } catch (const NotUnderstood& fault) {
    throw InputError(fmt::format("{}: cannot be imported: {}", path, fault.why));
  }
}

void GatheredFile::read(int param, State state, Range range, float* out) const {
  const Param& from = params_[static_cast<std::size_t>(param)];
  const std::int64_t offset = *from.offset_bytes[static_cast<std::size_t>(state)];
  file_.read_at(offset + range.start * elem_bytes, out, range.size() * elem_bytes);
}

}  // namespace zero1::ckpt
