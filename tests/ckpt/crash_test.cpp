// The program, killed or out of disk at one call after another: what was saved before stays and loads, what
// is left behind is reported and can be removed. disk_shim.cpp counts the calls and does the killing.
// Longer than other files: all of it is one experiment with different commands.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "ckpt/checkpoint.h"
#include "ckpt/diff.h"
#include "ckpt/verify.h"
#include "tests/support/command.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
namespace fs = std::filesystem;

#ifdef ZERO1_DISK_SHIM

namespace {

const std::string train =
    "train --dp 2 --num-layers 1 --hidden-size 12 --num-attention-heads 3 --seq-length 8 --threads-per-rank "
    "1 "
    "--log-interval 0 --ddp-bucket-size 1500 ";

/// A call that changed something below the root.
struct Call {
  std::string name;
  std::string path;  ///< of a rename: from -> to
};

/// Every file below a folder with its content; links as what they name.
std::map<std::string, std::string> contents_of(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    if (entry.is_symlink()) {
      contents[name] = fs::read_symlink(entry.path()).string();
    } else if (entry.is_regular_file()) {
      std::ifstream file(entry.path(), std::ios::binary);
      contents[name] = {std::istreambuf_iterator<char>(file), {}};
    }
  }
  return contents;
}

/// One command that writes into a folder, run again and again from the same beginning.
class Experiment {
 public:
  /// `arguments` of zero1, where ROOT stands for the folder; `before` is what lies there at first.
  Experiment(std::string arguments, std::string before)
      : arguments_(std::move(arguments)), before_(std::move(before)) {
    const test::Outcome outcome = run("");
    REQUIRE_MESSAGE(outcome.status == 0, outcome.output);
    calls_ = logged();
    fs::rename(root_, folder_.path("after"));
    reference_ = contents_of(after());
    if (!before_.empty()) reference_.merge(contents_of(before_));
  }

  const std::string& root() const { return root_; }
  std::string after() const { return folder_.path("after"); }
  const std::vector<Call>& calls() const { return calls_; }
  /// Every file of every step that lay there before or after an undisturbed run.
  const std::map<std::string, std::string>& reference() const { return reference_; }

  /// Begins anew; the shim does `action` ("kill", "torn", "full") at call number `at`, from 1 on.
  test::Outcome run(const std::string& action, std::size_t at = 0, const std::string& extra = "") {
    fs::remove_all(root_);
    fs::create_directory(root_);
    if (!before_.empty())
      fs::copy(before_, root_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::remove(log_);
    std::string arguments = arguments_;
    for (std::size_t at_root = arguments.find("ROOT"); at_root != std::string::npos;
         at_root = arguments.find("ROOT", at_root + root_.size())) {
      arguments.replace(at_root, 4, root_);
    }
    return test::run_command(fmt::format(
        "{} LD_PRELOAD={} ZERO1_SHIM_ROOT={} ZERO1_SHIM_LOG={} ZERO1_SHIM_ACTION={} ZERO1_SHIM_AT={} {} {}",
        extra, ZERO1_DISK_SHIM, root_, log_, action, at, test::quoted(ZERO1_BIN_DIR "/zero1"), arguments));
  }

  /// The calls of the last run.
  std::vector<Call> logged() const {
    std::vector<Call> calls;
    std::ifstream log(log_);
    for (std::string number, name, path; log >> number >> name && std::getline(log, path);) {
      calls.push_back({name, path.substr(1)});
    }
    return calls;
  }

 private:
  test::TemporaryFolder folder_;
  std::string arguments_;
  std::string before_;
  std::string root_ = folder_.path("root");
  std::string log_ = folder_.path("log");
  std::vector<Call> calls_;
  std::map<std::string, std::string> reference_;
};

/// What a call belongs to.
std::string phase_of(const Call& call) {
  const std::string& path = call.path;
  const bool renames = call.name == "rename" || call.name == "renameat2";
  if (renames && path.find(" -> ") != path.npos && path.find("/.tmp-step_") > path.find(" -> "))
    return "prune";
  if (renames || call.name == "symlink" || (call.name == "fsync" && path.find("/.tmp-") == path.npos))
    return "publish";
  if (call.name == "unlinkat" || call.name == "rmdir" || call.name == "remove" || call.name == "unlink")
    return "prune";
  return "save";
}

/// After a crash: every published step is, byte by byte, what an undisturbed run published.
void check_published(const std::string& root, const std::map<std::string, std::string>& reference) {
  for (const std::int64_t step : ckpt::published_steps(root)) {
    const std::string name = ckpt::step_folder_name(step);
    std::set<std::string> expected;
    for (const auto& [file, content] : reference) {
      if (file.starts_with(name + "/")) expected.insert(file.substr(name.size() + 1));
    }
    std::set<std::string> found;
    for (const auto& [file, content] : contents_of(root + "/" + name)) {
      found.insert(file);
      CHECK_MESSAGE(reference.at(name + "/" + file) == content, name << "/" << file);
    }
    CHECK(found == expected);
  }
}

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

/// A folder with steps 1 and 2 of a run, and where running on to step 5 ends.
struct Fixture {
  Fixture() {
    const auto run = [](const std::string& flags) {
      const test::Outcome outcome = test::run_zero1(train + flags);
      REQUIRE_MESSAGE(outcome.status == 0, outcome.output);
      return outcome.output.substr(outcome.output.find("Final parameters "), 34);
    };
    run("--train-iters 2 --save-interval 1 --save " + two);
    final_params = run("--train-iters 5");
  }

  test::TemporaryFolder folder;
  std::string two = folder.path("two");
  std::string final_params;
};

const Fixture& fixture() {
  static const Fixture value;
  return value;
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
/// `stride`-th call; how many kills fell into each phase.
std::map<std::string, int> kill_training(Experiment& experiment, std::size_t first, std::size_t stride,
                                         int steps = 1) {
  std::map<std::string, int> kills;
  for (std::size_t at = first; at <= experiment.calls().size(); at += stride) {
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
  const auto kills = kill_training(experiment, 1, 1);
  const int all = kills.at("save") + kills.at("publish") + kills.at("prune");
  MESSAGE(all << " kills: " << kills.at("save") << " while saving, " << kills.at("publish")
              << " while publishing, " << kills.at("prune") << " while pruning; "
              << kills.at("with leftovers") << " left something behind");
  CHECK(all >= 120);
  CHECK(kills.at("publish") >= 8);
  CHECK(kills.at("prune") >= 8);
}

TEST_CASE("the same with saving behind training, and when the same step is saved again") {
  Experiment behind(
      train + "--train-iters 4 --load ROOT --save ROOT --save-interval 1 --keep-last 2 --async-save",
      fixture().two);
  const auto kills = kill_training(behind, 2, 2);
  CHECK(kills.at("save") + kills.at("publish") + kills.at("prune") >= 60);
  Experiment again(train + "--train-iters 2 --save ROOT --save-interval 2", fixture().two);
  CHECK(std::any_of(again.calls().begin(), again.calls().end(),
                    [](const Call& call) { return call.name == "renameat2"; }));
  kill_training(again, 1, 3, 0);
}

TEST_CASE("resharding killed at every call") {
  Experiment experiment("ckpt reshard ROOT/source ROOT/target --dp 3 --workers 2 --bucket-size 700", [] {
    static const test::TemporaryFolder folder;
    fs::copy(fixture().two + "/step_00000002", folder.path("source"), fs::copy_options::recursive);
    return folder.path();
  }());
  const ckpt::Checkpoint target(experiment.after() + "/target");
  const auto source = contents_of(experiment.after() + "/source");
  int leftovers = 0;
  for (std::size_t at = 1; at <= experiment.calls().size(); ++at) {
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
  CHECK(leftovers > 40);
  MESSAGE(experiment.calls().size() << " kills, " << leftovers << " left something behind");
}

TEST_CASE("a disk that is full at any call: an error that says so, nothing lost, nothing left") {
  Experiment experiment(train + "--train-iters 3 --load ROOT --save ROOT --keep-last 2", fixture().two);
  int failed = 0;
  for (std::size_t at = 1; at <= experiment.calls().size(); at += 2) {
    const Call& call = experiment.calls()[at - 1];
    if (phase_of(call) == "prune") continue;  // removing needs no room
    CAPTURE(at);
    CAPTURE(call.name);
    CAPTURE(call.path);
    const test::Outcome outcome = experiment.run("full", at);
    const std::string& root = experiment.root();
    check_published(root, experiment.reference());
    CHECK(ckpt::Checkpoint(root).state().step >= 2);
    CHECK(ckpt::find_leftovers(root).empty());
    if (outcome.status == 0) {  // flushing a folder is no more than an attempt
      CHECK_MESSAGE(call.name == "fsync", outcome.output);
      CHECK(ckpt::Checkpoint(root).state().step == 3);
      continue;
    }
    // Where not even a folder can be made, the target is what is wrong.
    CHECK_MESSAGE(outcome.status == (call.name == "mkdir" ? 2 : 1), outcome.output);
    CHECK_MESSAGE(outcome.says("No space left on device"), outcome.output);
    ++failed;
  }
  CHECK(failed > 20);
}

namespace {

/// A folder with a checkpoint called `source`.
std::string source_folder() {
  static const test::TemporaryFolder folder;
  if (!fs::exists(folder.path("source")))
    fs::copy(fixture().two + "/step_00000002", folder.path("source"), fs::copy_options::recursive);
  return folder.path();
}

const std::vector<std::string> transforms{
    "ckpt reshard ROOT/source ROOT/target --dp 3 --workers 2 --bucket-size 700",
    "ckpt gather ROOT/source ROOT/all.h5", "ckpt gather ROOT/source ROOT/one.safetensors",
    "ckpt gather ROOT/source ROOT/many.safetensors --max-shard-size 10KiB"};

}  // namespace

TEST_CASE("Ctrl-C at any call of resharding and gathering: nothing is left, or everything is there") {
  for (const std::string& transform : transforms) {
    CAPTURE(transform);
    Experiment experiment(transform, source_folder());
    const auto before = contents_of(source_folder());
    const auto after = contents_of(experiment.after());
    int interrupted = 0;
    for (std::size_t at = 1; at <= experiment.calls().size(); at += 3) {
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
    CHECK(interrupted >= 3);
  }
}

TEST_CASE("a disk that is full at any call of resharding and gathering: an error, and nothing is left") {
  for (const std::string& transform : transforms) {
    CAPTURE(transform);
    Experiment experiment(transform, source_folder());
    const auto before = contents_of(source_folder());
    const auto after = contents_of(experiment.after());
    int failed = 0;
    for (std::size_t at = 1; at <= experiment.calls().size(); at += 2) {
      const Call& call = experiment.calls()[at - 1];
      if (phase_of(call) == "prune") continue;  // removing needs no room
      CAPTURE(at);
      CAPTURE(call.name);
      CAPTURE(call.path);
      const test::Outcome outcome = experiment.run("full", at);
      const std::string& root = experiment.root();
      CHECK(ckpt::find_leftovers(root).empty());
      if (outcome.status == 0) {  // flushing a folder is no more than an attempt
        CHECK_MESSAGE(call.name == "fsync", outcome.output);
        CHECK(contents_of(root) == after);
        continue;
      }
      CHECK_MESSAGE(outcome.says("No space left on device"), outcome.output);
      CHECK(contents_of(root) == before);
      ++failed;
    }
    CHECK(failed >= 3);
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

TEST_CASE("killed at any call") {
  test::skip("a sanitizer's runtime cannot be preloaded together with the one that kills");
}

#endif
