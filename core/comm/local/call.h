// What a rank asks of its group, and whether all ranks ask for the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/communicator.h"
#include "core/device/tensor_view.h"

namespace zero1::local {

enum class CallKind : std::uint8_t {
  reduce_scatter,
  all_gather,
  all_reduce,
  broadcast,
  all_to_all,
  barrier,
  split,
};

std::string_view name(CallKind kind);

/// One collective as one rank called it. Fields that its kind does not use keep their defaults.
struct Call {
  CallKind kind = CallKind::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  TensorView out;           ///< all_reduce and broadcast: the data
  ConstTensorView in;       ///< all_reduce and broadcast: the data
  ReducePrologue prologue;  ///< reduce_scatter; the ranks' need not agree
  std::vector<std::int64_t> send_counts, receive_counts;
  int color = 0, key = 0;  ///< split
  std::string group_name;  ///< split
};

/// What one rank hands to one rendezvous: a single call, or all calls of a coalesced launch.
using Launch = std::vector<Call>;

/// Throws std::invalid_argument when the call cannot be right whatever the other ranks do.
void check_arguments(const Call& call, int rank, int size);

/// "reduce_scatter bfloat16, 4,096 elements to 1,024, sum"; a coalesced launch: "2 coalesced: … | …".
std::string describe(const Call& call);
std::string describe(const Launch& launch);

/// Nothing when the launches of all ranks fit each other, else one line per rank with its call, the odd
/// ones marked.
std::optional<std::string> find_mismatch(std::span<const Launch* const> launches);

}  // namespace zero1::local
