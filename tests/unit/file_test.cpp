// Files are written whole or not at all.
#include "core/base/file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"

using namespace zero1;
namespace fs = std::filesystem;

namespace {

/// A directory of its own for each test, gone afterwards.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "zero1_file_test.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("what is written is read, bytes of all kinds and none") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a");
  for (const std::string& contents :
       {std::string("text\n"), std::string(), std::string("\0\xFF\r\n", 4), std::string(200'001, 'x')}) {
    write_file(path, contents);
    CHECK(read_file(path) == contents);
    CHECK(directory.count() == 1);  // nothing temporary stays
  }
}

TEST_CASE("permissions stay, links are followed") {
  const TemporaryDirectory directory;
  write_file(directory.file("target"), "old");
  REQUIRE(::chmod(directory.file("target").c_str(), 0640) == 0);
  fs::create_symlink("target", directory.file("link"));
  write_file(directory.file("link"), "new");
  CHECK(fs::is_symlink(directory.file("link")));
  CHECK(read_file(directory.file("target")) == "new");
  CHECK((fs::status(directory.file("target")).permissions() & fs::perms::all) == fs::perms(0640));
}

TEST_CASE("a device is written to, not replaced") {
  write_file("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("failures name the file and leave nothing behind") {
  const TemporaryDirectory directory;
  const std::string missing = directory.file("no/such/file");
  const std::string message = missing + ": cannot ";
  CHECK_THROWS_WITH_AS(read_file(missing), (message + "read: No such file or directory").c_str(), InputError);
  CHECK_THROWS_WITH_AS(write_file(missing, "x"), (message + "write: No such file or directory").c_str(),
                       Error);
  fs::create_directory(directory.file("d"));
  CHECK_THROWS_AS(write_file(directory.file("d"), "x"), Error);
  CHECK_THROWS_AS(read_file(directory.file("d")), InputError);
  CHECK_THROWS_AS(write_file("/dev/full", "x"), Error);
  CHECK(directory.count() == 1);
}
