// The conformance suite of Communicator: what every backend must do. A backend's file derives from
// CommunicatorBackend and writes ZERO1_COMMUNICATOR_SUITE(Backend).
#pragma once

#include <doctest/doctest.h>

#include <mutex>

#include "core/base/error.h"
#include "tests/conformance/communicator_exercise.h"
#include "tests/conformance/communicator_failure_suite.h"
#include "tests/conformance/communicator_prologue_suite.h"

namespace zero1::test {

inline void run_one(RankContext& context, const Spec& spec, bool exact) {
  const auto exercise = make_exercise(context, spec);
  const Work work = exercise->issue(context);
  work.wait();
  expect(work.completed(), "Work::wait returned before the collective was done");
  exercise->verify(context, exact);
}

/// Every kind with every dtype, uneven sizes, in place and not, on every group size.
inline void check_each_collective(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    backend.run(size, [&](RankContext& context) {
      std::uint64_t seed = 1;
      for (const Kind kind : all_kinds) {
        for (const DType dtype : all_dtypes) {
          for (const std::int64_t numel : {0, 1, 3, 5, 7, 64, 501}) {
            for (const bool in_place : {false, true}) {
              const auto op = all_ops[seed % 3];
              run_one(context, {kind, dtype, numel, op, static_cast<int>(seed % 5) % size, in_place, seed},
                      backend.exact());
              ++seed;
            }
          }
        }
      }
    });
  }
}

/// Every reduction with every dtype, over more than one block of any implementation.
inline void check_reductions(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    backend.run(size, [&](RankContext& context) {
      std::uint64_t seed = 100;
      for (const ReduceOp op : all_ops) {
        for (const DType dtype : all_dtypes) {
          for (const Kind kind : {Kind::reduce_scatter, Kind::all_reduce}) {
            const std::int64_t numel = kind == Kind::all_reduce ? 5003 : 2503;
            run_one(context, {kind, dtype, numel, op, 0, seed % 2 == 0, seed}, backend.exact());
            ++seed;
          }
        }
      }
    });
  }
}

/// All ranks hold the same bits after an all-reduce, and a second run gives them again.
inline void check_determinism(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    std::mutex mutex;
    std::vector<std::string> results;
    for (int rerun = 0; rerun < 2; ++rerun) {
      backend.run(size, [&](RankContext& context) {
        const Spec spec{Kind::all_reduce, DType::bf16, 10007, ReduceOp::average, 0, true, 77};
        const auto exercise = make_exercise(context, spec);
        exercise->issue(context).wait();
        std::string bytes = exercise->verify(context, backend.exact());
        const std::lock_guard lock(mutex);
        results.push_back(std::move(bytes));
      });
    }
    for (const auto& result : results) CHECK(result == results.front());
  }
}

/// Mixed kinds, dtypes and sizes in one launch; the single calls return empty Work.
inline void check_coalescing(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    backend.run(size, [&](RankContext& context) {
      std::vector<std::unique_ptr<Exercise>> exercises;
      std::uint64_t seed = 300;
      for (const Kind kind : all_kinds) {
        const Spec spec{kind,
                        all_dtypes[seed % 4],
                        37 * static_cast<std::int64_t>(seed % 5),
                        all_ops[seed % 3],
                        size - 1,
                        seed % 2 == 0,
                        seed};
        exercises.push_back(make_exercise(context, spec));
        ++seed;
      }
      CoalescingScope scope(context.comm(), context.stream);
      for (const auto& exercise : exercises) {
        expect(!exercise->issue(context).valid(), "a coalesced call returned a Work of its own");
      }
      scope.finish().wait();
      for (const auto& exercise : exercises) exercise->verify(context, backend.exact());
      CoalescingScope nothing(context.comm(), context.stream);
      nothing.finish().wait();
    });
  }
}

/// Work::order: what another stream does later sees the result.
inline void check_order(CommunicatorBackend& backend) {
  backend.run(backend.sizes().back(), [&](RankContext& context) {
    const auto other = context.device.create_stream(StreamKind::compute);
    const std::vector<float> ones(1001, 1.0F);
    Guarded<float> data(context, ones);
    const Work work = context.comm().all_reduce(context.stream, data.view(), ReduceOp::sum);
    work.order(*other);
    std::vector<float> seen(ones.size());
    context.device.copy_to_host(*other, seen.data(), data.view());
    other->synchronize();
    const std::vector<float> expected(ones.size(), static_cast<float>(context.size()));
    expect_same(seen, expected, true, "after Work::order");
  });
}

/// Groups of odd and even ranks in reverse order, split once more, beside the group they come from.
inline void check_split(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    backend.run(size, [&](RankContext& context) {
      const int rank = context.rank();
      const int color = rank % 2;
      const std::string name = color == 0 ? "even" : "odd";
      auto half = context.comm().split(color, -rank, name);
      const int half_size = (size + 1 - color) / 2;
      expect(half->name() == name && half->size() == half_size, "a split group's name or size is wrong");
      expect(half->rank() == half_size - 1 - rank / 2, "a split group's order is not that of its keys");
      {
        RankContext inside{half, context.device, context.stream};
        run_one(inside, {Kind::all_reduce, DType::fp32, 301, ReduceOp::sum, 0, true, 5}, backend.exact());
        auto alone = half->split(half->rank(), 0, "alone");
        RankContext single{alone, context.device, context.stream};
        run_one(single, {Kind::reduce_scatter, DType::bf16, 33, ReduceOp::average, 0, false, 6},
                backend.exact());
        run_one(inside, {Kind::all_gather, DType::fp16, 77, ReduceOp::sum, 0, true, 7}, backend.exact());
      }
      auto everyone = context.comm().split(0, 0, "everyone");
      RankContext again{everyone, context.device, context.stream};
      run_one(again, {Kind::all_to_all, DType::fp64, 29, ReduceOp::sum, 0, false, 8}, backend.exact());
      half.reset();  // leaving one group is not leaving another
      run_one(context, {Kind::reduce_scatter, DType::fp32, 41, ReduceOp::max, 0, true, 9}, backend.exact());
    });
  }
}

/// A random schedule, the same on all ranks: several launches in flight, some coalesced.
inline void check_stress(CommunicatorBackend& backend) {
  for (const int size : backend.sizes()) {
    backend.run(size, [&](RankContext& context) {
      std::mt19937_64 random(static_cast<std::uint64_t>(size));
      const auto below = [&](std::uint64_t limit) { return random() % limit; };
      for (int done = 0; done < 300;) {
        std::vector<std::unique_ptr<Exercise>> batch;
        const auto launches = 1 + below(5);
        for (std::uint64_t launch = 0; launch < launches; ++launch) {
          const bool coalesced = below(3) == 0;
          const auto calls = coalesced ? 1 + below(6) : 1;
          const std::size_t first = batch.size();
          for (std::uint64_t call = 0; call < calls; ++call) {
            batch.push_back(make_exercise(
                context, {all_kinds[below(6)], all_dtypes[below(4)], static_cast<std::int64_t>(below(400)),
                          all_ops[below(3)], static_cast<int>(below(static_cast<std::uint64_t>(size))),
                          below(2) == 0, random() % 100000}));
          }
          if (coalesced) context.comm().begin_coalescing();
          for (std::size_t i = first; i < batch.size(); ++i) batch[i]->issue(context);
          if (coalesced) context.comm().end_coalescing(context.stream);
        }
        for (const auto& exercise : batch) exercise->verify(context, backend.exact());
        done += static_cast<int>(batch.size());
      }
    });
  }
}

}  // namespace zero1::test

#define ZERO1_COMMUNICATOR_CASE(Backend, title, check) \
  TEST_CASE(title) {                                   \
    Backend backend;                                   \
    CHECK_NOTHROW(zero1::test::check(backend));        \
  }

#define ZERO1_COMMUNICATOR_SUITE(Backend)                                                                 \
  ZERO1_COMMUNICATOR_CASE(Backend, "each collective gives the reference's result", check_each_collective) \
  ZERO1_COMMUNICATOR_CASE(Backend, "each reduction gives the reference's result", check_reductions)       \
  ZERO1_COMMUNICATOR_CASE(Backend, "results are the same on all ranks and reruns", check_determinism)     \
  ZERO1_COMMUNICATOR_CASE(Backend, "mixed calls coalesce into one launch", check_coalescing)              \
  ZERO1_COMMUNICATOR_CASE(Backend, "Work orders another stream", check_order)                             \
  ZERO1_COMMUNICATOR_CASE(Backend, "groups split, also again", check_split)                               \
  ZERO1_COMMUNICATOR_CASE(Backend, "several hundred collectives in random order", check_stress)           \
  ZERO1_COMMUNICATOR_CASE(Backend, "a prologue gives the reference's result", check_prologues)            \
  ZERO1_COMMUNICATOR_CASE(Backend, "wrong prologues throw at the call", check_prologues_rejected)         \
  ZERO1_COMMUNICATOR_CASE(Backend, "wrong arguments throw at the call", check_arguments_rejected)         \
  ZERO1_COMMUNICATOR_CASE(Backend, "mismatched calls show every rank's call", check_mismatches)           \
  ZERO1_COMMUNICATOR_CASE(Backend, "a throwing rank is named to all others", check_throwing_rank)         \
  ZERO1_COMMUNICATOR_CASE(Backend, "a rank that leaves is named to all others", check_leaving_rank)       \
  ZERO1_COMMUNICATOR_CASE(Backend, "abort reaches split groups and their parent", check_abort_reach)
