// The sizes of a batch that grows, by hand.
#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"
#include "core/train/batch_rampup.h"
#include "tests/support/message.h"

using namespace zero1;

namespace {

std::vector<std::int64_t> sizes(const std::optional<BatchRampup>& rampup, std::int64_t full, int iterations) {
  std::vector<std::int64_t> all;
  std::int64_t consumed = 0;
  for (int i = 0; i < iterations; ++i) {
    CHECK(consumed_after(rampup, full, i) == consumed);
    all.push_back(global_batch_size_at(rampup, full, consumed));
    consumed += all.back();
  }
  return all;
}

}  // namespace

TEST_CASE("without a ramp every batch is the full one") {
  CHECK(sizes({}, 8, 3) == std::vector<std::int64_t>{8, 8, 8});
}

TEST_CASE("the batch grows in equal stretches of consumed sequences, and is full behind them") {
  // 2 → 8 by 2 over 24: a stretch is 8 sequences.
  CHECK(sizes(BatchRampup{2, 2, 24}, 8, 10) == std::vector<std::int64_t>{2, 2, 2, 2, 4, 4, 6, 6, 8, 8});
  CHECK(global_batch_size_at(BatchRampup{2, 2, 24}, 8, 7) == 2);
  CHECK(global_batch_size_at(BatchRampup{2, 2, 24}, 8, 8) == 4);
  CHECK(global_batch_size_at(BatchRampup{2, 2, 24}, 8, 24) == 8);
  CHECK(global_batch_size_at(BatchRampup{2, 2, 24}, 8, 1'000'000'000'000) == 8);
  // One increment: the whole ramp runs at the first size. A stretch need not be whole: 10 / 3 sequences.
  CHECK(sizes(BatchRampup{4, 8, 10}, 12, 5) == std::vector<std::int64_t>{4, 4, 4, 12, 12});
  CHECK(sizes(BatchRampup{1, 1, 10}, 4, 8) == std::vector<std::int64_t>{1, 1, 1, 1, 2, 2, 3, 4});
}

TEST_CASE("a ramp that does not fit is refused, by what does not fit") {
  const auto refusal = [](const BatchRampup& rampup, std::int64_t full, std::int64_t multiple) {
    return test::message_of<InputError>([&] { check_rampup(rampup, full, multiple); });
  };
  CHECK_NOTHROW(check_rampup({2, 2, 24}, 8, 2));
  CHECK_NOTHROW(check_rampup({4, 12, 5}, 16, 4));
  CHECK(test::contains(refusal({0, 2, 24}, 8, 1),
                       "--rampup-batch-size 0 2 24: the batch to START with must be "
                       "at least 1"));
  CHECK(test::contains(refusal({2, 0, 24}, 8, 1), "the INCREMENT must be at least 1"));
  CHECK(test::contains(refusal({2, -2, 24}, 8, 1), "the INCREMENT must be at least 1"));
  CHECK(test::contains(refusal({2, 2, 0}, 8, 1), "the SAMPLES to ramp up over must be at least 1"));
  CHECK(test::contains(refusal({8, 2, 24}, 8, 1), "must be smaller than --global-batch-size (8)"));
  CHECK(test::contains(refusal({2, 4, 24}, 8, 1), "no multiple of the INCREMENT"));
  CHECK(test::contains(refusal({2, 2, 24}, 8, 4),
                       "the batch of 2 on the way is no multiple of "
                       "--micro-batch-size times --dp (4)"));
  CHECK(test::contains(refusal({4, 2, 24}, 8, 4), "the batch of 6 on the way"));
}
