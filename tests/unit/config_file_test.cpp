// Files of flags: what a line may be, and what a wrong one is told.
#include "apps/zero1/config_file.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/support/message.h"

using namespace zero1;
using app::ConfigEntry;
using app::parse_config;

namespace {

using Values = std::vector<std::string>;

/// The values of a file of one line.
Values values_of(const std::string& line) {
  const std::vector<ConfigEntry> entries = parse_config(line);
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].key == "key");
  return entries[0].values;
}

std::string refusal(const std::string& text) {
  return zero1::test::message_of<InputError>([&] { parse_config(text); });
}

}  // namespace

TEST_CASE("values are bare, in quotes, or lists of either") {
  CHECK(values_of("key") == Values{});
  CHECK(values_of("key = 3") == Values{"3"});
  CHECK(values_of("  key=\t1e-3  ") == Values{"1e-3"});
  CHECK(values_of("key = two words") == Values{"two words"});
  CHECK(values_of("key = a=b") == Values{"a=b"});
  CHECK(values_of("key =") == Values{""});
  CHECK(values_of("key = # nothing") == Values{""});
  CHECK(values_of("key = 3 # three") == Values{"3"});
  CHECK(values_of("key = run#3") == Values{"run#3"});
  CHECK(values_of("key # on") == Values{});
  CHECK(values_of(R"(key = "a # \"b\" \\ \n\t")") == Values{"a # \"b\" \\ \n\t"});
  CHECK(values_of(R"(key = 'C:\n "x"' # path)") == Values{R"(C:\n "x")"});
  CHECK(values_of(R"(key = "")") == Values{""});
  CHECK(values_of("key = []") == Values{});
  CHECK(values_of("key = [ 1, two words,'3, 4', \"]\" ] # list") == Values{"1", "two words", "3, 4", "]"});
  CHECK(values_of("key = [1,]") == Values{"1"});
  CHECK(values_of("\xEF\xBB\xBFkey = 3\r") == Values{"3"});
}

TEST_CASE("lines are counted, and those that say nothing are passed over") {
  const std::vector<ConfigEntry> entries = parse_config("# a\n; b\n\n  \r\none = 1\r\n\n#\ntwo\n");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].key == "one");
  CHECK(entries[0].line == 5);
  CHECK(entries[1].key == "two");
  CHECK(entries[1].line == 8);
  CHECK(parse_config("").empty());
}

TEST_CASE("a wrong line is named, with what was expected") {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"a = 1\n[model]\nb = 2", "line 2: '[model]' begins a section; flags have none"},
      {"\n\n[lr 0]", "line 3: '[lr 0]' begins a section"},
      {"= 3", "line 1: expected `key = value`, found '= 3'"},
      {"num layers = 3", "line 1: expected `key = value`, found 'num layers = 3'"},
      {"a.b = 3", "line 1: expected `key = value`"},
      {"\"lr\" = 3", "line 1: expected `key = value`"},
      {"\x1b[31m", "line 1: expected `key = value`, found '\\x1b[31m'"},
      {"a = \"3", "line 1: the text that begins with \" does not end on its line"},
      {"a = '3\nb = '", "line 1: the text that begins with ' does not end"},
      {"a = \"3\\", "line 1: the text that begins with \" does not end"},
      {"a = \"\\x\"", "line 1: expected \\\", \\\\, \\n or \\t behind a backslash, found 'x'"},
      {"a = '3' 4", "line 1: expected nothing behind the value of 'a', found '4'"},
      {"a = [1] 2", "line 1: expected nothing behind the value of 'a', found '2'"},
      {"a = [1, 2", "line 1: the list has no ] on its line"},
      {"a = [1 # ]", "line 1: the list has no ] on its line"},
      {"a = ['1' 2]", "line 1: the list has no ] on its line, or no comma"},
      {"a = [", "line 1: the list has no ] on its line"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const std::string message = refusal(c.text);
    CHECK_MESSAGE(zero1::test::contains(message, c.says), message);
  }
  CHECK(refusal(std::string(1'000'000, '?')).size() < 200);
}

TEST_CASE("damaged files are read or refused with a line, never more") {
  const std::string whole =
      "# a run\nnum-layers = 2\nddp-bucket-size = \"3K\"\nparam-group = ['wpe.*:wd_mult=0', "
      "\"b\\\\:lr_mult=2\"]\nbf16\n";
  std::mt19937 random(7);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int round = 0; round < 8; ++round) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(round == 0 ? damaged[at] ^ 0x80 : static_cast<int>(random()));
      for (const std::string& text : {damaged, whole.substr(0, at)}) {
        try {
          for (const ConfigEntry& entry : parse_config(text)) CHECK_FALSE(entry.key.empty());
        } catch (const InputError& error) {
          ++refused;
          CHECK(std::string(error.what()).starts_with("line "));
        }
      }
    }
  }
  CHECK(refused > 100);
}
