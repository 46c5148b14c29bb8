// Out of space, not allowed, cut short: what was saved before stays, and nothing is left behind.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "ckpt/gather.h"
#include "ckpt/verify.h"
#include "core/base/error.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/command.h"
#include "tests/support/message.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

/// HDF5 1.10 does not free all of its own when a file cannot be closed because the disk is full.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libhdf5";
}

using namespace zero1;
namespace fs = std::filesystem;

TEST_CASE("a full disk loses nothing and says so") {
  const test::TemporaryFolder folder;
  const std::string mounted = folder.path("small");
  fs::create_directory(mounted);
  if (::mount("tmpfs", mounted.c_str(), "tmpfs", 0, "size=320k") != 0) {
    test::skip("mounting a small tmpfs needs the right to mount");
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
    const ckpt::Checkpoint first(mounted + "/first");
    std::ofstream(mounted + "/filler") << std::string(120 << 10, 'x');
    for (const char* target : {"/all.h5", "/all.safetensors"}) {
      const std::string path = mounted + target;
      const std::string full = test::message_of<InputError>([&] {
        path.ends_with(".h5") ? static_cast<void>(ckpt::gather_hdf5(first, path, {}))
                              : static_cast<void>(ckpt::gather_safetensors(first, path, {}));
      });
      CHECK_MESSAGE(full.find("are free there") != std::string::npos, full);
    }
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

TEST_CASE("a target that must not be written: an error that says why") {
  const test::TemporaryFolder folder;
  const std::string mounted = folder.path("read_only");
  fs::create_directory(mounted);
  if (::mount("tmpfs", mounted.c_str(), "tmpfs", MS_RDONLY, "size=64k") != 0) {
    test::skip("mounting a read-only tmpfs needs the right to mount");
    return;
  }
  const std::string message = test::message_of<InputError>(
      [&] { ckpt::write_checkpoint(mounted + "/c", {}, test::uneven_case(2), test::PlacedValues()); });
  CHECK_MESSAGE(message.find("Read-only file system") != std::string::npos, message);
  ckpt::write_checkpoint(folder.path("c"), {}, test::uneven_case(2), test::PlacedValues());
  const ckpt::Checkpoint c(folder.path("c"));
  for (const auto& gather : {+[](const ckpt::Checkpoint&from, const std::string&to) {
                               ckpt::gather_hdf5(from, to + "/all.h5", {});
                             },
                             +[](const ckpt::Checkpoint&from, const std::string&to) {
                               ckpt::gather_safetensors(from, to + "/all.safetensors", {});
                             }}) {
    CHECK(test::message_of<InputError>([&] { gather(c, mounted); }).find("Read-only file system") !=
          std::string::npos);
  }
  CHECK(::umount(mounted.c_str()) == 0);
}
