#include "core/comm/local/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "core/base/units.h"

namespace zero1::local {
namespace {

[[noreturn]] void reject(const Call& call, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", name(call.kind), why));
}

bool overlap(ConstTensorView a, ConstTensorView b) {
  const auto* a_start = static_cast<const char*>(a.data);
  const auto* b_start = static_cast<const char*>(b.data);
  return !a.empty() && !b.empty() && a_start < b_start + b.bytes() && b_start < a_start + a.bytes();
}

/// `part` may be exactly the rank's piece of `whole`, or disjoint from it.
void check_in_place(const Call& call, ConstTensorView part, ConstTensorView whole, int rank) {
  if (!overlap(part, whole)) return;
  const auto* own = static_cast<const char*>(whole.data) + rank * part.bytes();
  if (part.data != own) {
    reject(call, fmt::format("its buffers overlap, but not in place: rank {}'s piece starts at element {} of "
                             "the whole buffer",
                             rank, rank * part.numel));
  }
}

void check_pieces(const Call& call, ConstTensorView part, ConstTensorView whole, int rank, int size) {
  if (part.numel * size != whole.numel) {
    reject(call, fmt::format("{} elements are not {} pieces of {}", format_count(whole.numel), size,
                             format_count(part.numel)));
  }
  check_in_place(call, part, whole, rank);
}

void check_counts(const Call& call, std::string_view what, std::span<const std::int64_t> counts,
                  ConstTensorView buffer, int size) {
  if (static_cast<int>(counts.size()) != size) {
    reject(call,
           fmt::format("{} has {} entries, expected one for each of {} ranks", what, counts.size(), size));
  }
  if (std::any_of(counts.begin(), counts.end(), [](std::int64_t count) { return count < 0; })) {
    reject(call, fmt::format("{} has a negative entry: [{}]", what, fmt::join(counts, ", ")));
  }
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (total != buffer.numel) {
    reject(call, fmt::format("{} adds up to {} elements, but its buffer has {}", what, format_count(total),
                             format_count(buffer.numel)));
  }
}

void check_buffer(const Call& call, ConstTensorView buffer) {
  if (buffer.numel < 0) reject(call, fmt::format("a buffer of {} elements", buffer.numel));
  if (buffer.data == nullptr && buffer.numel > 0) {
    reject(call, fmt::format("a null buffer of {} elements", format_count(buffer.numel)));
  }
}

void check_prologue(const Call& call) {
  const ReducePrologue& prologue = call.prologue;
  if (prologue.empty()) return;
  if (call.in.dtype == DType::fp64) reject(call, "a prologue of a float64 input");
  if (prologue.stats == nullptr && !prologue.parts.empty())
    reject(call, "a prologue without room for its statistics");
  std::int64_t end = 0;
  for (const Range& part : prologue.parts) {
    if (part.start < end || part.end < part.start || part.end > call.in.numel) {
      reject(call, fmt::format("part [{}, {}) of its prologue overlaps another or leaves the input",
                               part.start, part.end));
    }
    end = part.end;
  }
}

/// What all ranks must agree on. all_to_all's counts are compared pairwise instead.
bool agree(const Call& a, const Call& b) {
  if (a.kind != b.kind || a.out.dtype != b.out.dtype || a.op != b.op || a.root != b.root) return false;
  if (a.kind == CallKind::all_to_all || a.kind == CallKind::split) return true;
  return a.in.numel == b.in.numel && a.out.numel == b.out.numel;
}

/// The first pair of ranks whose all_to_all counts contradict each other, in words.
std::optional<std::string> find_count_mismatch(std::span<const Launch* const> launches, std::size_t index) {
  if ((*launches[0])[index].kind != CallKind::all_to_all) return {};
  for (std::size_t from = 0; from < launches.size(); ++from) {
    for (std::size_t to = 0; to < launches.size(); ++to) {
      const std::int64_t sent = (*launches[from])[index].send_counts[to];
      const std::int64_t expected = (*launches[to])[index].receive_counts[from];
      if (sent != expected) {
        return fmt::format("rank {} sends {} elements to rank {}, which expects {}", from, format_count(sent),
                           to, format_count(expected));
      }
    }
  }
  return {};
}

/// Ranks that split into one group must give it one name.
std::optional<std::string> find_name_mismatch(std::span<const Launch* const> launches, std::size_t index) {
  if ((*launches[0])[index].kind != CallKind::split) return {};
  std::map<int, std::size_t> first_of_color;
  for (std::size_t rank = 0; rank < launches.size(); ++rank) {
    const Call& call = (*launches[rank])[index];
    const std::size_t first = first_of_color.try_emplace(call.color, rank).first->second;
    const Call& other = (*launches[first])[index];
    if (call.group_name != other.group_name) {
      return fmt::format("ranks {} and {} split into one group (color {}) but name it '{}' and '{}'", first,
                         rank, call.color, other.group_name, call.group_name);
    }
  }
  return {};
}

/// One line per rank. Without an explanation, the ranks that differ from what most call are marked.
std::string list_calls(const std::vector<std::string>& calls, std::string_view explanation) {
  std::map<std::string_view, int> votes;
  for (const auto& call : calls) ++votes[call];
  std::string_view usual = calls.front();
  for (const auto& [call, count] : votes) {
    if (count > votes[usual]) usual = call;
  }
  std::string text;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    text += fmt::format("\n  rank {}: {}{}", rank, calls[rank],
                        explanation.empty() && calls[rank] != usual ? "   <-- differs" : "");
  }
  if (!explanation.empty()) text += fmt::format("\n  {}", explanation);
  return text;
}

std::string list_launches(std::span<const Launch* const> launches) {
  std::vector<std::string> calls;
  for (const Launch* launch : launches) calls.push_back(describe(*launch));
  return list_calls(calls, {});
}

std::string list_index(std::span<const Launch* const> launches, std::size_t index,
                       std::string_view explanation) {
  std::vector<std::string> calls;
  for (const Launch* launch : launches) calls.push_back(describe((*launch)[index]));
  std::string text = list_calls(calls, explanation);
  const std::size_t count = launches[0]->size();
  return count == 1 ? text : fmt::format("\n  in call {} of {} coalesced calls:{}", index + 1, count, text);
}

}  // namespace

std::string_view name(CallKind kind) {
  switch (kind) {
    case CallKind::reduce_scatter: return "reduce_scatter";
    case CallKind::all_gather: return "all_gather";
    case CallKind::all_reduce: return "all_reduce";
    case CallKind::broadcast: return "broadcast";
    case CallKind::all_to_all: return "all_to_all";
    case CallKind::barrier: return "barrier";
    case CallKind::split: return "split";
  }
  return "unknown";
}

void check_arguments(const Call& call, int rank, int size) {
  check_buffer(call, call.in);
  check_buffer(call, call.out);
  if (call.in.dtype != call.out.dtype) {
    reject(call,
           fmt::format("input is {} and output {}", zero1::name(call.in.dtype), zero1::name(call.out.dtype)));
  }
  switch (call.kind) {
    case CallKind::reduce_scatter:
      check_pieces(call, call.out, call.in, rank, size);
      check_prologue(call);
      break;
    case CallKind::all_gather: check_pieces(call, call.in, call.out, rank, size); break;
    case CallKind::broadcast:
      if (call.root < 0 || call.root >= size) {
        reject(call, fmt::format("root {} is not a rank of {}", call.root, size));
      }
      break;
    case CallKind::all_to_all:
      check_counts(call, "send_counts", call.send_counts, call.in, size);
      check_counts(call, "receive_counts", call.receive_counts, call.out, size);
      if (overlap(call.in, call.out)) reject(call, "its buffers overlap");
      break;
    case CallKind::all_reduce:
    case CallKind::barrier:
    case CallKind::split: break;
  }
}

std::string describe(const Call& call) {
  const auto dtype = zero1::name(call.out.dtype);
  const std::string in = format_count(call.in.numel);
  const std::string out = format_count(call.out.numel);
  switch (call.kind) {
    case CallKind::reduce_scatter:
      return fmt::format("reduce_scatter {}, {} elements to {}, {}", dtype, in, out, zero1::name(call.op));
    case CallKind::all_gather: return fmt::format("all_gather {}, {} elements to {}", dtype, in, out);
    case CallKind::all_reduce:
      return fmt::format("all_reduce {}, {} elements, {}", dtype, out, zero1::name(call.op));
    case CallKind::broadcast: return fmt::format("broadcast {}, {} elements, root {}", dtype, out, call.root);
    case CallKind::all_to_all:
      return fmt::format("all_to_all {}, sends [{}], receives [{}]", dtype, fmt::join(call.send_counts, ", "),
                         fmt::join(call.receive_counts, ", "));
    case CallKind::barrier: return "barrier";
    case CallKind::split:
      return fmt::format("split, color {}, key {}, name '{}'", call.color, call.key, call.group_name);
  }
  return "unknown";
}

std::string describe(const Launch& launch) {
  if (launch.empty()) return "a coalesced launch of nothing";
  if (launch.size() == 1) return describe(launch.front());
  constexpr std::size_t shown = 4;
  std::string text = fmt::format("{} coalesced: ", launch.size());
  for (std::size_t i = 0; i < std::min(shown, launch.size()); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : " | ", describe(launch[i]));
  }
  return launch.size() > shown ? text + " | ..." : text;
}

std::optional<std::string> find_mismatch(std::span<const Launch* const> launches) {
  const Launch& first = *launches.front();
  for (const Launch* launch : launches) {
    if (launch->size() != first.size()) return list_launches(launches);
  }
  for (std::size_t index = 0; index < first.size(); ++index) {
    for (const Launch* launch : launches) {
      if (!agree((*launch)[index], first[index])) return list_index(launches, index, {});
    }
    for (const auto& explanation :
         {find_count_mismatch(launches, index), find_name_mismatch(launches, index)}) {
      if (explanation) return list_index(launches, index, *explanation);
    }
  }
  return {};
}

}  // namespace zero1::local
