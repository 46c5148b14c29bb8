// Text that is safe to show, and guesses at what was meant.
#include "core/base/text.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace zero1;

TEST_CASE("control characters become U+FFFD, all else stays") {
  CHECK(printable("") == "");
  CHECK(printable("h.0.mlp.weight") == "h.0.mlp.weight");
  CHECK(printable("red\x1b[31m\nnext\x7f") == "red\uFFFD[31m\uFFFDnext\uFFFD");
  CHECK(printable(std::string("\0\r\t", 3)) == "\uFFFD\uFFFD\uFFFD");
  CHECK(printable("C1: \xC2\x9B|\xC2\x85|\xC2\xA0|") == "C1: \uFFFD|\uFFFD|\xC2\xA0|");
  CHECK(printable("层 ü 🙂") == "层 ü 🙂");
  CHECK(printable("\xFF\xC2") == "\xFF\xC2");  // no UTF-8, and nothing that acts
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
  CHECK(printable("a\x1b", 2) == "a\uFFFD");
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
