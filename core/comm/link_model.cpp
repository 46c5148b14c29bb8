#include "core/comm/link_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/device/cpu/cpu_device.h"

namespace zero1 {
namespace {

/// Sleeps, then polls: the kernel wakes a sleeper some 50 us late, so the last stretch is spent awake.
void wait_until(std::int64_t deadline_ns) {
  constexpr std::int64_t awake_ns = 120'000;
  const std::int64_t sleep_ns = deadline_ns - awake_ns - now_ns();
  if (sleep_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
  while (now_ns() < deadline_ns) std::this_thread::yield();
}

/// What one launch costs on the ring.
struct RingCost {
  int steps = 0;
  std::int64_t bytes_sent = 0;

  void add(int call_steps, std::int64_t call_bytes) {
    steps = std::max(steps, call_steps);
    bytes_sent += call_bytes;
  }
};

class LinkModelCommunicator final : public Communicator, private PrologueReducer {
 public:
  LinkModelCommunicator(std::unique_ptr<Communicator> inner, const LinkModel& link)
      : inner_(std::move(inner)), link_(link) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view name() const override { return inner_->name(); }
  bool modelled() const override { return true; }
  PrologueReducer* prologue_reducer() override {
    return inner_->prologue_reducer() != nullptr ? this : nullptr;
  }

  std::string description() const override {
    const std::string bandwidth =
        link_.gbit_per_s > 0 ? fmt::format("{:g} Gbit/s", link_.gbit_per_s) : "infinite bandwidth";
    return fmt::format("{} + modelled link ({}, {:g} us)", inner_->description(), bandwidth,
                       link_.latency_us);
  }

  Work reduce_scatter(Stream& stream, TensorView out, ConstTensorView in, ReduceOp op) override {
    const Work work = inner_->reduce_scatter(stream, out, in, op);
    return issued(stream, work, size() - 1, out.bytes() * (size() - 1));
  }

  Work all_gather(Stream& stream, TensorView out, ConstTensorView in) override {
    const Work work = inner_->all_gather(stream, out, in);
    return issued(stream, work, size() - 1, in.bytes() * (size() - 1));
  }

  Work all_reduce(Stream& stream, TensorView data, ReduceOp op) override {
    const Work work = inner_->all_reduce(stream, data, op);
    return issued(stream, work, 2 * (size() - 1), 2 * data.bytes() * (size() - 1) / size());
  }

  Work broadcast(Stream& stream, TensorView data, int root) override {
    const Work work = inner_->broadcast(stream, data, root);
    return issued(stream, work, 1, data.bytes());
  }

  Work all_to_all(Stream& stream, TensorView out, std::span<const std::int64_t> receive_counts,
                  ConstTensorView in, std::span<const std::int64_t> send_counts) override {
    const Work work = inner_->all_to_all(stream, out, receive_counts, in, send_counts);
    const auto own = static_cast<std::size_t>(rank());
    const std::int64_t sent_elems = in.numel - send_counts[own];
    const std::int64_t received_elems = out.numel - receive_counts[own];
    return issued(stream, work, size() - 1, std::max(sent_elems, received_elems) * size_bytes(in.dtype));
  }

  Work barrier(Stream& stream) override {
    return issued(stream, inner_->barrier(stream), 2 * (size() - 1), 0);
  }

  void begin_coalescing() override {
    inner_->begin_coalescing();
    coalescing_ = true;
    collected_ = {};
  }

  Work end_coalescing(Stream& stream) override {
    coalescing_ = false;
    return prolong(stream, inner_->end_coalescing(stream), collected_);
  }

  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    return std::make_unique<LinkModelCommunicator>(inner_->split(color, key, name), link_);
  }

  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }

 private:
  Work reduce_scatter_with(const ReducePrologue& prologue, Stream& stream, TensorView out, ConstTensorView in,
                           ReduceOp op) override {
    const Work work = inner_->prologue_reducer()->reduce_scatter_with(prologue, stream, out, in, op);
    return issued(stream, work, size() - 1, out.bytes() * (size() - 1));
  }

  Work issued(Stream& stream, const Work& work, int steps, std::int64_t bytes_sent) {
    if (coalescing_) {
      collected_.add(steps, bytes_sent);
      return work;
    }
    return prolong(stream, work, {steps, bytes_sent});
  }

  /// Makes `work`, just issued, end no earlier than the link would let it.
  Work prolong(Stream& stream, const Work& work, const RingCost& cost) {
    const std::int64_t duration_ns = link_.duration_ns(size(), cost.steps, cost.bytes_sent);
    if (duration_ns == 0) return work;
    auto* cpu = dynamic_cast<CpuStream*>(&stream);
    if (cpu == nullptr) throw std::invalid_argument("a link model works on CPU streams only");
    cpu->submit([started = work.started(), duration_ns] {
      const std::int64_t known_ns = started ? started->load(std::memory_order_acquire) : 0;
      wait_until((known_ns > 0 ? known_ns : now_ns()) + duration_ns);
    });
    return work.extended(stream);
  }

  std::unique_ptr<Communicator> inner_;
  LinkModel link_;
  bool coalescing_ = false;
  RingCost collected_;
};

}  // namespace

std::int64_t LinkModel::duration_ns(int ranks, int ring_steps, std::int64_t bytes_sent) const {
  if (ranks < 2) return 0;
  const double latency_ns = latency_us * 1e3 * ring_steps;
  const double transfer_ns = gbit_per_s > 0 ? static_cast<double>(bytes_sent) * 8 / gbit_per_s : 0;
  return std::llround(latency_ns + transfer_ns);
}

std::unique_ptr<Communicator> with_link_model(std::unique_ptr<Communicator> inner, const LinkModel& link) {
  for (const double figure : {link.gbit_per_s, link.latency_us}) {
    if (!std::isfinite(figure) || figure < 0) {
      throw std::invalid_argument(fmt::format("link model: {:g} Gbit/s and {:g} us; both must be 0 or more",
                                              link.gbit_per_s, link.latency_us));
    }
  }
  if (!link.enabled()) return inner;
  return std::make_unique<LinkModelCommunicator>(std::move(inner), link);
}

}  // namespace zero1
