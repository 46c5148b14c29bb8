// Killed, out of space, not allowed: what was saved before stays, and what is left behind can be removed.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include "ckpt/verify.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
namespace fs = std::filesystem;

namespace {

constexpr int keep_last = 2;

/// Saves and publishes one step, prunes, reshards. `told` hears of what is published.
template <class Tell>
void save_once(const std::string& root, std::int64_t step, Tell&& told) {
  ckpt::RunState state;
  state.step = step;
  ckpt::write_checkpoint(root + "/" + ckpt::step_folder_name(step), state, test::uneven_case(3, 100),
                         test::PlacedValues());
  ckpt::set_latest(root, step);
  told(step);
  ckpt::prune(root, keep_last);
  const ckpt::Checkpoint source(root);
  const std::string resharded = fmt::format("{}/resharded_{}", root, step % 4);
  fs::remove_all(resharded);
  ckpt::write_checkpoint(resharded, state, test::uneven_case(2), source);
}

/// Until it is killed.
[[noreturn]] void save_forever(const std::string& root, std::int64_t step, int tell) {
  try {
    while (true) {
      save_once(root, ++step, [&](std::int64_t published) {
        if (::write(tell, &published, sizeof published) != sizeof published) ::_exit(3);
      });
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "child: {}\n", error.what());
    ::_exit(2);
  }
}

/// The last step that the child has told; 0 where it told none.
std::int64_t last_told(int tell) {
  std::int64_t step = 0;
  while (::read(tell, &step, sizeof step) == sizeof step) {
  }
  return step;
}

/// Starts the child after `step`, kills it after `delay`; the last step that it published for sure.
std::int64_t run_and_kill(const std::string& root, std::int64_t step, std::chrono::microseconds delay) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) save_forever(root, step, ends[1]);
  ::close(ends[1]);
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));  // and has not failed before
  const std::int64_t told = last_told(ends[0]);
  ::close(ends[0]);
  return told;
}

}  // namespace

TEST_CASE("killed at any of 220 moments, the previous checkpoint loads") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("root");
  fs::create_directory(root);
  const std::int64_t begin_ns = now_ns();
  save_once(root, 1, [](std::int64_t) {});
  const std::int64_t cycle_us = (now_ns() - begin_ns) / 1000;

  RandomStream random(20240);
  std::int64_t told = 1;
  std::int64_t last = 1;
  int with_leftovers = 0;
  for (int kill = 0; kill < 220; ++kill) {
    CAPTURE(kill);
    // Early kills hit a process's first save, later ones its publishing, pruning and resharding, and again.
    told =
        std::max(told, run_and_kill(root, last, std::chrono::microseconds(random.below(cycle_us * 5 / 4))));
    const auto leftovers = ckpt::find_leftovers(root);
    with_leftovers += leftovers.empty() ? 0 : 1;
    for (const ckpt::Leftover& each : leftovers) CHECK(!each.in_use);
    const std::vector<std::int64_t> steps = ckpt::published_steps(root);
    for (const std::int64_t published : steps) {
      const auto faults = ckpt::verify(root + "/" + ckpt::step_folder_name(published)).faults;
      CHECK_MESSAGE(faults.empty(), faults.size());
    }
    const ckpt::Checkpoint latest(root);
    CHECK(latest.state().step >= told);
    CHECK(test::misplaced(latest) == 0);
    last = steps.back();  // perhaps one beyond `latest`
    ckpt::remove_leftovers(leftovers);
    CHECK(ckpt::find_leftovers(root).empty());
  }
  CHECK(last > 1);
  CHECK(with_leftovers > 20);
  MESSAGE(last << " steps published, " << with_leftovers << " of 220 kills left something behind");
}

TEST_CASE("whoever loads while others are saved and pruned sees one of them, whole") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("root");
  fs::create_directory(root);
  const auto save = [&](std::int64_t step) {
    ckpt::RunState state;
    state.step = step;
    ckpt::write_checkpoint(root + "/" + ckpt::step_folder_name(step), state, test::uneven_case(3, 100),
                           test::PlacedValues());
    ckpt::set_latest(root, step);
    ckpt::prune(root, 1);
  };
  save(1);
  std::atomic<bool> done{false};
  std::thread saver([&] {
    for (std::int64_t step = 2; step <= 25; ++step) save(step);
    done = true;
  });
  std::int64_t last = 1;
  int loaded = 0;
  while (!done) {
    try {
      const ckpt::Checkpoint latest(root);
      CHECK(latest.state().step >= last);
      CHECK(test::misplaced(latest) == 0);
      last = latest.state().step;
      ++loaded;
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what());
    }
  }
  saver.join();
  CHECK(loaded > 0);
  CHECK(ckpt::published_steps(root).back() == 25);
}

TEST_CASE("a full disk loses nothing and says so") {
  const test::TemporaryFolder folder;
  const std::string mounted = folder.path("small");
  fs::create_directory(mounted);
  if (::mount("tmpfs", mounted.c_str(), "tmpfs", 0, "size=320k") != 0) {
    MESSAGE("[skipped] mounting a small tmpfs needs the right to mount");
    return;
  }
  {
    LayoutCase layout_case;
    layout_case.params = {{"w", {97, 101}, DType::fp32, false, false}};
    layout_case.options.dp_size = 2;
    ckpt::WriteOptions unchecked;
    unchecked.check_space = false;
    ckpt::write_checkpoint(mounted + "/first", {}, layout_case, test::PlacedValues(), unchecked);
    for (int i = 0; i < 3; ++i) {
      const std::string message = test::message_of<Error>([&] {
        layout_case.params[0].shape = {97, 101 * (2 + i)};
        ckpt::write_checkpoint(mounted + "/second", {}, layout_case, test::PlacedValues(), unchecked);
      });
      CHECK_MESSAGE(message.find("No space left on device") != std::string::npos, message);
    }
    CHECK(test::message_of<InputError>([&] {
            ckpt::write_checkpoint(mounted + "/second", {}, layout_case, test::PlacedValues());
          }).find("are free there") != std::string::npos);
    CHECK(ckpt::find_leftovers(mounted).empty());
    CHECK(ckpt::verify(mounted + "/first").faults.empty());
    CHECK(test::misplaced(ckpt::Checkpoint(mounted + "/first")) == 0);
  }
  CHECK(::umount(mounted.c_str()) == 0);
}

TEST_CASE("a file that may not grow, a target that cannot be: an error, nothing left") {
  const test::TemporaryFolder folder;
  ckpt::write_checkpoint(folder.path("first"), {}, test::uneven_case(2), test::PlacedValues());
  for (const rlim_t limit : {100, 3000, 9000}) {
    const test::FileSizeLimit small(limit);
    CHECK_THROWS_AS(
        ckpt::write_checkpoint(folder.path("second"), {}, test::uneven_case(2), test::PlacedValues()), Error);
  }
  CHECK(folder.count() == 1);
  CHECK(ckpt::verify(folder.path("first")).faults.empty());
  folder.write("file", "");
  CHECK_THROWS_AS(
      ckpt::write_checkpoint(folder.path("file/below"), {}, test::uneven_case(2), test::PlacedValues()),
      InputError);
  CHECK_THROWS_AS(ckpt::write_checkpoint("/proc/nowhere", {}, test::uneven_case(2), test::PlacedValues()),
                  InputError);
}
