// --rename, --exclude, --transpose and --no-transpose, and what is told of tensors that do not fit.
#include "core/data/name_rules.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "tests/support/message.h"

using namespace zero1;

namespace {

using Shape = std::vector<std::int64_t>;

std::vector<MappedTensor> mapped(const NameRules& rules, const std::vector<NamedShape>& tensors,
                                 StateTensors states = StateTensors::none) {
  return map_tensors(rules, tensors, states, "FILE");
}

std::vector<std::string> names(const NameRules& rules, const std::vector<std::string>& stored,
                               StateTensors states = StateTensors::none) {
  std::vector<NamedShape> tensors;
  for (const std::string& name : stored) tensors.push_back({name, {2}});
  std::vector<std::string> result;
  for (const MappedTensor& tensor : mapped(rules, tensors, states))
    result.push_back(tensor.excluded ? "-" : tensor.name);
  return result;
}

NameRules renaming(std::vector<std::string> renames) {
  return {std::move(renames), {}, {}, {}};
}

void refused(const NameRules& rules, const std::vector<NamedShape>& tensors,
             std::initializer_list<const char*> parts) {
  const std::string message = test::message_of<InputError>([&] { mapped(rules, tensors); });
  for (const char* part : parts) CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a name is renamed as it is written, many by a regular expression for the whole name") {
  const Names stored{"wte.weight", "h.0.ln.bias", "h.10.ln.bias", "wteXweight"};
  CHECK(names(renaming({"wte.weight=e"}), stored) == Names{"e", "h.0.ln.bias", "h.10.ln.bias", "wteXweight"});
  CHECK(names(renaming({"h\\.([0-9]+)\\.(.*)=layers.\\1.\\2"}), stored) ==
        Names{"wte.weight", "layers.0.ln.bias", "layers.10.ln.bias", "wteXweight"});
  CHECK(names(renaming({"h\\.(\\d+)\\..*=$1"}), stored) == Names{"wte.weight", "0", "10", "wteXweight"});
  CHECK(names(renaming({".*=model.\\0"}), stored) ==
        Names{"model.wte.weight", "model.h.0.ln.bias", "model.h.10.ln.bias", "model.wteXweight"});
  CHECK(names(renaming({"(?=h).*bias=x\\\\\\0$"}), {"h.bias", "bias"}) == Names{"x\\h.bias$", "bias"});
  CHECK(names(renaming({"a\\=b=c"}), {"a=b", "a"}) == Names{"c", "a"});
  // All at once, not one after another: names can be exchanged.
  CHECK(names(renaming({"a=b", "b=a"}), {"a", "b"}) == Names{"b", "a"});
  CHECK(names(renaming({"h\\.0\\.ln\\.bias=first", "h\\..*=h\\0"}), stored) ==
        Names{"wte.weight", "first", "hh.10.ln.bias", "wteXweight"});
  // Neither beginning nor end is enough.
  refused(renaming({"wte=x"}), {{"wte.weight", {2}}},
          {"--rename wte=x: matches no tensor of FILE", "wte.weight"});
}

TEST_CASE("renames that cannot be are refused by the flag, with what is wrong") {
  const std::vector<NamedShape> two{{"a.w", {2}}, {"b.w", {3}}};
  refused(renaming({".*\\.w=x"}), two, {"'a.w' and 'b.w' of FILE would both be called 'x'", "--exclude"});
  refused(renaming({"a.w=b.w"}), two, {"'a.w' and 'b.w'", "'b.w'"});
  CHECK(names({{".*\\.w=x"}, {"b.w"}, {}, {}}, {"a.w", "b.w"}) == Names{"x", "-"});
  refused(renaming({"a.w"}), two, {"--rename a.w: expected OLD=NEW"});
  refused(renaming({"=x"}), two, {"the old name is missing"});
  refused(renaming({"a.w="}), two, {"the new name is missing"});
  refused(renaming({"(a).*=\\2"}), two, {"--rename (a).*=\\2: \\2 stands for a group", "it has 1"});
  refused(renaming({"a.w=\\1"}), two, {"it has 0"});
  refused(renaming({"(x?)a.w=\\1"}), two, {"the new name is empty"});
  refused(renaming({"a.w=\xff"}), two, {"is not UTF-8"});
  refused(renaming({"(.).*=\\1"}), {{"\xc3\xa4", {2}}}, {"is not UTF-8"});
  refused(renaming({"(a.w=x"}), two, {"'(a.w' is neither a stored name nor a regular expression"});
  refused(renaming({"nothing=x"}), two, {"--rename nothing=x: matches no tensor"});
  refused(renaming({".*=m.\\0", "a.w=x"}), two, {"--rename a.w=x: an earlier --rename decides"});
  refused({{}, {"c.*"}, {}, {}}, two, {"--exclude c.*: matches no tensor"});
  refused({{}, {""}, {}, {}}, two, {"--exclude : the pattern is empty"});
  refused({{}, {}, {"a.w"}, {}}, two, {"--transpose a.w: matches no matrix"});
  refused(renaming({"x.*=y"}), {{std::string(600, 'x'), {2}}},
          {"a name of 600 bytes is too long for a pattern"});
  CHECK(names(renaming({"b=c"}), {std::string(600, 'x'), "b"}).back() == "c");
  refused(renaming({"x=y"}), {{"\x1b[2J", {2}}}, {"names look like '\\x1b[2J'"});
}

TEST_CASE("optimizer states follow their parameters") {
  const Names stored{"a", "a.exp_avg", "a.exp_avg_sq", "b", "b.exp_avg", "c.exp_avg"};
  CHECK(names({{"a=x", "c.exp_avg=y"}, {"b"}, {}, {}}, stored, StateTensors::beside) ==
        Names{"x", "x.exp_avg", "x.exp_avg_sq", "-", "-", "y"});
  CHECK(names({{}, {".*\\.exp_avg(_sq)?"}, {}, {}}, stored, StateTensors::beside) ==
        Names{"a", "-", "-", "b", "-", "-"});
  CHECK(names(renaming({"a=x"}), stored) ==
        Names{"x", "a.exp_avg", "a.exp_avg_sq", "b", "b.exp_avg", "c.exp_avg"});
  const auto turned =
      mapped({{}, {}, {"m"}, {}}, {{"m", {2, 3}}, {"m.exp_avg", {2, 3}}}, StateTensors::beside);
  CHECK(turned[1].transposed);
  CHECK(turned[1].shape == Shape{3, 2});
  CHECK(describe(turned) == Names{"transposed: 1 tensor: m"});
}

TEST_CASE("matrices are transposed; of square ones of the kind it must be said") {
  const std::vector<NamedShape> conv1d{{"wte.weight", {50, 4}},
                                       {"h.0.attn.c_attn.weight", {4, 12}},
                                       {"h.0.attn.c_attn.bias", {12}},
                                       {"h.0.attn.c_proj.weight", {4, 4}},
                                       {"h.0.mlp.c_fc.weight", {4, 16}},
                                       {"h.0.mlp.c_proj.weight", {16, 4}},
                                       {"q.weight", {4, 4}}};
  const char* all_but_squares = ".*\\.(c_attn|c_fc)\\.weight|.*\\.mlp\\.c_proj\\.weight";
  refused({{}, {}, {all_but_squares}, {}}, conv1d,
          {"h.0.attn.c_proj.weight, q.weight", "--transpose 'h\\.[0-9]+\\.attn\\.c_proj\\.weight|q\\.weight'",
           "--no-transpose 'h\\.[0-9]+"});
  const auto said = mapped({{}, {}, {all_but_squares, "h.0.attn.c_proj.weight"}, {"q.weight"}}, conv1d);
  CHECK(said[1].shape == Shape{12, 4});
  CHECK(said[3].transposed);
  CHECK(!said[6].transposed);
  CHECK(!said[0].transposed);
  // An exception wins.
  const auto except = mapped({{}, {}, {".*weight"}, {"wte.weight|q.weight"}}, conv1d);
  CHECK(except[0].shape == Shape{50, 4});
  CHECK(except[3].transposed);
  CHECK(!except[2].transposed);  // biases have nothing to transpose
  // What is called alike and is not square tells.
  CHECK_NOTHROW(mapped({{}, {}, {".*\\.(c_attn|c_fc)\\.weight"}, {"q.weight"}}, conv1d));
  CHECK_NOTHROW(mapped({{}, {"q.weight|.*attn.c_proj.*"}, {all_but_squares}, {}}, conv1d));
  refused({{}, {}, {".*"}, {}}, {{"k", {2, 3, 4}}, {"m", {2, 3}}},
          {"'k' has 3 dimensions", "--no-transpose"});
  CHECK(mapped({{}, {}, {".*"}, {"k"}}, {{"k", {2, 3, 4}}, {"m", {2, 3}}})[1].transposed);
}

TEST_CASE("what does not fit is told with the flags that help") {
  const auto fit = [](const NameRules& rules, const std::vector<NamedShape>& found) {
    return compare_tensors({{"e.weight", {9, 2}}, {"h.0.fc.weight", {6, 2}}, {"h.0.proj.weight", {2, 2}}},
                           mapped(rules, found));
  };
  const auto says = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  CHECK(
      fit({}, {{"h.0.proj.weight", {2, 2}}, {"e.weight", {9, 2}}, {"h.0.fc.weight", {6, 2}}}).faults.empty());
  const std::vector<NamedShape> conv1d{
      {"e.weight", {9, 2}}, {"h.0.fc.weight", {2, 6}}, {"h.0.proj.weight", {2, 2}}};
  const TensorFit turned = fit({}, conv1d);
  CHECK(turned.faults == "\n  h.0.fc.weight: shape [2, 6], expected [6, 2], which it has when transposed");
  says(turned.advice, "--transpose 'h\\.[0-9]+\\.fc\\.weight' transposes them");
  says(turned.advice, "square ones fit either way");
  says(turned.advice, "'h\\.[0-9]+\\.proj\\.weight'");
  CHECK(fit({{}, {}, {"h.*"}, {}}, conv1d).faults.empty());
  says(fit({{}, {}, {"h.*", "e.weight"}, {}}, conv1d).faults,
       "expected [9, 2], which it has as it is stored");

  std::vector<NamedShape> prefixed = conv1d;
  for (NamedShape& each : prefixed) each.name = "transformer." + each.name;
  prefixed.push_back({"lm_head.weight", {9, 2}});
  const TensorFit other_names = fit({}, prefixed);
  says(other_names.faults, "\n  missing: e.weight [9, 2]");
  says(other_names.faults, "\n  unexpected: lm_head.weight [9, 2]");
  says(other_names.advice, "--rename 'transformer\\.(.*)=\\1'");
  says(other_names.advice, "--exclude PATTERN");
  const NameRules rules{{"transformer\\.(.*)=\\1"}, {"lm_head.weight"}, {".*h.*weight"}, {}};
  CHECK(fit(rules, prefixed).faults.empty());
  says(fit({{}, {"e.weight"}, {}, {}}, conv1d).faults, "missing: e.weight [9, 2] (left out by --exclude)");
  const TensorFit inverse =
      compare_tensors({{"m.a", {1}}, {"m.b", {2}}}, mapped({}, {{"a", {1}}, {"b", {2}}}));
  says(inverse.advice, "--rename '(.*)=m.\\1'");
}

TEST_CASE("names in natural order: numbers count as numbers") {
  Names sorted{"h.10.a", "h.2.b", "h.2.a", "h", "h.02.a", "ln", "h.2", "h.100", "h.9"};
  std::sort(sorted.begin(), sorted.end(), natural_less);
  CHECK(sorted == Names{"h", "h.2", "h.02.a", "h.2.a", "h.2.b", "h.9", "h.10.a", "h.100", "ln"});
  CHECK(!natural_less("a", "a"));
  CHECK(natural_less("99999999999999999999", "100000000000000000000"));
}

TEST_CASE("transposing moves every element") {
  for (const auto& [rows, columns] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {3, 5}, {33, 70}, {1, 7}, {64, 32}, {0, 3}}) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<float>(i));
    const std::vector<float> turned = transpose(values, rows, columns);
    REQUIRE(turned.size() == values.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c)
        CHECK(turned[static_cast<std::size_t>(c * rows + r)] == static_cast<float>(r * columns + c));
    }
  }
}
