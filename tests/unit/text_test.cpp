// Text that is safe to show, and guesses at what was meant.
#include "core/base/text.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace zero1;

TEST_CASE("what would act on a terminal is escaped, all else stays") {
  CHECK(printable("") == "");
  CHECK(printable("h.0.mlp.weight") == "h.0.mlp.weight");
  CHECK(printable("red\x1b[31m\nnext\x7f") == "red\\x1b[31m\\nnext\\x7f");
  CHECK(printable(std::string("\0\r\t", 3)) == "\\x00\\r\\t");
  CHECK(printable("C1: \xC2\x9B|\xC2\x85|\xC2\xA0|") == "C1: \\u009b|\\u0085|\xC2\xA0|");
  CHECK(printable("层 ü 🙂") == "层 ü 🙂");
  CHECK(printable("a\u202Eb\u2066c\u200Fd\u061Ce\u2028f") == "a\\u202eb\\u2066c\\u200fd\\u061ce\\u2028f");
  CHECK(printable("\x9B[2J") == "\\x9b[2J");  // C1 where the terminal does not read UTF-8
  CHECK(printable("\xFF\xC2") == "\\xff\\xc2");
  CHECK(printable("\xC1\x9B \xE0\x80\x80 \xED\xA0\x80 \xF4\x90\x80\x80") ==
        "\\xc1\\x9b \\xe0\\x80\\x80 \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");  // too long, or no code points
}

TEST_CASE("lines of a table stay lines; of a message those that messages have") {
  CHECK(printable_lines("a\x1b\n b\n\n") == "a\\x1b\n b\n\n");
  CHECK(printable_lines("") == "");
  CHECK(printable_message("x: does not fit:\n  missing: a\n  b\rc\nTry that") ==
        "x: does not fit:\n  missing: a\n  b\\rc\nTry that");
  CHECK(printable_message("no parameter 'a\nzero1: all is well'") == "no parameter 'a\\nzero1: all is well'");
  CHECK(printable_message("a\nb\n  c\nd\ne") == "a\\nb\n  c\nd\ne");
}

TEST_CASE("JSON keeps its values") {
  CHECK(printable_json("{\"a\x7f\": \"\xC2\x9B \u202E ü\\u001b\"}\n") ==
        "{\"a\\u007f\": \"\\u009b \\u202e ü\\u001b\"}\n");
  CHECK(printable_json("\xFF") == "\\ufffd");
}

TEST_CASE("UTF-8 is told from other bytes") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("aü层🙂"));
  CHECK_FALSE(is_utf8("a\xFF"));
  CHECK_FALSE(is_utf8("\xE5\xB1"));
  CHECK_FALSE(is_utf8("\xED\xA0\x80"));
}

TEST_CASE("what is long is cut before a character") {
  CHECK(printable("weights", 7) == "weights");
  CHECK(printable("weights", 3) == "wei…");
  CHECK(printable("weights", 0) == "…");
  CHECK(printable("", 0) == "");
  const std::string text = "aü层🙂";  // 1, 2, 3 and 4 bytes
  const char* const shown[] = {"…",     "a…",    "a…",    "aü…",   "aü…",       "aü…",
                               "aü层…", "aü层…", "aü层…", "aü层…", "aü层🙂"};
  for (std::size_t longest = 0; longest <= text.size(); ++longest) {
    CAPTURE(longest);
    CHECK(printable(text, longest) == shown[longest]);
  }
  CHECK(printable("a\x1b", 2) == "a\\x1b");
}

TEST_CASE("characters are counted, not bytes") {
  CHECK(char_count("") == 0);
  CHECK(char_count("aü层🙂") == 4);
}

TEST_CASE("a mistyped word is near the one that was meant") {
  const std::vector<std::string> names{"inspect", "verify", "diff", "clean", "reshard", "gather", "export"};
  const struct {
    const char* word;
    const char* meant;
  } cases[] = {
      {"inspekt", "inspect"}, {"inspct", "inspect"},  {"insepct", "inspect"}, {"inspectt", "inspect"},
      {"inspect", "inspect"}, {"reshrad", "reshard"}, {"dif", "diff"},        {"xport", "export"},
      {"v", "verify"},        {"reshar", "reshard"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.word);
    CHECK(nearest(c.word, names).value_or("none") == c.meant);
  }
  for (const std::string& word :
       {std::string(), std::string("train"), std::string("xyz"), std::string("zzzzzzz"),
        std::string(1'000'000, 'e'), std::string("\0\0\0", 3)}) {
    const std::string guess = nearest(word, names).value_or("none");
    CAPTURE(word.substr(0, 10));
    CHECK(guess == "none");
  }
  CHECK(did_you_mean("inspekt", names) == "; did you mean 'inspect'?");
  CHECK(did_you_mean("xyz", names).empty());
}
