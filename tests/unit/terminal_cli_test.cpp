// What reaches a terminal: no name, path or value acts on it, and what standard output does not take is told.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using namespace zero1::test;
namespace fs = std::filesystem;

namespace {

const std::string tiny =
    "train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --threads-per-rank 1 "
    "--train-iters 1 ";

/// A title for the window, a colour, an erased screen by C1, DEL, text from right to left, and a line that
/// the program did not print.
const std::string evil =
    "a\x1b]0;t\x07\x1b[31m\xC2\x9B"
    "2J\x7F\xE2\x80\xAE\r\nzero1: forged";

/// safetensors with a tensor of this name and one of four ones.
std::string safetensors(const std::string& name) {
  const nlohmann::json header{{name, {{"dtype", "F32"}, {"shape", {2, 3}}, {"data_offsets", {0, 24}}}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i));
  return bytes + text + std::string(24, '\0');
}

/// What a terminal would act on or a reader be deceived by; empty: nothing.
std::string harm_in(const std::string& output) {
  for (std::size_t i = 0; i < output.size(); ++i) {
    const auto byte = static_cast<unsigned char>(output[i]);
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F) return "byte " + std::to_string(byte);
  }
  for (const char* part : {"\xC2\x9B", "\xE2\x80\xAE", "\nzero1: forged"}) {
    if (output.find(part) != std::string::npos) return part;
  }
  try {
    (void)nlohmann::json(output).dump();
  } catch (const nlohmann::json::exception&) {
    return "bytes that are not UTF-8";
  }
  return "";
}

}  // namespace

TEST_CASE("names, paths and values are escaped in everything that is printed, with --json too") {
  const TemporaryFolder folder;
  // Of one checkpoint names are evil, of another the path, which is not UTF-8 either.
  fs::create_directory(folder.path(evil + "\xFF"));
  const std::string path = folder.path(evil + "\xFF/");
  const std::string odd = quoted(path + "c");
  const std::string names = quoted(folder.path("names"));
  const std::string spec = quoted(folder.write(
      "spec.json", nlohmann::json{{"name", evil},
                                  {"params", {{{"name", evil}, {"shape", {2, 3}}, {"dtype", "float32"}}}},
                                  {"dp_size", 2},
                                  {"expert_dp_size", 2},
                                  {"bucket_size", nullptr},
                                  {"pad_buckets_for_high_nccl_busbw", false},
                                  {"grad_reduce_in_fp32", true}}
                       .dump()));
  const std::string evil_tensor = quoted(folder.write("evil.safetensors", safetensors(evil)));
  std::ofstream(path + "t.safetensors", std::ios::binary) << safetensors("t");
  std::ofstream(path + "data") << std::string(200, 'x');
  const std::string word = quoted(evil + "\xFF");
  const std::string commands[] = {
      "ckpt import --dp 2 " + evil_tensor + " " + names,
      "ckpt import --dp 2 " + quoted(path + "t.safetensors") + " " + odd,
      "ckpt import --dp 2 " + evil_tensor + " " + odd,
      "ckpt inspect " + names,
      "ckpt inspect " + odd,
      "ckpt inspect --json " + names,
      "ckpt inspect --json " + odd,
      "ckpt inspect --param " + quoted(evil) + " " + names,
      "ckpt inspect --json --param " + quoted(evil) + " " + names,
      "ckpt inspect --param " + word + " " + names,
      "ckpt verify " + odd,
      "ckpt verify --json " + odd,
      "ckpt diff " + names + " " + odd,
      "ckpt diff --json " + names + " " + odd,
      "ckpt diff --param " + word + " " + names + " " + odd,
      "ckpt reshard --dp 3 " + odd + " " + quoted(path + "d"),
      "ckpt export " + odd + " " + quoted(path + "e.h5"),
      "ckpt export " + odd + " " + quoted(path + "e.safetensors"),
      "ckpt export --max-shard-size 8 " + odd + " " + quoted(path + "i.safetensors"),
      "ckpt export " + names + " " + word,
      "ckpt clean " + quoted(path),
      tiny + "--load " + names,
      tiny + "--load " + names + " --no-strict",
      tiny + "--load " + odd + " --rename " + word,
      tiny + "--init " + evil_tensor,
      tiny + "--model " + word,
      tiny + "--lr " + word,
      tiny + "--param-group " + word,
      tiny + "--config " + word,
      tiny + "--data " + quoted(path + "data") + " --trace " + quoted(path + "run") + " --save " +
          quoted(path + "s"),
      tiny + "--train-iters 2 --load " + quoted(path + "s"),
      "trace summary " + quoted(path + "run"),
      "trace summary --json " + quoted(path + "run"),
      "trace export " + quoted(path + "run") + " " + quoted(path + "run.json"),
      "trace summary " + word,
      "layout " + spec,
      "layout --json " + spec,
      "layout --digest " + spec,
      "layout --param " + quoted(evil) + " " + spec,
      "layout --param " + word + " " + spec,
      "layout --rank 0 " + spec,
      "layout --case " + word + " " + spec,
      "layout " + word,
      "ckpt reshard --dp " + word + " a b",
      "ckpt diff -d " + word + " a b",
      word,
      "--" + word,
  };
  for (const std::string& arguments : commands) {
    CAPTURE(arguments);
    const Outcome outcome = run_zero1(arguments);
    CAPTURE(outcome.output);
    CHECK(harm_in(outcome.output) == "");
    CHECK_FALSE(outcome.says("json.exception"));
    CHECK(outcome.status >= 0);
    if (arguments.find("--json") != std::string::npos) {
      const nlohmann::json json = nlohmann::json::parse(outcome.output, nullptr, false);
      CHECK_FALSE(json.is_discarded());
    }
  }
  // Machines get the name itself.
  const nlohmann::json json = nlohmann::json::parse(run_zero1("ckpt inspect --json " + names).output);
  CHECK(json.at("layout").at("params").at(0).at("name") == evil);
  CHECK(run_zero1("ckpt inspect " + names).says("\\x1b[31m\\u009b2J\\x7f\\u202e\\r\\nzero1: forged"));
}

TEST_CASE("what standard output does not take gives status 1, for every command and for help") {
  const TemporaryFolder folder;
  const std::string saved = quoted(folder.path("c"));
  const std::string trace = quoted(folder.path("run"));
  REQUIRE(run_zero1(tiny + "--save " + saved + " --trace " + trace).status == 0);
  const std::string golden = quoted(ZERO1_GOLDEN_DIR "/layout_small.json");
  for (const std::string& arguments :
       {std::string("--help"),
        std::string("--version"),
        std::string("train --help"),
        std::string("ckpt diff --help"),
        tiny,
        tiny + "--log-interval 0",
        "layout " + golden,
        "layout --json " + golden,
        "layout --check " + golden,
        "layout --digest " + golden,
        "trace summary " + trace,
        "trace summary --json " + trace,
        "trace export " + trace + " " + quoted(folder.path("run.json")),
        "ckpt inspect " + saved,
        "ckpt inspect --json " + saved,
        "ckpt verify " + saved,
        "ckpt verify --json " + saved,
        "ckpt diff --json " + saved + " " + saved,
        "ckpt clean " + saved,
        "ckpt reshard --dry-run --dp 2 " + saved + " " + quoted(folder.path("r")),
        "ckpt reshard --dp 2 " + saved + " " + quoted(folder.path("r")),
        "ckpt export " + saved + " " + quoted(folder.path("e.h5")),
        "ckpt export --model-only " + saved + " " + quoted(folder.path("e.safetensors")),
        "ckpt import --dp 2 " + quoted(folder.path("e.safetensors")) + " " + quoted(folder.path("i"))}) {
    CAPTURE(arguments);
    const Outcome full = run_zero1(arguments + " > /dev/full");
    CHECK_MESSAGE(full.status == 1, full.output);
    CHECK_MESSAGE(full.says("zero1: standard output: cannot be written"), full.output);
  }
  // Closed: no file of the command takes its place and gets the text.
  const Outcome closed =
      run_zero1("ckpt export " + saved + " " + quoted(folder.path("closed.safetensors")) + " >&-");
  CHECK_MESSAGE(closed.status == 1, closed.output);
  CHECK(folder.read("closed.safetensors").find("KiB") == std::string::npos);
  CHECK(run_zero1("ckpt diff " + saved + " " + saved + " > /dev/full").status == 0);  // says nothing
}

TEST_CASE("a run's log is in its file line by line") {
  const TemporaryFolder folder;
  const std::string log = quoted(folder.path("log"));
  // The run is stopped at once and asked for its log: standard output is a file.
  const Outcome outcome = run_command(quoted(ZERO1_BIN_DIR "/zero1") + " " + tiny +
                                      "--train-iters 100000 --hidden-size 64 --log-interval 0 > " + log +
                                      " & run=$!; for i in $(seq 600); do [ -s " + log +
                                      " ] && break; sleep 0.1; done; cat " + log + "; kill $run; wait $run");
  CHECK_MESSAGE(outcome.says("zero1 train: gpt"), outcome.output);
  CHECK_MESSAGE(outcome.says("distributed optimizer on"), outcome.output);
}

TEST_CASE("only one file writes to standard output and standard error") {
  const fs::path root = fs::path(ZERO1_GOLDEN_DIR).parent_path().parent_path();
  const std::regex writes(
      R"(\bfmt::print\(|\b(std::)?(v?printf|puts|fputs|putchar|perror)\(|fprintf\(|fwrite\([^;]*std(out|err)|std::c(out|err|log) *<<)");
  int files = 0;
  for (const char* part : {"apps", "core", "ckpt", "viz"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / part)) {
      const std::string ending = entry.path().extension().string();
      if (ending != ".cpp" && ending != ".h" && ending != ".cu" && ending != ".cuh") continue;
      ++files;
      if (entry.path().filename() == "terminal.cpp") continue;
      std::ifstream source(entry.path());
      int number = 0;
      for (std::string line; std::getline(source, line);) {
        ++number;
        if (entry.path().filename() == "cmd_layout.cpp" && line.find("std::cout <<") != std::string::npos)
          continue;  // JSON of any size, escaped where it is composed
        if (entry.path().filename() == "token_output.cpp") continue;  // a model's text, bytes as they are
        if (line.find("//") == line.find_first_not_of(' ')) continue;
        CHECK_MESSAGE(!std::regex_search(line, writes), entry.path().string()
                                                            << ":" << number
                                                            << " writes past core/base/terminal.h: " << line);
      }
    }
  }
  CHECK(files > 200);
}
