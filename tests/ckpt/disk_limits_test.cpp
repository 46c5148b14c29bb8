// Disks that lack something, room or locks: nothing that was saved is lost, nothing is left, and the program
// says what is missing.
#include <doctest/doctest.h>

#include "ckpt/checkpoint.h"
#include "tests/ckpt/disk_experiment.h"
#include "tests/support/effort.h"
#include "tests/support/skip.h"

using namespace zero1;

#ifdef ZERO1_DISK_SHIM

using namespace zero1::test;

namespace {

/// Runs `experiment` with a disk that is full at one call after another that needs room. `saved` checks what
/// there must be after a success, `refused` what there must be after an error. How many errors there were.
template <class Saved, class Refused>
int fill_disk(Experiment& experiment, Saved saved, Refused refused) {
  int failed = 0;
  for (std::size_t at = 1; at <= experiment.calls().size(); at += test::sweep_stride(2, 5)) {
    const Call& call = experiment.calls()[at - 1];
    if (phase_of(call) == "prune") continue;  // removing needs no room
    CAPTURE(at);
    CAPTURE(call.name);
    CAPTURE(call.path);
    const Outcome outcome = experiment.run("full", at);
    CHECK(ckpt::find_leftovers(experiment.root()).empty());
    if (outcome.status == 0) {  // flushing a folder is no more than an attempt
      CHECK_MESSAGE(call.name == "fsync", outcome.output);
      saved();
      continue;
    }
    CHECK_MESSAGE(outcome.says("No space left on device"), outcome.output);
    CHECK_MESSAGE(!outcome.says("HDF5:"), outcome.output);
    CHECK_MESSAGE(!outcome.says("errno"), outcome.output);
    // Where not even a folder or a file can be made, the target is what is wrong.
    CHECK_MESSAGE((outcome.status == 1 || outcome.status == 2), outcome.output);
    refused(call, outcome);
    ++failed;
  }
  return failed;
}

}  // namespace

TEST_CASE("a disk that is full at any call of saving: an error that says so, nothing lost, nothing left") {
  Experiment experiment(train + "--train-iters 3 --load ROOT --save ROOT --keep-last 2", fixture().two);
  const std::string& root = experiment.root();
  const int failed = fill_disk(
      experiment,
      [&] {
        check_published(root, experiment.reference());
        CHECK(ckpt::Checkpoint(root).state().step == 3);
      },
      [&](const Call& call, const Outcome& outcome) {
        check_published(root, experiment.reference());
        CHECK(ckpt::Checkpoint(root).state().step >= 2);
        CHECK_MESSAGE(outcome.status == (call.name == "mkdir" ? 2 : 1), outcome.output);
      });
  CHECK(failed > (test::full_effort() ? 20 : 8));
}

TEST_CASE("a disk that is full at any call of resharding and gathering: an error, and nothing is left") {
  for (const std::string& transform : transforms) {
    CAPTURE(transform);
    Experiment experiment(transform, source_folder());
    const auto before = contents_of(source_folder());
    const auto after = contents_of(experiment.after());
    const std::string& root = experiment.root();
    const int failed = fill_disk(
        experiment, [&] { CHECK(contents_of(root) == after); },
        [&](const Call&, const Outcome&) { CHECK(contents_of(root) == before); });
    CHECK(failed >= (test::full_effort() ? 3 : 1));
  }
}

TEST_CASE("a file system without locks: everything works, and clean says what it cannot know") {
  Experiment experiment(train + "--train-iters 4 --load ROOT --save ROOT --save-interval 1 --keep-last 2",
                        fixture().two);
  const std::string no_locks = "ZERO1_SHIM_NO_LOCKS=1";
  const test::Outcome outcome = experiment.run("", 0, no_locks);
  CHECK_MESSAGE(outcome.status == 0, outcome.output);
  const std::string& root = experiment.root();
  check_published(root, experiment.reference());
  CHECK(ckpt::published_steps(root) == std::vector<std::int64_t>{3, 4});
  const auto zero1_without_locks = [&](const std::string& arguments) {
    return test::run_command(fmt::format("{} LD_PRELOAD={} {} {}", no_locks, ZERO1_DISK_SHIM,
                                         test::quoted(ZERO1_BIN_DIR "/zero1"), arguments));
  };
  CHECK(zero1_without_locks("ckpt verify " + root).status == 0);
  CHECK(zero1_without_locks(train + "--train-iters 5 --load " + root).says(fixture().final_params));
  // Whoever asks HDF5 for locks where there are none is told what to set.
  const test::Outcome asked = experiment.run("", 0, no_locks + " HDF5_USE_FILE_LOCKING=TRUE");
  CHECK(asked.status == 1);
  CHECK_MESSAGE(asked.says("set HDF5_USE_FILE_LOCKING=FALSE"), asked.output);

  const std::string leftover = root + "/.tmp-step_00000009.1.0";
  fs::create_directory(leftover);
  CHECK(zero1_without_locks("ckpt inspect " + root).says("cannot be told"));
  const test::Outcome careful = zero1_without_locks("ckpt clean " + root);
  CHECK_MESSAGE(careful.says("--force"), careful.output);
  CHECK(fs::exists(leftover));
  CHECK(zero1_without_locks("ckpt clean --force " + root).status == 0);
  CHECK(!fs::exists(leftover));
}

#else

TEST_CASE("a full disk at any call") {
  test::skip("a sanitizer's runtime cannot be preloaded together with the one that does the harm");
}

#endif
