// One run at a time saves into a folder: who comes second is told who was first, and a killed run bars
// nobody.
#include <doctest/doctest.h>

#include <filesystem>

#include "ckpt/checkpoint.h"
#include "ckpt/save_lock.h"
#include "core/base/error.h"
#include "tests/ckpt/tiny_run.h"
#include "tests/support/message.h"

using namespace zero1;
using namespace zero1::test;
namespace fs = std::filesystem;

namespace {

std::string lock_text(long process, const std::string& host) {
  return fmt::format(
      "zero1 saves into this folder\nprocess {}\nhost {}\nbegun 2020-01-02 03:04:05 UTC\nticks 1\n", process,
      host);
}

std::string this_host() {
  std::string name = run_command("uname -n").output;
  name.pop_back();
  return name;
}

}  // namespace

TEST_CASE("a second run in the folder gets an error that names the first; readers are not kept out") {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_script(folder,
                 "begin --save-interval 1 --keep-last 2; FIRST=$!\n"
                 "until test -e $SAVE/latest; do sleep 0.01; done\n"
                 "$TRAIN --train-iters 1 --save $SAVE; echo second $?\n"
                 "$TRAIN --train-iters 1 --save $SAVE/../run/; echo other spelling $?\n"
                 "$ZERO1 ckpt inspect $SAVE > /dev/null; echo inspect $?\n"
                 "$ZERO1 ckpt verify $SAVE > /dev/null; echo verify $?\n"
                 "$ZERO1 ckpt reshard $SAVE $SAVE.3 --dp 3; echo reshard $?\n"
                 "kill -TERM $FIRST; wait $FIRST; echo first $?; echo process $FIRST; ls -A $SAVE\n");
  CAPTURE(outcome.output);
  CHECK(outcome.says("another run saves there: process "));
  CHECK(outcome.says("on host " + this_host() + ", begun 20"));
  CHECK(outcome.says("save into another folder"));
  CHECK(outcome.says("second 2"));
  CHECK(outcome.says("other spelling 2"));
  CHECK(outcome.says("inspect 0"));
  CHECK(outcome.says("verify 0"));
  CHECK(outcome.says("reshard 0"));
  CHECK(outcome.says("first 143"));
  const std::size_t at = outcome.output.rfind("\nprocess ") + 9;  // the first run's own number was told
  CHECK(
      outcome.says("process " + outcome.output.substr(at, outcome.output.find('\n', at) - at) + " on host"));
  CHECK(!fs::exists(folder / "run/run.lock"));
}

TEST_CASE("after kill -9 the next run takes the lock over and says so") {
  const TemporaryFolder folder;
  const Outcome outcome = run_script(folder,
                                     "begin; kill -KILL $!; wait $!; test -s $SAVE/run.lock && echo left\n"
                                     "$TRAIN --train-iters 1 --save $SAVE; echo next $?\n");
  CAPTURE(outcome.output);
  CHECK(outcome.says("left"));
  CHECK(outcome.says("the last run there was killed (process "));
  CHECK(outcome.says("next 0"));
  CHECK(names_in(folder / "run") == "latest step_00000001 ");
}

TEST_CASE("whose lock is whose: dead processes, other hosts, files of others") {
  const TemporaryFolder folder;
  const std::string path = folder.write("run.lock", "");
  const auto message = [&] {
    return message_of<InputError>([&] { ckpt::SaveLock("--save", folder.path()); });
  };
  const auto taken_over = [&](const std::string& text) {
    folder.write("run.lock", text);
    return ckpt::SaveLock("--save", folder.path()).taken_over();
  };
  CHECK(taken_over("").empty());
  CHECK(folder.count() == 0);
  CHECK(taken_over("zero1 saves into th").empty());  // killed over it
  CHECK(taken_over(lock_text(1, this_host())).starts_with("process 1 on host"));
  // A number that has come again: this process began at another time.
  CHECK(taken_over(lock_text(::getpid(), this_host())).starts_with("process"));

  const std::string elsewhere = lock_text(1, "else\x1bwhere");
  folder.write("run.lock", elsewhere);
  CHECK(message().find("process 1 on host else\\x1bwhere, begun 2020-01-02 03:04:05 UTC") !=
        std::string::npos);
  CHECK(message().find("if it no longer lives: rm " + path) != std::string::npos);
  CHECK(folder.read("run.lock") == elsewhere);

  folder.write("run.lock", "somebody's notes");
  CHECK(message().find("mv " + path + " " + path + ".old") != std::string::npos);
  CHECK(folder.read("run.lock") == "somebody's notes");
  fs::remove(path);
  for (const auto& make : {+[](const std::string& at) { fs::create_directory(at); },
                           +[](const std::string& at) { fs::create_symlink("nowhere", at); }}) {
    make(path);
    CHECK(message().find("mv " + path) != std::string::npos);
    CHECK(fs::exists(fs::symlink_status(path)));
    fs::remove(path);
  }
  const ckpt::SaveLock held("--save", folder.path());
  CHECK(message().find("another run saves there: process " + std::to_string(::getpid())) !=
        std::string::npos);
}

TEST_CASE("a file system without locks: the process's number and its beginning decide") {
#ifdef ZERO1_DISK_SHIM
  const TemporaryFolder folder;
  const Outcome outcome =
      run_script(folder, fmt::format("export ZERO1_SHIM_NO_LOCKS=1 LD_PRELOAD={}\n"
                                     "begin; FIRST=$!; $TRAIN --train-iters 1 --save $SAVE; echo second $?\n"
                                     "kill -KILL $FIRST; wait $FIRST\n"
                                     "$TRAIN --train-iters 1 --save $SAVE; echo next $?\n",
                                     ZERO1_DISK_SHIM));
  CAPTURE(outcome.output);
  CHECK(outcome.says("another run saves there: process "));
  CHECK(outcome.says("second 2"));
  CHECK(outcome.says("next 0"));
  CHECK(names_in(folder / "run") == "latest step_00000001 ");
#endif
}

TEST_CASE(
    "started by a launcher, every process says that it trains alone; what would be written twice is "
    "refused") {
  for (const char* variables :
       {"OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK", "PMI_SIZE=3 PMI_RANK", "SLURM_NTASKS=3 SLURM_PROCID",
        "WORLD_SIZE=3 RANK", "SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID"}) {
    CAPTURE(variables);
    const TemporaryFolder folder;
    const auto process = [&](int rank, const std::string& flags) {
      return run_command(fmt::format("{}={} {} {} --train-iters 1 {}", variables, rank,
                                     quoted(ZERO1_BIN_DIR "/zero1"), tiny, flags));
    };
    const Outcome alone = process(1, "");
    CHECK(alone.status == 0);
    CHECK_MESSAGE(alone.says("warning: this is process 1 of 3"), alone.output);
    CHECK(alone.says("3 independent copies"));
    if (!std::string(variables).starts_with("OMPI")) continue;
    const Outcome first = process(0, "--save " + quoted(folder / "run"));
    CHECK_MESSAGE(first.status == 0, first.output);
    CHECK(first.says("warning: this is process 0 of 3"));
    for (const char* flag : {"--save ", "--metrics ", "--trace "}) {
      const Outcome second = process(2, flag + quoted(folder / "other"));
      CHECK_MESSAGE(second.status == 2, second.output);
      CHECK_MESSAGE(second.says("env -u "), second.output);
      CHECK(!fs::exists(folder / "other"));
    }
  }
  for (const char* alone : {"OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0",
                            "SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0"}) {
    const Outcome outcome =
        run_command(fmt::format("{} {} {} --train-iters 1", alone, quoted(ZERO1_BIN_DIR "/zero1"), tiny));
    CHECK_MESSAGE(!outcome.says("warning"), outcome.output);
  }
}
