#include "core/comm/local/call_communicator.h"

#include <stdexcept>
#include <utility>

namespace zero1::local {

CallCommunicator::CallCommunicator(std::shared_ptr<Group> group, int rank)
    : group_(std::move(group)), rank_(rank) {}

CallCommunicator::~CallCommunicator() {
  group_->leave(rank_);
}

Work CallCommunicator::reduce_scatter(Stream& stream, TensorView out, ConstTensorView in, ReduceOp op) {
  Call call;
  call.kind = CallKind::reduce_scatter;
  call.op = op;
  call.out = out;
  call.in = in;
  return submit(stream, std::move(call));
}

Work CallCommunicator::all_gather(Stream& stream, TensorView out, ConstTensorView in) {
  Call call;
  call.kind = CallKind::all_gather;
  call.out = out;
  call.in = in;
  return submit(stream, std::move(call));
}

Work CallCommunicator::all_reduce(Stream& stream, TensorView data, ReduceOp op) {
  Call call;
  call.kind = CallKind::all_reduce;
  call.op = op;
  call.out = data;
  call.in = data;
  return submit(stream, std::move(call));
}

Work CallCommunicator::broadcast(Stream& stream, TensorView data, int root) {
  Call call;
  call.kind = CallKind::broadcast;
  call.root = root;
  call.out = data;
  call.in = data;
  return submit(stream, std::move(call));
}

Work CallCommunicator::all_to_all(Stream& stream, TensorView out,
                                  std::span<const std::int64_t> receive_counts, ConstTensorView in,
                                  std::span<const std::int64_t> send_counts) {
  Call call;
  call.kind = CallKind::all_to_all;
  call.out = out;
  call.in = in;
  call.receive_counts.assign(receive_counts.begin(), receive_counts.end());
  call.send_counts.assign(send_counts.begin(), send_counts.end());
  return submit(stream, std::move(call));
}

Work CallCommunicator::barrier(Stream& stream) {
  return submit(stream, Call{});
}

void CallCommunicator::begin_coalescing() {
  if (coalescing_)
    throw std::logic_error("begin_coalescing: the previous coalesced launch has not been ended");
  coalescing_ = true;
  collected_.clear();
}

Work CallCommunicator::end_coalescing(Stream& stream) {
  if (!coalescing_) throw std::logic_error("end_coalescing without begin_coalescing");
  coalescing_ = false;
  return launch(stream, std::exchange(collected_, {}));
}

Work CallCommunicator::submit(Stream& stream, Call call) {
  check_arguments(call, rank_, size());
  if (!coalescing_) return launch(stream, {std::move(call)});
  collected_.push_back(std::move(call));
  return {};
}

std::unique_ptr<Communicator> CallCommunicator::split(int color, int key, std::string_view name) {
  if (coalescing_) throw std::logic_error("split inside a coalesced launch");
  Call call;
  call.kind = CallKind::split;
  call.color = color;
  call.key = key;
  call.group_name = name;
  const Launch calls{std::move(call)};
  const std::shared_ptr<Round> round = group_->arrive(rank_, group_->issue(rank_), calls);
  const std::vector<Round::Place> places = round->places;
  group_->depart(*round);
  return join(places);
}

void CallCommunicator::abort(std::string_view reason) noexcept {
  group_->abort(rank_, reason, Group::Reach::everywhere);
}

}  // namespace zero1::local
