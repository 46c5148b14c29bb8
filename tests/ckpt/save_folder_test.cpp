// The folder of --save: what stays in it and what goes, and what is told before the first step.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "ckpt/checkpoint.h"
#include "ckpt/save_checks.h"
#include "ckpt/verify.h"
#include "tests/ckpt/tiny_run.h"
#include "tests/support/skip.h"

using namespace zero1;
using namespace zero1::test;
namespace fs = std::filesystem;

namespace {

/// A folder with steps 10, 20 and 30 of a run.
struct ThreeSteps {
  ThreeSteps() { REQUIRE(train_tiny("--train-iters 30 --save-interval 10 --save " + root).status == 0); }

  Steps steps() const { return ckpt::published_steps(root); }
  Outcome go_on(const std::string& flags) const { return train_tiny(flags + " --save " + root + " "); }

  TemporaryFolder folder;
  std::string root = folder.path("run");
};

}  // namespace

TEST_CASE("going back: the base and what the run has written stay, higher steps until they are reached") {
  const ThreeSteps there;
  const std::string thirty = there.folder.read("run/step_00000030/checkpoint.h5");
  const Outcome back =
      there.go_on("--train-iters 18 --save-interval 2 --keep-last 2 --ckpt-step 10 --load " + there.root);
  CAPTURE(back.output);
  CHECK(back.status == 0);
  CHECK(back.says("has checkpoints up to step 30 already, and this run begins after step 10"));
  CHECK(back.says("(20, 30) stay, also with --keep-last, until this run saves the same step"));
  CHECK(back.says("`latest` names step 30 until this run's first save, then what this run has saved last"));
  CHECK(there.steps() == Steps{10, 16, 18, 20, 30});
  CHECK(ckpt::linked_step(there.root, ckpt::latest_name) == 18);
  // The same at the step that another run has saved, by number the highest so far.
  CHECK(there.go_on("--train-iters 24 --save-interval 2 --keep-last 1 --load " + there.root).status == 0);
  CHECK(there.steps() == Steps{18, 24, 30});
  CHECK(there.folder.read("run/step_00000030/checkpoint.h5") == thirty);
  CHECK(ckpt::verify(there.root).faults.empty());
}

TEST_CASE("--keep-last takes nothing that the run does not go on from") {
  const ThreeSteps there;
  const std::string keep = " --save-interval 5 --keep-last 1 ";
  // A run from the beginning.
  CHECK(
      there.go_on("--train-iters 9" + keep).says("this run begins after step 0. Those beyond (10, 20, 30)"));
  CHECK(there.steps() == Steps{9, 10, 20, 30});
  // A run that was loaded from elsewhere.
  REQUIRE(train_tiny("--train-iters 31 --save " + there.folder.path("other")).status == 0);
  CHECK(!there.go_on("--train-iters 40" + keep + "--load " + there.folder.path("other")).says("up to step"));
  CHECK(there.steps() == Steps{9, 10, 20, 30, 40});
  // The base named by a link that moves, or by its own folder.
  CHECK(there.go_on("--train-iters 50" + keep + "--load " + there.root + "/latest").status == 0);
  CHECK(there.steps() == Steps{40, 50});
  CHECK(there.go_on("--train-iters 60" + keep + "--load " + there.root + "/step_00000050").status == 0);
  CHECK(there.steps() == Steps{50, 60});
}

TEST_CASE("a new run does not replace what it took its parameters from") {
  const ThreeSteps there;
  const std::string weights = " --load-weights-only --load " + there.root + " --ckpt-step 10 ";
  const Outcome refused = there.go_on("--train-iters 10" + weights);
  CHECK(refused.status == 2);
  CHECK_MESSAGE(refused.says("would replace step 10, whose parameters it begins with"), refused.output);
  CHECK(there.go_on("--train-iters 9" + weights).status == 0);
  CHECK(there.steps() == Steps{9, 10, 20, 30});
}

TEST_CASE("what is in the way of a save is told before the first step, and nothing is changed") {
  const TemporaryFolder folder;
  const std::string root = folder.path("run");
  const std::string there = train_tiny("--train-iters 2 --save " + root).output;
  REQUIRE(fs::exists(root + "/latest"));
  fs::rename(root + "/step_00000002", root + "/elsewhere");
  fs::remove(root + "/latest");
  const auto folder_at = [](const std::string& path) { fs::create_directories(path + "/inside"); };
  const auto empty_at = [](const std::string& path) { fs::create_directories(path); };
  const auto file_at = [](const std::string& path) { std::ofstream(path) << "kept"; };
  const auto link_at = [](const std::string& path) { fs::create_symlink("elsewhere", path); };
  struct Case {
    const char* name;
    std::function<void(const std::string&)> make;
    const char* says;
  };
  for (const Case& each : {Case{"latest", folder_at, "latest is a folder"},
                           {"latest", empty_at, "latest is a folder"},
                           {"latest", file_at, "latest is a file"},
                           {"best", folder_at, "best is a folder"},
                           {"best", file_at, "best is a file"},
                           {"step_00000003", file_at, "step_00000003 is no folder"},
                           {"step_00000003", folder_at, "step_00000003 is a folder without a checkpoint.h5"},
                           {"step_00000002", link_at, "step_00000002 is a link"}}) {
    CAPTURE(each.says);
    const std::string path = root + "/" + each.name;
    each.make(path);
    const std::string before = names_in(root);
    const Outcome outcome = train_tiny(
        "--train-iters 3 --save-best --eval --valid-data /etc/services --eval-iters 1 --save " + root);
    CHECK_MESSAGE(outcome.status == 2, outcome.output);
    CHECK_MESSAGE(outcome.says(each.says), outcome.output);
    CHECK(outcome.says("mv " + path + " " + path + ".old"));
    CHECK(names_in(root) == before);
    fs::remove_all(path);
  }
  // Beyond the run's steps, or an empty folder: not in the way.
  file_at(root + "/step_00000004");
  empty_at(root + "/step_00000003");
  CHECK(train_tiny("--train-iters 3 --save " + root).status == 0);
}

TEST_CASE("a folder that cannot be: an error, and no part of it is made") {
  const TemporaryFolder folder;
  folder.write("file", "");
  fs::create_symlink("nowhere", folder.path("link"));
  fs::create_directory(folder.path("read_only"));
  const bool mounted =
      ::mount("tmpfs", folder.path("read_only").c_str(), "tmpfs", MS_RDONLY, "size=64k") == 0;
  REQUIRE(train_tiny("--train-iters 1 --save " + folder.path("run")).status == 0);
  fs::rename(folder.path("run/step_00000001"), folder.path("checkpoint"));
  fs::remove_all(folder.path("run"));
  for (const char* name :
       {"file", "file/below", "link", "read_only", "read_only/below", "checkpoint", "checkpoint/below"}) {
    if (std::string(name).starts_with("read") && !mounted) continue;
    const Outcome outcome =
        train_tiny("--train-iters 1 --metrics " + folder.path("metrics") + " --save " + folder.path(name));
    CAPTURE(name);
    CHECK_MESSAGE(outcome.status == 2, outcome.output);
    const std::string where =
        name + std::string(std::string(name).starts_with("check") ? "/step_00000001" : "");
    CHECK_MESSAGE(outcome.says("/" + where + ": nothing can be written there: "), outcome.output);
  }
  if (mounted) CHECK(::umount(folder.path("read_only").c_str()) == 0);
  // What is refused for another reason leaves no folder either.
  CHECK(run_command("ulimit -f 8; " + quoted(ZERO1_BIN_DIR "/zero1") + " " + tiny +
                    "--train-iters 1 --save " + folder.path("new/deep"))
            .says("(ulimit -f)"));
  CHECK(folder.count() == 4);
  CHECK(ckpt::verify(folder.path("checkpoint")).faults.empty());
  CHECK(names_in(folder.path("checkpoint")) == "checkpoint.h5 rank_00000.h5 rank_00001.h5 ");
}

TEST_CASE("no room for one checkpoint: told before the first step") {
  const TemporaryFolder folder;
  const std::string mounted = folder.path("small");
  fs::create_directory(mounted);
  if (::mount("tmpfs", mounted.c_str(), "tmpfs", 0, "size=64k") != 0) {
    skip("mounting a small tmpfs needs the right to mount");
    return;
  }
  const Outcome outcome = train_tiny("--train-iters 1 --save " + mounted + "/run");
  CHECK(outcome.status == 2);
  CHECK_MESSAGE(outcome.says("takes about 1"), outcome.output);
  CHECK_MESSAGE(outcome.says("but only 6"), outcome.output);
  CHECK(outcome.says("are available there: make room"));
  CHECK(names_in(mounted).empty());
  CHECK(::umount(mounted.c_str()) == 0);
}

TEST_CASE("the estimate of a checkpoint's size is close") {
  const TemporaryFolder folder;
  const std::string root = folder.path("run");
  for (const char* flags : {"", "--ddp-num-buckets 9 --overlap-grad-reduce", "--num-layers 6", "--dp 6"}) {
    CAPTURE(std::string(flags));
    REQUIRE(train_tiny(std::string("--train-iters 1 --save ") + root + " " + flags).status == 0);
    std::int64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(root + "/step_00000001"))
      bytes += static_cast<std::int64_t>(file.file_size());
    const ckpt::Checkpoint saved(root);
    const std::int64_t estimated = ckpt::checkpoint_bytes(saved.layout());
    CHECK(bytes <= estimated);
    CHECK(estimated <= bytes + bytes / 2);
    fs::remove_all(root);
  }
}

TEST_CASE("what killed runs have left is mentioned at the start, with the command that removes it") {
  const TemporaryFolder folder;
  const std::string root = folder.path("a run");
  const std::string word = quoted(root);
  REQUIRE(train_tiny("--train-iters 1 --save " + word).status == 0);
  CHECK(!train_tiny("--train-iters 2 --load " + word + " --save " + word).says("ckpt clean"));
  fs::create_directory(root + "/.tmp-step_00000009.1.0");
  std::ofstream(root + "/.tmp-step_00000009.1.0/rank_00000.h5") << std::string(2048, 'x');
  for (const std::string& flags : {"--train-iters 3 --load " + word, "--train-iters 3 --save " + word}) {
    const Outcome outcome = train_tiny(flags);
    CHECK_MESSAGE(outcome.says("1 hidden folder (.tmp-…, 2.00 KiB) that a killed run has left behind"),
                  outcome.output);
    CHECK_MESSAGE(outcome.says("zero1 ckpt clean " + word), outcome.output);
  }
  CHECK(run_zero1("ckpt clean " + word).status == 0);
  CHECK(!train_tiny("--train-iters 4 --save " + word).says("ckpt clean"));
}
