// One collective as a test exercise: set up, issue, verify. Single calls, coalesced launches and the
// random stress all consist of these.
#pragma once

#include "tests/conformance/communicator_support.h"

namespace zero1::test {

enum class Kind { reduce_scatter, all_gather, all_reduce, broadcast, all_to_all, barrier };
inline constexpr Kind all_kinds[] = {Kind::reduce_scatter, Kind::all_gather, Kind::all_reduce,
                                     Kind::broadcast,      Kind::all_to_all, Kind::barrier};
inline constexpr DType all_dtypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::fp64};
inline constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::max};

/// The same on all ranks. `numel`: of a piece for reduce_scatter, all_gather and all_to_all (there: at
/// most), of the data for all_reduce and broadcast.
struct Spec {
  Kind kind = Kind::barrier;
  DType dtype = DType::fp32;
  std::int64_t numel = 0;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  bool in_place = false;
  std::uint64_t seed = 1;

  std::string text() const {
    constexpr std::string_view names[] = {"reduce_scatter", "all_gather", "all_reduce",
                                          "broadcast",      "all_to_all", "barrier"};
    return fmt::format("{} {} numel {} {} root {}{} seed {}", names[static_cast<int>(kind)], name(dtype),
                       numel, name(op), root, in_place ? " in place" : "", seed);
  }
};

class Exercise {
 public:
  virtual ~Exercise() = default;
  virtual Work issue(RankContext& context) = 0;
  /// Throws WrongResult. Also gives the bytes of the result, to compare reruns.
  virtual std::string verify(RankContext& context, bool exact) = 0;
};

template <class T>
class TypedExercise final : public Exercise {
 public:
  TypedExercise(RankContext& context, const Spec& spec)
      : spec_(spec), rank_(context.rank()), size_(context.size()) {
    for (int rank = 0; rank < size_; ++rank)
      inputs_.push_back(make_values<T>(spec.seed, rank, input_numel(rank)));
    const auto& own = inputs_[static_cast<std::size_t>(rank_)];
    const bool one_buffer = spec.kind == Kind::all_reduce || spec.kind == Kind::broadcast;
    in_place_ = one_buffer || (spec.in_place && spec.kind != Kind::all_to_all);
    if (in_place_ && spec.kind == Kind::all_gather) {
      std::vector<T> whole = all_nan<T>(spec.numel * size_);
      std::copy(own.begin(), own.end(), whole.begin() + rank_ * spec.numel);
      out_ = std::make_unique<Guarded<T>>(context, whole);
    } else if (in_place_) {
      out_ = std::make_unique<Guarded<T>>(context, own);
    } else {
      in_ = std::make_unique<Guarded<T>>(context, own);
      out_ = std::make_unique<Guarded<T>>(context, all_nan<T>(output_numel()));
    }
  }

  Work issue(RankContext& context) override {
    Communicator& comm = context.comm();
    const TensorView out = out_->view();
    switch (spec_.kind) {
      case Kind::reduce_scatter:
        return in_place_ ? comm.reduce_scatter(context.stream, out_->piece(rank_, spec_.numel), out, spec_.op)
                         : comm.reduce_scatter(context.stream, out, in_->view(), spec_.op);
      case Kind::all_gather:
        return comm.all_gather(context.stream, out,
                               in_place_ ? out_->piece(rank_, spec_.numel) : in_->view());
      case Kind::all_reduce: return comm.all_reduce(context.stream, out, spec_.op);
      case Kind::broadcast: return comm.broadcast(context.stream, out, spec_.root);
      case Kind::all_to_all: {
        std::vector<std::int64_t> send, receive;
        for (int peer = 0; peer < size_; ++peer) {
          send.push_back(count(rank_, peer));
          receive.push_back(count(peer, rank_));
        }
        return comm.all_to_all(context.stream, out, receive, in_->view(), send);
      }
      case Kind::barrier: break;
    }
    return comm.barrier(context.stream);
  }

  std::string verify(RankContext& context, bool exact) override {
    const std::string what = fmt::format("rank {} of {}, {}", context.rank(), context.size(), spec_.text());
    std::vector<T> result = out_->read(what);
    if (in_place_ && spec_.kind == Kind::reduce_scatter)
      result = slice(result, rank_ * spec_.numel, spec_.numel);
    expect_same(result, expected(), exact, what);
    if (in_)
      expect_same(in_->read(what), inputs_[static_cast<std::size_t>(rank_)], true, what + ", its input");
    return {reinterpret_cast<const char*>(result.data()), result.size() * sizeof(T)};
  }

 private:
  static std::vector<T> slice(const std::vector<T>& whole, std::int64_t start, std::int64_t numel) {
    return {whole.begin() + start, whole.begin() + start + numel};
  }

  /// Elements that `from` sends to `to` in an all_to_all: uneven, sometimes none.
  std::int64_t count(int from, int to) const {
    const auto mixed =
        spec_.seed + static_cast<std::uint64_t>(from) * 7 + static_cast<std::uint64_t>(to) * 13;
    return mixed % 4 == 0 ? 0
                          : static_cast<std::int64_t>(mixed % static_cast<std::uint64_t>(spec_.numel + 1));
  }

  std::int64_t input_numel(int rank) const {
    if (spec_.kind == Kind::reduce_scatter) return spec_.numel * size_;
    if (spec_.kind == Kind::barrier) return 0;
    if (spec_.kind != Kind::all_to_all) return spec_.numel;
    std::int64_t total = 0;
    for (int peer = 0; peer < size_; ++peer) total += count(rank, peer);
    return total;
  }

  std::int64_t output_numel() const {
    if (spec_.kind == Kind::barrier) return 0;
    if (spec_.kind != Kind::all_to_all)
      return spec_.kind == Kind::all_gather ? spec_.numel * size_ : spec_.numel;
    std::int64_t total = 0;
    for (int peer = 0; peer < size_; ++peer) total += count(peer, rank_);
    return total;
  }

  std::vector<T> expected() const {
    std::vector<T> result;
    switch (spec_.kind) {
      case Kind::reduce_scatter:
        return reduce_reference(spec_.op, inputs_, {rank_ * spec_.numel, (rank_ + 1) * spec_.numel});
      case Kind::all_reduce: return reduce_reference(spec_.op, inputs_, {0, spec_.numel});
      case Kind::broadcast: return inputs_[static_cast<std::size_t>(spec_.root)];
      case Kind::all_gather:
        for (const auto& input : inputs_) result.insert(result.end(), input.begin(), input.end());
        return result;
      case Kind::all_to_all:
        for (int from = 0; from < size_; ++from) {
          std::int64_t start = 0;
          for (int to = 0; to < rank_; ++to) start += count(from, to);
          const auto part = slice(inputs_[static_cast<std::size_t>(from)], start, count(from, rank_));
          result.insert(result.end(), part.begin(), part.end());
        }
        return result;
      case Kind::barrier: break;
    }
    return result;
  }

  Spec spec_;
  int rank_, size_;
  bool in_place_ = false;
  std::vector<std::vector<T>> inputs_;
  std::unique_ptr<Guarded<T>> in_, out_;
};

inline std::unique_ptr<Exercise> make_exercise(RankContext& context, const Spec& spec) {
  return visit_dtype(spec.dtype, [&](auto element) -> std::unique_ptr<Exercise> {
    return std::make_unique<TypedExercise<decltype(element)>>(context, spec);
  });
}

}  // namespace zero1::test
