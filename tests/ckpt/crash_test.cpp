// The program, killed or interrupted at one call after another: what was saved before stays and loads, what
// is left behind is reported and can be removed.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "ckpt/checkpoint.h"
#include "ckpt/verify.h"
#include "tests/ckpt/disk_experiment.h"
#include "tests/support/effort.h"
#include "tests/support/skip.h"

using namespace zero1;

#ifdef ZERO1_DISK_SHIM

using namespace zero1::test;

namespace {

/// What was left behind is found, and removed, and nothing else. Every fifth time by the program's `inspect`
/// and `clean`, which take as long as everything else; otherwise by what they call.
int check_cleaning(const std::string& root, const std::string& source, std::size_t serial) {
  const auto leftovers = ckpt::find_leftovers(root);
  for (const ckpt::Leftover& each : leftovers) CHECK(each.use == ckpt::FolderUse::none);
  const std::vector<std::int64_t> before = ckpt::published_steps(root);
  if (serial % 5 == 0) {
    const test::Outcome inspected = test::run_zero1("ckpt inspect " + source);
    CHECK_MESSAGE(inspected.status == 0, inspected.output);
    for (const ckpt::Leftover& each : leftovers) CHECK_MESSAGE(inspected.says(each.path), inspected.output);
    CHECK(inspected.says("left behind by a run that was killed") == !leftovers.empty());
    CHECK(test::run_zero1("ckpt clean " + root).status == 0);
  } else {
    ckpt::remove_leftovers(leftovers);
  }
  CHECK(ckpt::find_leftovers(root).empty());
  CHECK(ckpt::published_steps(root) == before);
  for (const auto& entry : fs::directory_iterator(root)) {
    CHECK(!entry.path().filename().string().starts_with("."));
  }
  return leftovers.empty() ? 0 : 1;
}

/// The step that `latest` must name: 2 at first, then `stride` more with each rename that was made.
std::int64_t latest_after(const std::vector<Call>& calls, bool last_is_done, int stride) {
  std::int64_t latest = 2;
  std::size_t done = calls.size() - (last_is_done ? 0 : 1);
  for (std::size_t i = 0; i < done; ++i) {
    if (calls[i].name == "rename" && calls[i].path.ends_with("/latest")) latest += stride;
  }
  return latest;
}

/// Kills `experiment`'s training, which saves every `steps` steps (0: the same step again), at every
/// `stride`-th call and at each one that publishes; how many kills fell into each phase.
std::map<std::string, int> kill_training(Experiment& experiment, std::size_t first, std::size_t stride,
                                         int steps = 1) {
  std::map<std::string, int> kills;
  for (std::size_t at = first; at <= experiment.calls().size(); ++at) {
    if ((at - first) % stride != 0 && phase_of(experiment.calls()[at - 1]) != "publish") continue;
    const bool torn = (at / stride) % 2 == 1;
    CAPTURE(at);
    CAPTURE(torn);
    const test::Outcome outcome = experiment.run(torn ? "torn" : "kill", at);
    REQUIRE_MESSAGE(outcome.status == 128 + SIGKILL, outcome.output);
    const std::vector<Call> calls = experiment.logged();
    REQUIRE(calls.size() >= at);
    CAPTURE(calls[at - 1].name);
    CAPTURE(calls[at - 1].path);
    ++kills[phase_of(calls[at - 1])];
    const std::string& root = experiment.root();
    check_published(root, experiment.reference());
    const ckpt::Checkpoint latest(root);
    CHECK(latest.state().step >=
          latest_after({calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(at)}, torn, steps));
    kills["with leftovers"] += check_cleaning(root, root, at);
    if (at % 16 == 0) {  // and the program itself goes on from there, to the same end
      const test::Outcome resumed = test::run_zero1(train + "--train-iters 5 --load " + root);
      CHECK_MESSAGE(resumed.says(fixture().final_params), resumed.output);
    }
  }
  return kills;
}

}  // namespace

TEST_CASE("training killed at every call by which it saves, publishes and prunes") {
  Experiment experiment(train + "--train-iters 4 --load ROOT --save ROOT --save-interval 1 --keep-last 2",
                        fixture().two);
  CHECK(ckpt::published_steps(experiment.after()) == std::vector<std::int64_t>{3, 4});
  const std::size_t stride = test::sweep_stride(1, 5);
  const auto kills = kill_training(experiment, 1, stride);
  const int all = kills.at("save") + kills.at("publish") + kills.at("prune");
  MESSAGE(all << " kills: " << kills.at("save") << " while saving, " << kills.at("publish")
              << " while publishing, " << kills.at("prune") << " while pruning; "
              << kills.at("with leftovers") << " left something behind");
  CHECK(all >= 120 / static_cast<int>(stride));
  CHECK(kills.at("publish") >= 8);
  CHECK(kills.at("prune") >= 8 / static_cast<int>(stride));
}

TEST_CASE("the same with saving behind training, and when the same step is saved again") {
  Experiment behind(
      train + "--train-iters 4 --load ROOT --save ROOT --save-interval 1 --keep-last 2 --async-save",
      fixture().two);
  const std::size_t stride = test::sweep_stride(2, 7);
  const auto kills = kill_training(behind, 2, stride);
  CHECK(kills.at("save") + kills.at("publish") + kills.at("prune") >= 120 / static_cast<int>(stride));
  Experiment again(train + "--train-iters 2 --save ROOT --save-interval 2", fixture().two);
  CHECK(std::any_of(again.calls().begin(), again.calls().end(),
                    [](const Call& call) { return call.name == "renameat2"; }));
  kill_training(again, 1, test::sweep_stride(3, 5), 0);
}

TEST_CASE("resharding killed at every call") {
  Experiment experiment("ckpt reshard ROOT/source ROOT/target --dp 3 --workers 2 --bucket-size 700", [] {
    static const test::TemporaryFolder folder;
    fs::copy(fixture().two + "/step_00000002", folder.path("source"), fs::copy_options::recursive);
    return folder.path();
  }());
  const ckpt::Checkpoint target(experiment.after() + "/target");
  const auto source = contents_of(experiment.after() + "/source");
  const std::size_t stride = test::sweep_stride(1, 5);
  int leftovers = 0;
  for (std::size_t at = 1; at <= experiment.calls().size(); at += stride) {
    const bool torn = at % 2 == 1;
    CAPTURE(at);
    CAPTURE(experiment.calls()[at - 1].name);
    REQUIRE(experiment.run(torn ? "torn" : "kill", at).status == 128 + SIGKILL);
    const std::string& root = experiment.root();
    CHECK(contents_of(root + "/source") == source);
    if (fs::exists(root + "/target")) {
      CHECK(ckpt::verify(root + "/target").faults.empty());
      CHECK(contents_of(root + "/target") == contents_of(experiment.after() + "/target"));
    }
    leftovers += check_cleaning(root, root + "/source", at);
  }
  CHECK(experiment.calls().size() >= 50);
  CHECK(leftovers > 40 / static_cast<int>(stride));
  MESSAGE(experiment.calls().size() << " kills, " << leftovers << " left something behind");
}

TEST_CASE("Ctrl-C at any call of resharding and gathering: nothing is left, or everything is there") {
  for (const std::string& transform : transforms) {
    CAPTURE(transform);
    Experiment experiment(transform, source_folder());
    const auto before = contents_of(source_folder());
    const auto after = contents_of(experiment.after());
    int interrupted = 0;
    for (std::size_t at = 1; at <= experiment.calls().size(); at += test::sweep_stride(3, 7)) {
      CAPTURE(at);
      CAPTURE(experiment.calls()[at - 1].name);
      const test::Outcome outcome = experiment.run("interrupt", at);
      const std::string& root = experiment.root();
      CHECK(ckpt::find_leftovers(root).empty());
      if (outcome.status == 0) {
        CHECK(contents_of(root) == after);
        continue;
      }
      // The program ends by the signal; some shells then do the same.
      CHECK_MESSAGE((outcome.status == 128 + SIGINT || outcome.status == -1), outcome.output);
      CHECK(contents_of(root) == before);
      ++interrupted;
    }
    CHECK(interrupted >= (test::full_effort() ? 3 : 1));
  }
}

#else

TEST_CASE("killed at any call") {
  test::skip("a sanitizer's runtime cannot be preloaded together with the one that does the harm");
}

#endif
