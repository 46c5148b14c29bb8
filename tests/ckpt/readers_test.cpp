// Whoever loads while a run saves and prunes sees one checkpoint or another, whole.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "ckpt/diff.h"
#include "core/base/error.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
namespace fs = std::filesystem;

namespace {

const std::string train =
    "train --dp 2 --num-layers 1 --hidden-size 12 --num-attention-heads 3 --seq-length 8 --threads-per-rank "
    "1 "
    "--log-interval 0 ";

}  // namespace

TEST_CASE("this process loads while another one trains, saves every step, publishes and prunes") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("root");
  const std::string all = folder.path("all");
  REQUIRE(test::run_zero1(train + "--train-iters 40 --save-interval 1 --save " + all).status == 0);
  REQUIRE(test::run_zero1(train + "--train-iters 1 --save " + root).status == 0);

  std::atomic<bool> done{false};
  test::Outcome outcome;
  std::thread saver([&] {
    outcome = test::run_zero1(train + "--train-iters 40 --save-interval 1 --keep-last 1 --load " + root +
                              " --save " + root);
    done = true;
  });
  std::int64_t last = 1;
  int loaded = 0;
  std::set<std::int64_t> seen;
  while (!done) {
    try {
      const ckpt::Checkpoint latest(root);
      const std::int64_t step = latest.state().step;
      CHECK(step >= last);
      // Every element is that of an undisturbed run's checkpoint of the same step.
      CHECK(ckpt::diff(latest, ckpt::Checkpoint(all, step), {{}, {}, true, ""}).equal());
      last = step;
      seen.insert(step);
      ++loaded;
    } catch (const std::exception& error) {
      FAIL_CHECK(std::string(error.what()));
    }
  }
  saver.join();
  CHECK_MESSAGE(outcome.status == 0, outcome.output);
  CHECK(loaded > 0);
  CHECK(ckpt::Checkpoint(root).state().step == 40);
  MESSAGE(loaded << " loads of " << seen.size() << " different steps");
}

TEST_CASE("programs that load, inspect and verify while another one saves") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("root");
  REQUIRE(test::run_zero1(train + "--train-iters 1 --save " + root).status == 0);
  std::atomic<bool> done{false};
  test::Outcome outcome;
  std::thread saver([&] {
    outcome =
        test::run_zero1(train + "--train-iters 30 --save-interval 1 --keep-last 1 --async-save --load " +
                        root + " --save " + root);
    done = true;
  });
  const std::string gathered = folder.path("gathered.h5");
  int runs = 0;
  while (!done || runs == 0) {
    for (const std::string& command : {"ckpt inspect --json " + root, "ckpt verify " + root,
                                       "ckpt gather --model-only " + root + " " + gathered}) {
      fs::remove(gathered);
      const test::Outcome each = test::run_zero1(command);
      CHECK_MESSAGE(each.status == 0, command << ": " << each.output);
    }
    ++runs;
  }
  saver.join();
  CHECK_MESSAGE(outcome.status == 0, outcome.output);
}
