// What people type: plans, progress on a terminal, and everything that is refused, with what helps instead.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <pty.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "ckpt/verify.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
namespace fs = std::filesystem;

namespace {

/// Two parameters on five ranks: 128 elements per rank; w begins at element 192 and so lies on ranks 1 and 2.
void write_five_ranks(const std::string& path) {
  LayoutCase layout_case;
  layout_case.params = {{"w", {30, 4}, DType::fp32, false, false}, {"pad", {180}, DType::fp32, false, false}};
  layout_case.options.dp_size = layout_case.options.expert_dp_size = 5;
  ckpt::write_checkpoint(path, test::one_step(), layout_case, test::PlacedValues());
}

/// Runs `zero1 WORDS…` with a terminal of its own.
test::Outcome run_on_terminal(std::vector<std::string> words) {
  std::string program = ZERO1_BIN_DIR "/zero1";
  std::vector<char*> arguments{program.data()};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execv(program.c_str(), arguments.data());
    ::_exit(127);
  }
  test::Outcome outcome;
  std::array<char, 4096> chunk{};
  for (ssize_t count = 0; (count = ::read(terminal, chunk.data(), chunk.size())) > 0;) {
    outcome.output.append(chunk.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::close(terminal);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// The file of safetensors with this header and `data_bytes` zeros.
std::string safetensors(const std::string& header, std::size_t data_bytes) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data_bytes, '\0');
}

}  // namespace

TEST_CASE("a plan says which new file takes how much from which old one, and writes nothing") {
  const test::TemporaryFolder folder;
  write_five_ranks(folder.path("five"));
  const test::Outcome plan =
      test::run_zero1("ckpt reshard --dry-run --dp 2 " + folder.path("five") + " " + folder.path("two"));
  CHECK(plan.status == 0);
  CHECK(plan.output ==
        "5 -> 2 ranks, 4.50 KiB to be written\n"
        "rank_00000.h5 <-  rank_00000.h5 1.50 KiB  rank_00001.h5 624 B\n"
        "rank_00001.h5 <-  rank_00001.h5 768 B  rank_00002.h5 672 B\n");
  CHECK(folder.count() == 1);
  // What would be refused is refused now.
  CHECK(test::run_zero1("ckpt reshard --dry-run --dp 2 " + folder.path("five") + " " + folder.path("five"))
            .says("is there already"));
}

TEST_CASE("inspect says which rank holds which part of a parameter") {
  const test::TemporaryFolder folder;
  write_five_ranks(folder.path("five"));
  const test::Outcome table = test::run_zero1("ckpt inspect --param w " + folder.path("five"));
  CHECK(table.says("w [30, 4], 120 elements in 2 pieces"));
  const auto row = [](const char* file, const char* of_param, const char* of_slice) {
    return fmt::format("{:<16}{:<30}{:>26}{:>26}\n", file, "/buffers/0/buckets/0/…", of_param, of_slice);
  };
  CHECK_MESSAGE(table.says(row("rank_00001.h5", "[0, 64)", "[64, 128)")), table.output);
  CHECK_MESSAGE(table.says(row("rank_00002.h5", "[64, 120)", "[0, 56)")), table.output);
  const test::Outcome json = test::run_zero1("ckpt inspect --json --param w " + folder.path("five"));
  CHECK_MESSAGE(json.says("\"rank\": 2"), json.output);
  CHECK(json.says("\"local\": [\n    0,\n    56\n   ]"));
}

TEST_CASE("diff's tolerances, absolute, relative and none, one parameter or all") {
  /// Element 7 of w is half as large again; element 3 of pad is 0, with the sign of `zero`.
  class Changed : public test::PlacedValues {
   public:
    Changed(float factor, float zero) : factor_(factor), zero_(zero) {}
    void read(int param, ckpt::State state, Range range, float* out) const override {
      PlacedValues::read(param, state, range, out);
      if (state != ckpt::State::param) return;
      if (param == 0 && range.contains(7)) out[7 - range.start] *= factor_;
      if (param == 1 && range.contains(3)) out[3 - range.start] = zero_;
    }

   private:
    float factor_, zero_;
  };
  const test::TemporaryFolder folder;
  LayoutCase layout_case;
  layout_case.params = {{"w", {30, 4}, DType::fp32, false, false}, {"pad", {180}, DType::fp32, false, false}};
  ckpt::write_checkpoint(folder.path("a"), test::one_step(), layout_case, Changed(1, 0));
  layout_case.options.dp_size = layout_case.options.expert_dp_size = 3;
  ckpt::write_checkpoint(folder.path("b"), test::one_step(), layout_case, Changed(1.5F, -0.0F));
  const float value = test::PlacedValues::value(0, ckpt::State::param, 7);
  REQUIRE(std::abs(value) > 1e-3F);
  const auto diff = [&](const std::string& flags) {
    return test::run_zero1("ckpt diff " + flags + " " + folder.path("a") + " " + folder.path("b"));
  };
  const double distance = 0.5 * std::abs(static_cast<double>(value));
  const test::Outcome all = diff("");
  CHECK(all.status == 1);
  CHECK_MESSAGE(all.says(fmt::format("[7] {:g} {:g}", value, 1.5F * value)), all.output);
  CHECK(!all.says("pad"));  // 0 equals -0
  const auto silent = [&](const std::string& flags) {
    const test::Outcome outcome = diff(flags);
    CAPTURE(flags);
    CHECK(outcome.status == (outcome.output.empty() ? 0 : 1));
    return outcome.output.empty();
  };
  CHECK(silent(fmt::format("-d {}", distance * 1.01)));
  CHECK(!silent(fmt::format("-d {}", distance * 0.99)));
  CHECK(silent("-p 0.51"));
  CHECK(!silent("-p 0.49"));
  CHECK(silent(fmt::format("-p 0.49 -d {}", distance * 1.01)));
  CHECK(silent("--param pad"));
  CHECK(!silent("--param pad --bitwise"));
  CHECK(!silent("--param w"));
}

TEST_CASE("progress is shown on a terminal, and nowhere else") {
  const test::TemporaryFolder folder;
  write_five_ranks(folder.path("five"));
  const auto commands = [&](const std::string& suffix) {
    return std::vector<std::vector<std::string>>{
        {"ckpt", "reshard", folder.path("five"), folder.path("two" + suffix), "--dp", "2"},
        {"ckpt", "gather", folder.path("five"), folder.path("all" + suffix + ".h5")},
        {"ckpt", "gather", folder.path("five"), folder.path("all" + suffix + ".safetensors")}};
  };
  for (const auto& words : commands("_shown")) {
    const test::Outcome outcome = run_on_terminal(words);
    CHECK_MESSAGE(outcome.status == 0, outcome.output);
    for (const char* part : {" 100%  ", " of ", "B/s  0 s left"})
      CHECK_MESSAGE(outcome.says(part), outcome.output);
  }
  for (const auto& words : commands("_silent")) {
    std::string arguments;
    for (const std::string& word : words) arguments += " " + test::quoted(word);
    const test::Outcome outcome = test::run_zero1(arguments);
    CHECK(outcome.status == 0);
    CHECK_MESSAGE(!outcome.says("%"), outcome.output);
    CHECK_MESSAGE(!outcome.says("\r"), outcome.output);
  }
}

TEST_CASE("what cannot be is refused with status 2, says what was found, and leaves nothing") {
  const test::TemporaryFolder folder;
  write_five_ranks(folder.path("c"));
  folder.write("file", "");
  fs::create_symlink("nowhere", folder.path("dangling"));
  fs::create_directory(folder.path("empty"));
  const int before = folder.count();
  struct Case {
    const char* arguments;  ///< where @ stands for the folder
    const char* says;
  };
  for (const Case& each : std::initializer_list<Case>{
           {"reshard @/c", "DST is required"},
           {"reshard @/new @/c --dp 2", "@/new: there is no such folder"},
           {"reshard @/c @/c --dp 2", "@/c: is there already; name a new folder"},
           {"reshard @/c @/c/inside --dp 2", "lies inside the checkpoint"},
           {"reshard @/c @/c/inside/deeper --dp 2", "lies inside the checkpoint"},
           {"gather @/c @/c/inside.h5", "lies inside the checkpoint"},
           {"reshard @/c/rank_00000.h5 @/new --dp 2", "name the checkpoint that it belongs to: @/c"},
           {"inspect @/c/checkpoint.h5", "name the checkpoint that it belongs to: @/c"},
           {"inspect @/file", "a checkpoint is a folder"},
           {"inspect @/empty", "@/empty: holds no checkpoint"},
           {"inspect @/c --ckpt-step 1", "is one checkpoint; --ckpt-step chooses among"},
           {"inspect @/c --param v", "--param v: no such parameter"},
           {"reshard @/c @/dangling --dp 2", "@/dangling: is there already"},
           {"reshard @/c @/dangling/ --dp 2", "is there already"},
           {"gather @/c @/dangling", "Its ending says it"},
           {"reshard @/c @/file/x --dp 2", "nothing can be written there"},
           {"gather @/c @/file/x.h5", "nothing can be written there"},
           {"reshard @/c '' --dp 2", "the value is empty"},
           {"reshard @/c @/new --dp 0", "--dp: Value 0 not in range"},
           {"reshard @/c @/new --dp two", "--dp"},
           {"reshard @/c @/new --workers 0", "--workers"},
           {"reshard @/c @/new --mem-limit 1", "--mem-limit must be at least 1MiB, got 1"},
           {"reshard @/c @/new --mem-limit lots", "'lots' is not a size in bytes"},
           {"reshard @/c @/new --bucket-size 0", "found 0"},
           {"reshard @/c @/new --bucket-size 99999999999999999999", "it is too large"},
           {"gather @/c @/new.txt", "Its ending says it"},
           {"gather @/c @/new/", "Its ending says it"},
           {"gather @/c @/new.h5 --dtype bfloat16", "for a .safetensors file"},
           {"gather @/c @/new.safetensors --dtype int8", "--dtype int8"},
           {"import @/c @/new --dp 2", "@/c: is a folder"},
           {"import @/c/checkpoint.h5 @/new --dp 2", "needs no import"},
           {"diff @/c @/new", "@/new: there is no such folder"},
           {"diff @/c @/c -d nan", "-d: expected a finite number, found 'nan'"},
           {"diff @/c @/c -p -1", "a tolerance is 0 or more, not -1"},
           {"diff @/c @/c --param v", "--param v: no such parameter in @/c"},
           {"clean @/new", "@/new"}}) {
    const auto filled = [&](std::string text) {
      for (std::size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at + 1)) {
        text.replace(at, 1, folder.path());
      }
      return text;
    };
    const test::Outcome outcome = test::run_zero1("ckpt " + filled(each.arguments));
    CAPTURE(each.arguments);
    CHECK(outcome.status == 2);
    CHECK_MESSAGE(outcome.says(filled(each.says)), outcome.output);
    CHECK(folder.count() == before);
  }
  CHECK(ckpt::verify(folder.path("c")).faults.empty());
}

TEST_CASE("a run that could not save says so before it trains") {
  const test::TemporaryFolder folder;
  folder.write("file", "");
  const test::Outcome outcome = test::run_zero1("train --train-iters 1 --save " + folder.path("file/below"));
  CHECK(outcome.status == 2);
  CHECK_MESSAGE(outcome.says("file/below/step_00000001: nothing can be written there"), outcome.output);
  CHECK_MESSAGE(!outcome.says("Trained"), outcome.output);
}

TEST_CASE("every command's help shows how it is called") {
  for (const char* command :
       {"", "inspect", "verify", "gather", "export", "reshard", "diff", "import", "clean"}) {
    const test::Outcome help = test::run_zero1(fmt::format("ckpt {} --help", command));
    CHECK(help.status == 0);
    CHECK_MESSAGE(help.says(fmt::format("\n  zero1 ckpt {}", command)), help.output);
  }
  CHECK(test::run_zero1("ckpt --help").says("HDF5_USE_FILE_LOCKING=FALSE"));
}

TEST_CASE("files of weights hold masks and counters too: refused by name, or left out") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write(
      "model.safetensors", safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                       R"("steps":{"dtype":"I64","shape":[],"data_offsets":[8,16]},)"
                                       R"("w.exp_avg":{"dtype":"I32","shape":[2],"data_offsets":[16,24]}})",
                                       24));
  const std::string import = "ckpt import --dp 2 " + path + " " + folder.path("c");
  const test::Outcome refused = test::run_zero1(import);
  CHECK(refused.status == 2);
  CHECK_MESSAGE(refused.says("tensor 'steps' has dtype I64"), refused.output);
  CHECK(refused.says("--skip-other-dtypes"));
  const test::Outcome state = test::run_zero1(import + " --skip-other-dtypes");
  CHECK(state.status == 2);
  CHECK_MESSAGE(state.says("tensor 'w.exp_avg' has dtype I32"), state.output);
  folder.write("model.safetensors",
               safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("steps":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})",
                           16));
  const test::Outcome taken = test::run_zero1(import + " --skip-other-dtypes");
  CHECK_MESSAGE(taken.status == 0, taken.output);
  CHECK(taken.says("left out: steps (I64)"));
  CHECK(ckpt::Checkpoint(folder.path("c")).layout().specs.size() == 1);
}
