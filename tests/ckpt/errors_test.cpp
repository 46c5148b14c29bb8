// Errors that name what was wrong: permissions, cut files, foreign locks, advice that helps.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "ckpt/folder.h"
#include "ckpt/hdf5.h"
#include "ckpt/shared_lock.h"
#include "ckpt/verify.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/command.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
namespace fs = std::filesystem;

namespace {

constexpr uid_t nobody = 65534;

LayoutCase two_ranks() {
  LayoutCase layout_case;
  layout_case.params = {{"w", {30, 4}, DType::fp32, false, false}};
  layout_case.options.dp_size = layout_case.options.expert_dp_size = 2;
  return layout_case;
}

/// A folder with a checkpoint of step 7, readable by everybody.
class Saved {
 public:
  Saved() {
    ::chmod(folder_.path().c_str(), 0755);
    fs::create_directory(root());
    ckpt::write_checkpoint(step(), test::one_step(), two_ranks(), test::PlacedValues());
    ckpt::set_link(root(), ckpt::latest_name, 7);
  }
  ~Saved() {
    for (const std::string& each : {root(), step()}) ::chmod(each.c_str(), 0755);
  }
  std::string root() const { return folder_.path("runs"); }
  std::string step() const { return root() + "/step_00000007"; }
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  test::TemporaryFolder folder_;
};

/// Runs `zero1 ARGUMENTS` as somebody whom permissions bind: root's are put off in the child.
test::Outcome run_unprivileged(const std::string& arguments) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const std::string command = "exec " + test::quoted(ZERO1_BIN_DIR "/zero1") + " " + arguments;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    if (::getuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) ::_exit(126);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  test::Outcome outcome;
  std::array<char, 4096> chunk{};
  for (ssize_t count = 0; (count = ::read(ends[0], chunk.data(), chunk.size())) > 0;) {
    outcome.output.append(chunk.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

const std::string tiny_model =
    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --threads-per-rank 1 "
    "--log-interval 0 ";

}  // namespace

TEST_CASE("a checkpoint that may not be read is not one that is not there") {
  const Saved saved;
  const std::string train = "train " + tiny_model + "--load ";
  const struct {
    std::string closed;
    mode_t mode;
  } cases[] = {{saved.root(), 0000},
               {saved.root(), 0600},
               {saved.step(), 0000},
               {saved.step() + "/checkpoint.h5", 0000}};
  for (const auto& c : cases) {
    REQUIRE(::chmod(c.closed.c_str(), c.mode) == 0);
    for (const std::string& arguments :
         {"ckpt inspect " + saved.root(), "ckpt inspect --ckpt-step 7 " + saved.root(),
          "ckpt inspect " + saved.step(), "ckpt verify " + saved.root(),
          "ckpt export " + saved.root() + " " + saved.path("m.h5"), train + saved.root()}) {
      CAPTURE(c.closed);
      CAPTURE(arguments);
      const test::Outcome outcome = run_unprivileged(arguments);
      CHECK_MESSAGE(outcome.says("Permission denied"), outcome.output);
      CHECK_MESSAGE(!outcome.says("holds no checkpoint"), outcome.output);
      CHECK(outcome.status != 0);
    }
    REQUIRE(::chmod(c.closed.c_str(), 0755) == 0);
  }
  // It may be searched but not listed: the latest is found, a list of the others cannot be given.
  REQUIRE(::chmod(saved.root().c_str(), 0711) == 0);
  CHECK(run_unprivileged("ckpt inspect " + saved.root()).status == 0);
  for (const std::string& arguments :
       {"ckpt inspect --ckpt-step 3 " + saved.root(), "ckpt clean " + saved.root()}) {
    const test::Outcome outcome = run_unprivileged(arguments);
    CHECK_MESSAGE(outcome.says("runs: cannot be read: Permission denied"), outcome.output);
    CHECK(outcome.status == 2);
  }
}

TEST_CASE("paths that lead nowhere are told as what they are") {
  const Saved saved;
  fs::create_symlink("loop", saved.path("loop"));
  const std::string file = saved.step() + "/rank_00000.h5";
  const struct {
    std::string source, says;
  } cases[] = {{saved.path("loop"), "cannot be opened: Too many levels of symbolic links"},
               {saved.path("none"), "there is no such folder"},
               {file + "/x", "there is no such folder"},
               {file, "is a file; name the checkpoint that it belongs to"},
               {saved.path(std::string(300, 'x')), "cannot be opened: File name too long"},
               {"/dev/null", "is not a folder"}};
  for (const auto& c : cases) {
    const std::string message = test::message_of<InputError>([&] { ckpt::open_source(c.source); });
    CHECK_MESSAGE(message.find(c.says) != std::string::npos, message);
  }
}

TEST_CASE("a cut file is told with the bytes it has and those that were recorded") {
  const Saved saved;
  for (const char* name : {"checkpoint.h5", "rank_00001.h5"}) {
    const std::string path = saved.step() + "/" + name;
    const auto whole = static_cast<std::int64_t>(fs::file_size(path));
    const std::string kept = saved.path("kept");
    fs::copy_file(path, kept, fs::copy_options::overwrite_existing);
    for (const std::int64_t bytes : {whole - 1, whole / 2, std::int64_t{3000}, std::int64_t{600}}) {
      fs::resize_file(path, static_cast<std::uintmax_t>(bytes));
      const std::string says = fmt::format("{}: {} bytes, where {} were recorded: it was cut", path,
                                           format_count(bytes), format_count(whole));
      const test::Outcome verify = test::run_zero1("ckpt verify " + saved.root());
      CHECK_MESSAGE(verify.says(says), verify.output);
      CHECK(verify.status == 1);
      const test::Outcome read = test::run_zero1("ckpt export " + saved.root() + " " + saved.path("m.h5"));
      CHECK_MESSAGE(read.says(says), read.output);
      for (const test::Outcome* each : {&verify, &read}) {
        CHECK_MESSAGE(!each->says("become shorter"), each->output);
        CHECK_MESSAGE(!each->says("do not match"), each->output);
      }
    }
    for (const int bytes : {100, 0}) {
      fs::resize_file(path, static_cast<std::uintmax_t>(bytes));
      const test::Outcome verify = test::run_zero1("ckpt verify " + saved.root());
      CHECK_MESSAGE(verify.says(fmt::format("{}: {} bytes, where", path, bytes)), verify.output);
    }
    fs::copy_file(kept, path, fs::copy_options::overwrite_existing);
  }
  CHECK(test::run_zero1("ckpt verify " + saved.root()).status == 0);
}

TEST_CASE(
    "whoever finds a folder locked says so after a while, with the holder; a short lock is waited for") {
  const Saved saved;
  const int fd = ::open(saved.step().c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(fd >= 0);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  const auto begin = std::chrono::steady_clock::now();
  const std::string message = test::message_of<ckpt::FolderLocked>([&] { ckpt::verify(saved.root(), {}); });
  const auto waited = std::chrono::steady_clock::now() - begin;
  CHECK_MESSAGE(message.find(saved.step() + ": is locked: ") == 0, message);
  CHECK_MESSAGE(message.find("exclusive lock (flock)") != std::string::npos, message);
  CHECK(waited >= ckpt::lock_patience);
  // Linux tells who it is, but for file systems in layers.
  const bool named = message.find(fmt::format("process {}", ::getpid())) != std::string::npos;
  CHECK_MESSAGE((named || message.find("another program") != std::string::npos), message);

  std::thread holder([fd] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::flock(fd, LOCK_UN);
  });
  CHECK(ckpt::verify(saved.root(), {}).faults.empty());
  holder.join();
  ::close(fd);
}

TEST_CASE("a checkpoint that is removed while somebody waits for it is looked for anew") {
  const Saved saved;
  const int fd = ::open(saved.step().c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  std::thread remover([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ckpt::write_checkpoint(saved.root() + "/step_00000008", test::one_step(), two_ranks(),
                           test::PlacedValues());
    ckpt::set_link(saved.root(), ckpt::latest_name, 8);
    fs::rename(saved.step(), saved.root() + "/.tmp-doomed");  // and is never unlocked
  });
  CHECK(ckpt::open_source(saved.root()).path().ends_with("step_00000008"));
  remover.join();
  ::close(fd);
}

TEST_CASE("--no-strict is advised where it helps") {
  const test::TemporaryFolder folder;
  const std::string saved = folder.path("c");
  REQUIRE(test::run_zero1("train " + tiny_model + "--train-iters 1 --save " + saved).status == 0);
  const auto load = [&](const std::string& flags) {
    const test::Outcome outcome =
        test::run_zero1("train " + tiny_model + "--train-iters 2 --load " + saved + " " + flags);
    CHECK_MESSAGE(outcome.status == 2, outcome.output);
    CHECK_MESSAGE(outcome.says("does not fit the model"), outcome.output);
    return outcome;
  };
  CHECK(load("--num-layers 2").says("--no-strict"));
  for (const char* flags :
       {"--hidden-size 32", "--hidden-size 32 --num-layers 2", "--hidden-size 32 --no-strict"})
    CHECK_FALSE(load(flags).says("--no-strict"));
}

TEST_CASE("HDF5's refusals are told as the system's") {
  const test::TemporaryFolder folder;
  const auto create = [](const std::string& path) {
    return test::message_of<Error>([&] {
      const ckpt::Hdf5Lock lock;
      ckpt::create_file(path);
    });
  };
  const std::string none = folder.path("none/file.h5");
  CHECK(create(none) == none + ": cannot be written (H5Fcreate): No such file or directory");
  const std::string there = folder.write("there.h5", "");
  CHECK(create(there) == there + ": cannot be written (H5Fcreate): File exists");
  const std::string limited = folder.path("limited.h5");
  const std::string message = test::message_of<Error>([&] {
    const ckpt::Hdf5Lock lock;
    const test::FileSizeLimit limit(64);
    ckpt::Handle file = ckpt::create_file(limited);
    ckpt::write_string(file.get(), "x", std::string(100000, 'x'), limited);
    file.close(limited, "H5Fclose");
  });
  CHECK_MESSAGE(message.starts_with(limited + ": cannot be written ("), message);
  CHECK_MESSAGE(message.ends_with("): File too large"), message);
}

TEST_CASE("names that JSON cannot hold are refused before anything is written") {
  const test::TemporaryFolder folder;
  LayoutCase layout_case = two_ranks();
  layout_case.params[0].name = "w\xFF\x1b";
  const std::string message = test::message_of<InputError>(
      [&] { ckpt::write_checkpoint(folder.path("c"), {}, layout_case, test::PlacedValues()); });
  CHECK_MESSAGE(
      message.find("parameter 'w\\xff\\x1b' cannot be saved: its name is not UTF-8") != std::string::npos,
      message);
  CHECK(folder.count() == 0);
}
