// JSON that nobody vouches for: what is refused, and that long lists are no trap.
#include "core/base/strict_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "tests/support/message.h"

using namespace zero1;
using zero1::test::contains;

namespace {

std::string refusal(const std::string& text, int max_depth = 8) {
  return zero1::test::message_of<InputError>([&] { parse_strict_json(text, max_depth); });
}

}  // namespace

TEST_CASE("what is JSON is read as the library reads it") {
  for (const char* text : {"null", "[]", "{}", "-0.5e3", R"({"b":[1,{"a":"\u00fc"}],"a":{"b":true}})"}) {
    CHECK(parse_strict_json(text, 8) == nlohmann::json::parse(text));
    CHECK(parse_strict_ordered_json(text, 8).dump() == nlohmann::ordered_json::parse(text).dump());
  }
}

TEST_CASE("equal keys of one object are refused, of two they are none") {
  CHECK(refusal(R"({"a":1,"b":2,"a":3})") == "the field 'a' appears twice in one object");
  CHECK(refusal(R"([{"x":{"a":1,"a":1}}])") == "the field 'a' appears twice in one object");
  CHECK(refusal(R"({"\u001b":1,"\u001b":1})") == "the field '\\x1b' appears twice in one object");
  CHECK(parse_strict_json(R"({"a":{"a":[{"a":1},{"a":1}]}})", 8).size() == 1);
}

TEST_CASE("nesting has a limit, and a hostile one takes no stack") {
  CHECK(parse_strict_json("[[[]]]", 3).size() == 1);
  CHECK(refusal("[[[[]]]]", 3) == "nested deeper than 3 levels");
  CHECK(refusal(R"([[[{}]]])", 3) == "nested deeper than 3 levels");
  CHECK(refusal(std::string(10'000'000, '[')) == "nested deeper than 8 levels");
}

TEST_CASE("what is not JSON is refused in few words") {
  for (const std::string& text : {std::string(), std::string("{"), std::string("nul"), std::string("[1,]"),
                                  std::string("{} {}"), std::string("\"\xFF\""), std::string("1e999"),
                                  "[" + std::string(1'000'000, 'x'), "\"" + std::string(1'000'000, 'x')}) {
    const std::string message = refusal(text);
    CAPTURE(text.substr(0, 10));
    CHECK(message.starts_with("not JSON: "));
    CHECK(message.size() < 300);
  }
}

TEST_CASE("a list of very many objects is read in proportion to its length") {
  // Where each object costs a look at all before it, this is 10^10 steps and the test's time runs out.
  constexpr int objects = 200'000;
  std::string text = "[{}";
  for (int i = 1; i < objects; ++i) text += ",{}";
  CHECK(parse_strict_json(text + "]", 8).size() == objects);
}
