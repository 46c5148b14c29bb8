// One experiment on what a program leaves on the disk: a command is run again and again, and each time
// another of its calls that change the disk goes wrong. disk_shim.cpp, preloaded, counts the calls and does
// the harm.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ckpt/folder.h"
#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

#ifdef ZERO1_DISK_SHIM

namespace zero1::test {

namespace fs = std::filesystem;

inline const std::string train =
    "train --dp 2 --num-layers 1 --hidden-size 12 --num-attention-heads 3 --seq-length 8 --threads-per-rank "
    "1 "
    "--log-interval 0 --ddp-bucket-size 1500 ";

/// A call that changed something below the root.
struct Call {
  std::string name;
  std::string path;  ///< of a rename: from -> to
};

/// Every file below a folder with its content; links as what they name.
inline std::map<std::string, std::string> contents_of(const std::string& folder) {
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
    const Outcome outcome = run("");
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
  Outcome run(const std::string& action, std::size_t at = 0, const std::string& extra = "") {
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
    return run_command(fmt::format(
        "{} LD_PRELOAD={} ZERO1_SHIM_ROOT={} ZERO1_SHIM_LOG={} ZERO1_SHIM_ACTION={} ZERO1_SHIM_AT={} {} {}",
        extra, ZERO1_DISK_SHIM, root_, log_, action, at, quoted(ZERO1_BIN_DIR "/zero1"), arguments));
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
  TemporaryFolder folder_;
  std::string arguments_;
  std::string before_;
  std::string root_ = folder_.path("root");
  std::string log_ = folder_.path("log");
  std::vector<Call> calls_;
  std::map<std::string, std::string> reference_;
};

/// What a call belongs to.
inline std::string phase_of(const Call& call) {
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
inline void check_published(const std::string& root, const std::map<std::string, std::string>& reference) {
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

/// A folder with steps 1 and 2 of a run, and where running on to step 5 ends.
struct Fixture {
  Fixture() {
    const auto run = [](const std::string& flags) {
      const Outcome outcome = run_zero1(train + flags);
      REQUIRE_MESSAGE(outcome.status == 0, outcome.output);
      return outcome.output.substr(outcome.output.find("Final parameters "), 34);
    };
    run("--train-iters 2 --save-interval 1 --save " + two);
    final_params = run("--train-iters 5");
  }

  TemporaryFolder folder;
  std::string two = folder.path("two");
  std::string final_params;
};

inline const Fixture& fixture() {
  static const Fixture value;
  return value;
}

/// A folder with a checkpoint called `source`.
inline std::string source_folder() {
  static const TemporaryFolder folder;
  if (!fs::exists(folder.path("source")))
    fs::copy(fixture().two + "/step_00000002", folder.path("source"), fs::copy_options::recursive);
  return folder.path();
}

/// Commands that write beside `source`.
inline const std::vector<std::string> transforms{
    "ckpt reshard ROOT/source ROOT/target --dp 3 --workers 2 --bucket-size 700",
    "ckpt gather ROOT/source ROOT/all.h5", "ckpt gather ROOT/source ROOT/one.safetensors",
    "ckpt gather ROOT/source ROOT/many.safetensors --max-shard-size 10KiB"};

}  // namespace zero1::test

#endif
