#include "core/comm/local/local_communicator.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/comm/local/algorithms.h"
#include "core/device/cpu/cpu_device.h"

namespace zero1::local {
namespace {

void run_collective(Calls calls, int rank) {
  switch (calls.front()->kind) {
    case CallKind::reduce_scatter: return run_reduce_scatter(calls, rank);
    case CallKind::all_gather: return run_all_gather(calls, rank);
    case CallKind::all_reduce: return run_all_reduce(calls, rank);
    case CallKind::broadcast: return run_broadcast(calls, rank);
    case CallKind::all_to_all: return run_all_to_all(calls, rank);
    case CallKind::barrier:
    case CallKind::split: return;
  }
}

/// One rank's launch on its way through a stream. A stream that has failed drops its work unrun; then the
/// peers, who would wait for this rank, are told.
class Ticket {
 public:
  Ticket(std::shared_ptr<Group> group, int rank, Launch calls)
      : group_(std::move(group)), rank_(rank), number_(group_->issue(rank)), calls_(std::move(calls)) {}
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  ~Ticket() {
    if (ran_) return;
    group_->abort(rank_,
                  "its stream had failed before it reached the collective; that rank's own error says why",
                  Group::Reach::this_group);
  }

  void run() {
    ran_ = true;
    const std::shared_ptr<Round> round = group_->arrive(rank_, number_, calls_);
    started_->store(round->started_ns, std::memory_order_release);
    std::vector<const Call*> calls(round->launches.size());
    for (std::size_t index = 0; index < calls_.size(); ++index) {
      for (std::size_t peer = 0; peer < calls.size(); ++peer) calls[peer] = &(*round->launches[peer])[index];
      run_collective(calls, rank_);
    }
    group_->depart(*round);
  }

  std::shared_ptr<const std::atomic<std::int64_t>> started() const { return started_; }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
  std::int64_t number_;
  Launch calls_;
  std::shared_ptr<std::atomic<std::int64_t>> started_ = std::make_shared<std::atomic<std::int64_t>>(0);
  bool ran_ = false;
};

CpuStream& require_cpu_stream(Stream& stream) {
  if (auto* cpu = dynamic_cast<CpuStream*>(&stream)) return *cpu;
  throw std::invalid_argument(
      "in-process ranks run their collectives on CPU streams, and this stream is of another device; use that "
      "device's communicator");
}

}  // namespace

LocalCommunicator::LocalCommunicator(std::shared_ptr<Group> group, int rank, std::shared_ptr<Device> events)
    : CallCommunicator(std::move(group), rank), events_(std::move(events)) {}

Work LocalCommunicator::reduce_scatter_with(const ReducePrologue& prologue, Stream& stream, TensorView out,
                                            ConstTensorView in, ReduceOp op) {
  Call call;
  call.kind = CallKind::reduce_scatter;
  call.op = op;
  call.out = out;
  call.in = in;
  call.prologue = prologue;
  return submit(stream, std::move(call));
}

Work LocalCommunicator::launch(Stream& stream, Launch calls) {
  CpuStream& cpu = require_cpu_stream(stream);
  auto ticket = std::make_shared<Ticket>(group(), rank(), std::move(calls));
  const auto started = ticket->started();
  cpu.submit([ticket = std::move(ticket)] { ticket->run(); });
  std::shared_ptr<Event> done = events_->create_event();
  stream.record(*done);
  return Work(std::move(done), started);
}

std::unique_ptr<Communicator> LocalCommunicator::join(const std::vector<Round::Place>& places) {
  const Round::Place& place = places[static_cast<std::size_t>(rank())];
  return std::make_unique<LocalCommunicator>(place.group, place.rank, events_);
}

}  // namespace zero1::local
