// In-process collectives against the memory traffic that they cannot avoid.
//
//   bytes   what all ranks together must read and write, with S the bucket's bytes and n ranks:
//           reduce-scatter in place (n+1) S, all-gather in place 2(n-1) S, all-reduce 2n S
//   copy    read + written bytes per second of n threads that memcpy at once, each S/2 bytes of what the next
//           one's core wrote in the turn before, with a barrier between turns: the same threads, the same
//           footprint, the same run. What another core wrote is not in one's own cache, for a collective as
//           for this copy
//   bound   bytes / copy; ratio = bound / measured time (1 is as fast as copying; the goal is 0.70)
//
// Copy and collective take turns of back-to-back launches. The ratio is the median of the rounds' ratios,
// since whatever else the machine does, it does to both turns of a round; the times are medians, too. The
// last table is the best time of the smallest possible all-reduce: pure rendezvous.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "core/base/clock.h"
#include "core/base/units.h"
#include "core/comm/local/local_world.h"
#include "core/device/cpu/cpu_device.h"

namespace {

using namespace zero1;

struct Options {
  std::vector<int> ranks{2, 4};
  std::vector<std::int64_t> mib{1, 4, 16, 64};
  int rounds = 15;
};

/// What one rank measures with: a bucket of its own.
struct Bench {
  Bench(LocalWorld& world, int rank, std::int64_t bytes)
      : device(make_cpu_device({})),
        stream(device->create_stream(StreamKind::communication)),
        communicator(world.communicator(rank)),
        memory(device->allocate(bytes, MemoryKind::other)) {
    std::memset(memory.data(), 0, static_cast<std::size_t>(bytes));
  }

  TensorView piece(TensorView whole) const {
    const std::int64_t numel = whole.numel / communicator->size();
    return whole.slice(Range{0, numel}.shifted(communicator->rank() * numel));
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Communicator> communicator;
  DeviceMemory memory;
  int turn = 0;
};

using Action = std::function<void(Bench&)>;

/// The actions take turns, `rounds` times over; a turn is `repeats` calls on every rank. By action and round:
/// seconds of a call, from the common start to the last rank's end.
std::vector<std::vector<double>> seconds_by_round(int ranks, std::int64_t bytes, int rounds, int repeats,
                                                  const std::vector<Action>& actions) {
  LocalWorld world(ranks);
  std::barrier together(ranks);
  std::vector<std::int64_t> begin_ns(static_cast<std::size_t>(ranks)), end_ns(begin_ns.size());
  std::vector<std::vector<double>> seconds(actions.size());
  run_ranks(ranks, [&](int rank) {
    const auto i = static_cast<std::size_t>(rank);
    Bench bench(world, rank, bytes);
    for (int round = 0; round <= rounds; ++round) {  // the first one warms up
      for (std::size_t action = 0; action < actions.size(); ++action) {
        together.arrive_and_wait();
        begin_ns[i] = now_ns();
        for (int repeat = 0; repeat < repeats; ++repeat) actions[action](bench);
        bench.stream->synchronize();
        end_ns[i] = now_ns();
        together.arrive_and_wait();
        if (rank != 0 || round == 0) continue;
        const auto begin = *std::min_element(begin_ns.begin(), begin_ns.end());
        const auto end = *std::max_element(end_ns.begin(), end_ns.end());
        seconds[action].push_back(static_cast<double>(end - begin) * 1e-9 / repeats);
      }
    }
  });
  return seconds;
}

/// A copy by `ranks` threads, each of which reads what another has written.
class NeighbourCopy {
 public:
  NeighbourCopy(int ranks, std::int64_t bytes)
      : half_(static_cast<std::size_t>(bytes / 2)),
        memory_(static_cast<std::size_t>(ranks)),
        turn_over_(ranks) {}

  void operator()(Bench& bench) {
    const auto rank = static_cast<std::size_t>(bench.communicator->rank());
    char*& own = memory_[rank];
    char* const& next = memory_[(rank + 1) % memory_.size()];
    if (bench.turn == 0) own = static_cast<char*>(bench.memory.data());
    // In turns: everyone writes its first half from the second halves, then its second from the first.
    const std::size_t to = bench.turn++ % 2 == 0 ? 0 : half_;
    dynamic_cast<CpuStream&>(*bench.stream).submit([this, &own, &next, to] {
      turn_over_.arrive_and_wait();
      std::memcpy(own + to, next + (half_ - to), half_);
    });
  }

 private:
  std::size_t half_;
  std::vector<char*> memory_;  ///< by rank
  std::barrier<> turn_over_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Topic {
  const char* name;
  DType dtype;
  double buckets_moved;  ///< bytes / S
  void (*once)(Bench&);
};

template <DType dtype>
void reduce_scatter(Bench& bench) {
  const TensorView whole = bench.memory.view(dtype);
  bench.communicator->reduce_scatter(*bench.stream, bench.piece(whole), whole, ReduceOp::sum);
}

void all_gather(Bench& bench) {
  const TensorView whole = bench.memory.view(DType::bf16);
  bench.communicator->all_gather(*bench.stream, whole, bench.piece(whole));
}

template <DType dtype>
void all_reduce(Bench& bench) {
  bench.communicator->all_reduce(*bench.stream, bench.memory.view(dtype), ReduceOp::sum);
}

void print_bandwidth(const Options& options) {
  fmt::print("{:<16}{:<10}{:>6}{:>8}{:>12}{:>12}{:>12}{:>12}{:>8}\n", "collective", "dtype", "ranks", "MiB",
             "moved", "copy GB/s", "bound us", "time us", "ratio");
  for (const int ranks : options.ranks) {
    const double n = ranks;
    const Topic topics[] = {
        {"reduce-scatter", DType::fp32, n + 1, reduce_scatter<DType::fp32>},
        {"reduce-scatter", DType::bf16, n + 1, reduce_scatter<DType::bf16>},
        {"all-gather", DType::bf16, 2 * (n - 1), all_gather},
        {"all-reduce", DType::fp32, 2 * n, all_reduce<DType::fp32>},
        {"all-reduce", DType::bf16, 2 * n, all_reduce<DType::bf16>},
    };
    for (const std::int64_t mib : options.mib) {
      const std::int64_t bytes = mib << 20;
      const int repeats = static_cast<int>(std::max<std::int64_t>(2, 64 / mib));
      for (const Topic& topic : topics) {
        NeighbourCopy copy(ranks, bytes);
        const auto seconds = seconds_by_round(ranks, bytes, options.rounds, repeats,
                                              {[&](Bench& bench) { copy(bench); }, topic.once});
        const double moved = topic.buckets_moved * static_cast<double>(bytes);
        const double share = moved / static_cast<double>(bytes * ranks);  // of what the copy moves
        std::vector<double> ratios;
        for (std::size_t round = 0; round < seconds[0].size(); ++round)
          ratios.push_back(seconds[0][round] * share / seconds[1][round]);
        const double copy_s = median(seconds[0]);
        fmt::print("{:<16}{:<10}{:>6}{:>8}{:>12}{:>12.1f}{:>12.0f}{:>12.0f}{:>8.2f}\n", topic.name,
                   name(topic.dtype), ranks, mib, format_bytes(static_cast<std::int64_t>(moved)),
                   static_cast<double>(bytes * ranks) / copy_s * 1e-9, copy_s * share * 1e6,
                   median(seconds[1]) * 1e6, median(ratios));
      }
    }
  }
}

void print_latency(const Options& options) {
  fmt::print("\nall-reduce of one float32, back to back\n{:>6}{:>12}\n", "ranks", "us");
  std::vector<int> ranks = options.ranks;
  ranks.push_back(8);
  for (const int n : ranks) {
    const auto seconds = seconds_by_round(
        n, 256, options.rounds, 500, {[](Bench& bench) {
          bench.communicator->all_reduce(*bench.stream, bench.memory.view(DType::fp32, 0, 1), ReduceOp::sum);
        }});
    fmt::print("{:>6}{:>12.1f}\n", n, *std::min_element(seconds[0].begin(), seconds[0].end()) * 1e6);
  }
}

}  // namespace

int main(int argc, char** argv) {
  zero1::bench::Flags flags("In-process collectives against the memory traffic they cannot avoid");
  Options options;
  flags.add("--ranks", options.ranks, "group sizes", 2);
  flags.add("--mib", options.mib, "bucket sizes in MiB");
  flags.add("--rounds", options.rounds, "turns of each");
  flags.parse(argc, argv);
  fmt::print(
      "moved: reduce-scatter (n+1) S, all-gather 2(n-1) S, all-reduce 2n S; bound = moved / copy; "
      "ratio = median of rounds' bound / time\n\n");
  print_bandwidth(options);
  print_latency(options);
  return 0;
}
