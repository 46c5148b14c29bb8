// The part of the communicator suite about ranks that do wrong: errors on every rank, soon, never a hang.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "tests/conformance/communicator_support.h"

namespace zero1::test {

/// What each rank got: the message, and the culprit if it was a PeerError.
struct Outcome {
  std::string message;
  std::optional<int> failed_rank;
};

/// Runs `body` on every rank and collects the errors; ranks without one are left out. All within 10 s.
inline std::vector<Outcome> outcomes(CommunicatorBackend& backend, int size,
                                     const std::function<void(RankContext&)>& body) {
  std::mutex mutex;
  std::vector<Outcome> result;
  const auto begin = std::chrono::steady_clock::now();
  try {
    backend.run(size, [&](RankContext& context) {
      const auto add = [&](Outcome outcome) {
        const std::lock_guard lock(mutex);
        result.push_back(std::move(outcome));
      };
      try {
        body(context);
      } catch (const PeerError& error) {
        add({error.what(), error.failed_rank()});
        throw;
      } catch (const Error& error) {
        add({error.what(), {}});
        throw;
      }
    });
  } catch (const Error&) {  // collected above
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  return result;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

/// Every rank runs `body`, gets an Error that lists all ranks and shows `parts`, and gets it again later.
inline void expect_mismatch(CommunicatorBackend& backend, std::vector<std::string> parts,
                            const std::function<Work(RankContext&, TensorView, TensorView)>& body) {
  constexpr int size = 3;
  const auto errors = outcomes(backend, size, [&](RankContext& context) {
    Guarded<float> a(context, std::vector<float>(12, 1.0F));
    Guarded<float> b(context, std::vector<float>(12, 2.0F));
    try {
      body(context, a.view(), b.view()).wait();
    } catch (const PeerError&) {
      throw WrongResult("a mismatch blamed one peer");
    } catch (const Error&) {
      CHECK_THROWS_AS(context.comm().split(0, 0, "later"), Error);
      throw;
    }
  });
  CHECK(errors.size() == size);
  for (const char* rank : {"rank 0", "rank 1", "rank 2", "test-group"}) parts.emplace_back(rank);
  for (const auto& error : errors) {
    CHECK(!error.failed_rank);
    for (const auto& part : parts) CHECK_MESSAGE(contains(error.message, part), error.message);
  }
}

inline void check_mismatches(CommunicatorBackend& backend) {
  const auto sum = ReduceOp::sum;
  expect_mismatch(backend, {"all_reduce", "all_gather"}, [&](RankContext& c, TensorView a, TensorView b) {
    if (c.rank() != 1) return c.comm().all_reduce(c.stream, a, sum);
    return c.comm().all_gather(c.stream, a, b.slice({0, 4}));
  });
  expect_mismatch(backend, {"11 elements", "12 elements"}, [&](RankContext& c, TensorView a, TensorView) {
    return c.comm().all_reduce(c.stream, a.slice({0, c.rank() == 2 ? 11 : 12}), sum);
  });
  expect_mismatch(backend, {"float32", "float16"}, [&](RankContext& c, TensorView a, TensorView) {
    return c.comm().all_reduce(c.stream, {a.data, c.rank() == 0 ? DType::fp16 : DType::fp32, 12}, sum);
  });
  expect_mismatch(backend, {"sum", "max"}, [&](RankContext& c, TensorView a, TensorView b) {
    return c.comm().reduce_scatter(c.stream, a.slice({0, 4}), b, c.rank() == 0 ? ReduceOp::max : sum);
  });
  expect_mismatch(backend, {"root 0", "root 2"}, [&](RankContext& c, TensorView a, TensorView) {
    return c.comm().broadcast(c.stream, a, c.rank() == 0 ? 2 : 0);
  });
  expect_mismatch(
      backend, {"rank 1 sends 3 elements to rank 2, which expects 2"},
      [&](RankContext& c, TensorView a, TensorView b) {
        const std::vector<std::int64_t> two{2, 2, 2};
        const std::vector<std::int64_t> send{2, 2, c.rank() == 1 ? 3 : 2};
        return c.comm().all_to_all(c.stream, a.slice({0, 6}), two, b.slice({0, c.rank() == 1 ? 7 : 6}), send);
      });
  expect_mismatch(backend, {"2 coalesced", "barrier"}, [&](RankContext& c, TensorView a, TensorView b) {
    CoalescingScope scope(c.comm(), c.stream);
    c.comm().barrier(c.stream);
    if (c.rank() == 1) c.comm().broadcast(c.stream, a, 0);
    static_cast<void>(b);
    return scope.finish();
  });
  expect_mismatch(backend, {"call 2 of 2", "root 0", "root 1"},
                  [&](RankContext& c, TensorView a, TensorView b) {
                    CoalescingScope scope(c.comm(), c.stream);
                    c.comm().broadcast(c.stream, a, 0);
                    c.comm().broadcast(c.stream, b, c.rank() == 1 ? 1 : 0);
                    return scope.finish();
                  });
  expect_mismatch(backend, {"split", "barrier"}, [&](RankContext& c, TensorView, TensorView) {
    if (c.rank() != 1) return c.comm().barrier(c.stream);
    c.comm().split(0, 0, "part");
    return Work();
  });
  expect_mismatch(backend, {"'left'", "'right'"}, [&](RankContext& c, TensorView, TensorView) {
    c.comm().split(0, 0, c.rank() == 0 ? "left" : "right");
    return Work();
  });
}

/// One rank alone gives what cannot be right. Nothing is issued, so the group stays usable.
inline void check_arguments_rejected(CommunicatorBackend& backend) {
  backend.run(2, [&](RankContext& context) {
    Communicator& comm = context.comm();
    Stream& stream = context.stream;
    Guarded<float> buffer(context, std::vector<float>(12, 1.0F));
    Guarded<float> other(context, std::vector<float>(12, 1.0F));
    const TensorView whole = buffer.view();
    const auto cut = [&](std::int64_t start, std::int64_t end) { return whole.slice({start, end}); };
    const std::vector<std::int64_t> six{6, 6}, negative{-1, 13}, three{4, 4, 4};
    const auto rejected = [&](const auto& call) {
      try {
        call();
      } catch (const std::invalid_argument&) {
        return;
      }
      throw WrongResult("a wrong argument was accepted");
    };
    rejected([&] { comm.reduce_scatter(stream, cut(0, 5), other.view(), ReduceOp::sum); });
    rejected([&] { comm.reduce_scatter(stream, cut(2, 5), cut(0, 6), ReduceOp::sum); });
    rejected([&] { comm.all_gather(stream, whole, other.view()); });
    rejected([&] { comm.all_gather(stream, whole, cut(1, 7)); });
    rejected([&] { comm.all_gather(stream, {whole.data, DType::fp16, 12}, other.view().slice({0, 6})); });
    rejected([&] { comm.all_reduce(stream, {nullptr, DType::fp32, 3}, ReduceOp::sum); });
    rejected([&] { comm.all_reduce(stream, {whole.data, DType::fp32, -1}, ReduceOp::sum); });
    rejected([&] { comm.broadcast(stream, whole, 2); });
    rejected([&] { comm.broadcast(stream, whole, -1); });
    rejected([&] { comm.all_to_all(stream, whole, six, whole, six); });
    rejected([&] { comm.all_to_all(stream, whole, negative, other.view(), six); });
    rejected([&] { comm.all_to_all(stream, whole, three, other.view(), six); });
    rejected([&] { comm.all_to_all(stream, whole, six, cut(0, 11), six); });
    comm.barrier(stream).wait();
  });
}

/// Ranks wait in a collective, one throws instead: all others name it and its reason, now and later.
inline void check_throwing_rank(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    if (size < 2) continue;
    const int culprit = size / 2;
    std::string message;
    std::mutex mutex;
    int named = 0;
    const auto body = [&](RankContext& context) {
      Guarded<float> data(context, std::vector<float>(12, 1.0F));
      context.comm().all_reduce(context.stream, data.view(), ReduceOp::sum).wait();
      if (context.rank() == culprit) throw std::runtime_error("the dog ate a bucket");
      for (int attempt = 0; attempt < 2; ++attempt) {
        try {
          if (attempt == 0)
            context.comm().all_reduce(context.stream, data.view(), ReduceOp::sum).wait();
          else
            context.comm().split(0, 0, "later");
        } catch (const PeerError& error) {
          const bool told = error.failed_rank() == culprit &&
                            contains(error.what(), "the dog ate a bucket") &&
                            contains(error.what(), fmt::format("rank {}", culprit));
          const std::lock_guard lock(mutex);
          if (told)
            ++named;
          else
            message = error.what();
        }
      }
    };
    CHECK_THROWS_WITH_AS(backend.run(size, body), "the dog ate a bucket", std::runtime_error);
    CHECK_MESSAGE(named == 2 * (size - 1), message);
  }
}

/// A rank destroys its communicator while the others go on: what it has issued still runs.
inline void check_leaving_rank(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    if (size < 2) continue;
    const int culprit = size - 1;
    const auto errors = outcomes(backend, size, [&](RankContext& context) {
      Guarded<float> data(context, std::vector<float>(1001, 1.0F));
      const int rank = context.rank();
      const Work last = context.comm().all_reduce(context.stream, data.view(), ReduceOp::sum);
      if (rank == culprit) context.leave();
      last.wait();
      expect_same(data.read("the last call"), std::vector<float>(1001, static_cast<float>(size)), true,
                  "last call");
      if (rank != culprit) context.comm().barrier(context.stream).wait();
    });
    CHECK(errors.size() == static_cast<std::size_t>(size - 1));
    for (const auto& error : errors) {
      CHECK(error.failed_rank == culprit);
      CHECK_MESSAGE(contains(error.message, fmt::format("rank {} of 'test-group' has left", culprit)),
                    error.message);
    }
  }
}

/// One rank fails while others wait in the group it was split from, in its own, and in its sister group.
inline void check_abort_reach(CommunicatorBackend& backend) {
  constexpr int size = 5;
  const auto errors = outcomes(backend, size, [&](RankContext& context) {
    const int rank = context.rank();
    auto half = context.comm().split(rank % 2, 0, rank % 2 == 0 ? "even" : "odd");
    if (rank == 2) {
      half->abort("lost its shard");
      half->barrier(context.stream).wait();
    }
    Communicator& where = rank == 0 ? context.comm() : *half;
    while (true) where.barrier(context.stream).wait();
  });
  CHECK(errors.size() == size);
  for (const auto& error : errors) {
    CHECK(error.failed_rank == 2);
    CHECK_MESSAGE(contains(error.message, "lost its shard"), error.message);
    CHECK_MESSAGE(contains(error.message, "rank 1 of 'even' (rank 2 of 'test-group')"), error.message);
  }
}

}  // namespace zero1::test
