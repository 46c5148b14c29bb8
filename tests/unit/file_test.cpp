// Files are written whole or not at all.
#include "core/base/file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
namespace fs = std::filesystem;

TEST_CASE("what is written is read, bytes of all kinds and none") {
  const zero1::test::TemporaryFolder directory;
  const std::string path = directory.path("a");
  for (const std::string& contents :
       {std::string("text\n"), std::string(), std::string("\0\xFF\r\n", 4), std::string(200'001, 'x')}) {
    write_file(path, contents);
    CHECK(read_file(path) == contents);
    CHECK(directory.count() == 1);  // nothing temporary stays
  }
}

TEST_CASE("permissions stay, links are followed") {
  const zero1::test::TemporaryFolder directory;
  write_file(directory.path("target"), "old");
  REQUIRE(::chmod(directory.path("target").c_str(), 0640) == 0);
  fs::create_symlink("target", directory.path("link"));
  write_file(directory.path("link"), "new");
  CHECK(fs::is_symlink(directory.path("link")));
  CHECK(read_file(directory.path("target")) == "new");
  CHECK((fs::status(directory.path("target")).permissions() & fs::perms::all) == fs::perms(0640));
}

TEST_CASE("a device is written to, not replaced") {
  write_file("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("failures name the file and leave nothing behind") {
  const zero1::test::TemporaryFolder directory;
  const std::string missing = directory.path("no/such/file");
  const std::string message = missing + ": cannot ";
  CHECK_THROWS_WITH_AS(read_file(missing), (message + "read: No such file or directory").c_str(), InputError);
  CHECK_THROWS_WITH_AS(write_file(missing, "x"), (message + "be created: No such file or directory").c_str(),
                       Error);
  fs::create_directory(directory.path("d"));
  CHECK_THROWS_AS(write_file(directory.path("d"), "x"), Error);
  CHECK_THROWS_AS(read_file(directory.path("d")), InputError);
  CHECK_THROWS_AS(write_file("/dev/full", "x"), Error);
  CHECK(directory.count() == 1);
}

TEST_CASE("a file that is larger than any that is read whole is refused, not read") {
  const zero1::test::TemporaryFolder directory;
  const std::string path = directory.path("sparse");
  write_file(path, "");
  fs::resize_file(path, max_whole_file_bytes + 1);  // a hole: no disk is used
  CHECK_THROWS_WITH_AS(read_file(path), (path + ": has more than the 1 GiB that is read at most").c_str(),
                       InputError);
}

TEST_CASE("a named pipe is refused without waiting for a writer; the shell's pipes and devices are read") {
  const zero1::test::TemporaryFolder directory;
  const std::string pipe = directory.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(
      zero1::test::message_of<InputError>([&] { read_file(pipe); }).starts_with(pipe + ": is a named pipe"));
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "text", 4) == 4);
  ::close(ends[1]);
  CHECK(read_file("/dev/fd/" + std::to_string(ends[0])) == "text");
  ::close(ends[0]);
  CHECK(read_file("/dev/null").empty());
}
