#include "runtime/nccl_group.h"

#include <algorithm>
#include <cstring>

#include "runtime/errors.h"
#include "runtime/machine.h"

namespace cuda_emulation {
namespace {

const char* word(CallKind kind) {
  switch (kind) {
    case CallKind::reduce_scatter: return "ReduceScatter";
    case CallKind::all_gather: return "AllGather";
    case CallKind::all_reduce: return "AllReduce";
    case CallKind::broadcast: return "Broadcast";
    case CallKind::send: return "Send";
    case CallKind::receive: return "Recv";
  }
  return "";
}

const char* word(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return "int8";
    case ncclUint8: return "uint8";
    case ncclInt32: return "int32";
    case ncclUint32: return "uint32";
    case ncclInt64: return "int64";
    case ncclUint64: return "uint64";
    case ncclFloat16: return "fp16";
    case ncclFloat32: return "fp32";
    case ncclFloat64: return "fp64";
    case ncclBfloat16: return "bf16";
  }
  return "?";
}

bool is_message(const Call& call) {
  return call.kind == CallKind::send || call.kind == CallKind::receive;
}

/// How many bytes a rank leaves for the others.
std::size_t input_bytes(const Call& call, int size) {
  const std::size_t one = call.count * size_of(call.type);
  return call.kind == CallKind::reduce_scatter ? one * static_cast<std::size_t>(size) : one;
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
  }
  return 0;
}

std::string Call::words() const {
  std::string text = std::string(word(kind)) + " of " + std::to_string(count) + " " + word(type);
  if (kind == CallKind::broadcast) text += " from rank " + std::to_string(peer);
  if (kind == CallKind::reduce_scatter || kind == CallKind::all_reduce) {
    constexpr const char* names[] = {"sum", "product", "max", "min", "average"};
    text += std::string(" (") + names[op] + ")";
  }
  return text;
}

bool Round::complete() const {
  return std::all_of(seats.begin(), seats.end(), [](const Seat& seat) { return seat.present; });
}

bool Round::all_left() const {
  return std::all_of(seats.begin(), seats.end(), [](const Seat& seat) { return seat.left; });
}

std::optional<std::string> Round::mismatch() const {
  const Call& first = seats[0].call;
  const bool fits = std::all_of(seats.begin(), seats.end(), [&](const Seat& seat) {
    const Call& call = seat.call;
    return call.count == first.count && call.type == first.type &&
           (is_message(call) || (call.kind == first.kind && call.op == first.op && call.peer == first.peer));
  });
  if (fits) return std::nullopt;
  std::string text = "NCCL: the ranks call different things:";
  for (std::size_t i = 0; i < seats.size(); ++i) {
    text += (i == 0 ? " " : "; ") + std::to_string(i) + ": " + seats[i].call.words();
  }
  return text;
}

bool Group::joined() const {
  return std::find(devices.begin(), devices.end(), -1) == devices.end();
}

bool Group::has_duplicate_device() const {
  std::vector<int> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

Ref<Round> Group::round(const RoundKey& key, int seats) {
  Ref<Round>& found = rounds[key];
  if (!found) found = Ref<Round>::make(seats);
  return found;
}

RoundKey Member::next_key(const Call& call) {
  if (!is_message(call)) return {-1, -1, collectives++};
  const bool sends = call.kind == CallKind::send;
  const int from = sends ? rank : call.peer;
  const int to = sends ? call.peer : rank;
  // A rank's message to itself has both ends here: they are counted apart.
  const int side = sends ? 0 : 1;
  return {from, to, messages[{side, call.peer}]++};
}

int Member::seats_of(const Call& call) const {
  return is_message(call) ? 2 : group->size();
}

std::size_t Member::seat_of(const Call& call) const {
  if (is_message(call)) return call.kind == CallKind::send ? 0 : 1;
  return static_cast<std::size_t>(rank);
}

void Member::announce(const std::vector<std::pair<RoundKey, Call>>& calls, const Ref<Queue>& queue,
                      std::uint64_t number) {
  const Quiet quiet;
  const std::lock_guard lock(group->mutex);
  for (const auto& [key, call] : calls) {
    const auto found = group->rounds.find(key);
    if (found == group->rounds.end()) continue;  // done already
    Round::Seat& seat = found->second->seats[seat_of(call)];
    seat.queue = queue;
    seat.number = number;
    if (found->second->awaited) queue->demand(number);
  }
}

void Member::run(const std::vector<std::pair<RoundKey, Call>>& calls) {
  for (const auto& [key, call] : calls) leave_input(key, call);
  for (const auto& [key, call] : calls) {
    if (!collect(key, call)) break;
  }
  const Quiet quiet;
  const std::lock_guard lock(group->mutex);
  --outstanding;
  group->changed.notify_all();
}

void Member::leave_input(const RoundKey& key, const Call& call) {
  std::vector<char> input;
  // A broadcast's other ranks, and receivers, have nothing to give.
  const bool gives =
      call.kind != CallKind::receive && (call.kind != CallKind::broadcast || call.peer == rank);
  if (gives) {
    input.resize(input_bytes(call, group->size()));
    if (!input.empty()) std::memcpy(input.data(), call.send, input.size());
  }
  Ref<Round> round;
  {
    const Quiet quiet;
    const std::lock_guard lock(group->mutex);
    if (aborted) return;
    round = group->round(key, seats_of(call));
  }
  Round::Seat& seat = round->seats[seat_of(call)];
  released(&seat.sync);
  const Quiet quiet;
  const std::lock_guard lock(group->mutex);
  seat.input.swap(input);
  seat.call = call;
  seat.present = true;
  group->changed.notify_all();
}

void Member::wait_for_abort(std::unique_lock<std::mutex>& lock) {
  group->changed.wait(lock, [&] { return aborted; });
}

bool Member::collect(const RoundKey& key, const Call& call) {
  Ref<Round> round;
  {
    const Quiet quiet;
    std::unique_lock lock(group->mutex);
    if (aborted) return false;
    round = group->round(key, seats_of(call));
    round->awaited = true;
    for (const Round::Seat& seat : round->seats) {
      if (seat.queue && !seat.present) seat.queue->demand(seat.number);
    }
    group->changed.wait(lock, [&] { return aborted || round->complete(); });
    if (aborted) return false;
    if (const int injected = machine().take_nccl_error(device, Shows::while_it_runs)) {
      error = static_cast<ncclResult_t>(injected);
    }
    if (error != ncclSuccess) {
      wait_for_abort(lock);
      return false;
    }
    if (const auto text = round->mismatch()) {
      // On a real machine this hangs or corrupts; here the call never ends and the communicator says why.
      explain(*text);
      error = ncclInvalidUsage;
      wait_for_abort(lock);
      return false;
    }
  }
  finish(call, *round);
  const Quiet quiet;
  const std::lock_guard lock(group->mutex);
  round->seats[seat_of(call)].left = true;
  if (round->all_left()) group->rounds.erase(key);
  return true;
}

/// Reads the inputs that the output depends on, and is ordered after the ranks that left them; no others.
void Member::finish(const Call& call, Round& round) {
  const auto input = [&](std::size_t seat) {
    acquired(&round.seats[seat].sync);
    return static_cast<const char*>(round.seats[seat].input.data());
  };
  const std::size_t bytes = call.count * size_of(call.type);
  char* const receive = static_cast<char*>(call.receive);
  if (bytes == 0 || call.kind == CallKind::send) return;
  if (call.kind == CallKind::receive) {
    std::memcpy(receive, input(0), bytes);
    return;
  }
  if (call.kind == CallKind::broadcast) {
    std::memcpy(receive, input(static_cast<std::size_t>(call.peer)), bytes);
    return;
  }
  std::vector<const char*> inputs;
  for (std::size_t seat = 0; seat < round.seats.size(); ++seat) inputs.push_back(input(seat));
  if (call.kind == CallKind::all_gather) {
    for (std::size_t seat = 0; seat < inputs.size(); ++seat)
      std::memcpy(receive + seat * bytes, inputs[seat], bytes);
    return;
  }
  const std::size_t first =
      call.kind == CallKind::reduce_scatter ? static_cast<std::size_t>(rank) * call.count : 0;
  reduce(receive, inputs, first, call.count, call.type, call.op);
}

}  // namespace cuda_emulation
