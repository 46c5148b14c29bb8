// `zero1 train` as people and scripts call it: flags, output, files, exit status.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "core/base/units.h"
#include "tests/support/command.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using nlohmann::json;
using namespace zero1::test;

namespace {

const std::string tiny =
    "train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --threads-per-rank 1 "
    "--train-iters 3 ";

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("a golden case runs from the command line") {
  const TemporaryFolder folder;
  const std::string golden = ZERO1_GOLDEN_DIR;
  const Outcome outcome = run_zero1(
      "train --num-layers 2 --hidden-size 48 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 "
      "--global-batch-size 8 --lr 0.003 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps "
      "1e-8 "
      "--clip-grad 1.0 --train-iters 40 --dp 2 --overlap-grad-reduce --overlap-param-gather "
      "--ddp-num-buckets 5 "
      "--threads-per-rank 1 --data " +
      quoted(golden + "/corpus.txt") + " --init " + quoted(golden + "/gpt-a.init.safetensors") +
      " --metrics " + quoted(folder.path("m.jsonl")) + " --save-weights " +
      quoted(folder.path("w.safetensors")) + " --trace " + quoted(folder.path("run.trace")) + " --svg " +
      quoted(folder.path("map.svg")));
  REQUIRE(outcome.status == 0);
  CHECK(outcome.says("plain data parallelism"));
  CHECK(outcome.says("reduce-scatter"));
  const json expected = json::parse(std::ifstream(golden + "/gpt-a.json")).at("float64");
  const std::vector<json> steps = lines_of(folder.read("m.jsonl"));
  REQUIRE(steps.size() == 40);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    CHECK(steps[s].at("step") == s + 1);
    CHECK(std::abs(steps[s].at("loss").get<double>() - expected[s].at("loss").get<double>()) < 1e-4);
    CHECK(steps[s].at("grad_norm").get<double>() ==
          doctest::Approx(expected[s].at("grad_norm").get<double>()).epsilon(1e-3));
    CHECK(steps[s].at("lr") == 0.003);
    CHECK(steps[s].at("tokens") == 256);
    CHECK(steps[s].at("ms").get<double>() > 0);
    CHECK(steps[s].at("comm_ms").get<double>() > 0);
    CHECK(steps[s].at("exposed_comm_ms").get<double>() >= 0);
    CHECK(steps[s].at("overlap").get<double>() <= 1);
  }
  CHECK(run_zero1("trace summary " + quoted(folder.path("run.trace"))).status == 0);
  CHECK(folder.read("map.svg").find("<svg") != std::string::npos);
}

TEST_CASE("bad flags and files give status 2 and name themselves") {
  const TemporaryFolder folder;
  const std::string short_file = folder.write("short", "too short");
  const struct {
    std::string flags, says;
  } cases[] = {
      {"--dp 0", "--dp"},
      {"--dp 3 --global-batch-size 4", "--global-batch-size"},
      {"--hidden-size 10 --num-attention-heads 3", "heads"},
      {"--lr-decay-style polynomial", "--lr-decay-style"},
      {"--lr -1", "--lr"},
      {"--min-lr 1 --lr 0.1", "--min-lr"},
      {"--adam-beta2 1", "--adam-beta2"},
      {"--ddp-bucket-size 0", "--ddp-bucket-size"},
      {"--ddp-bucket-size wide", "wide"},
      {"--ddp-num-buckets 0", "--ddp-num-buckets"},
      {"--overlap-param-gather", "--overlap-grad-reduce"},
      {"--bf16 --fp16", "--fp16"},
      {"--data " + quoted(folder.path("none")), "none"},
      {"--data " + quoted(short_file) + " --seq-length 64", "short"},
      {"--init " + quoted(short_file), "short"},
      {"--init " + quoted(ZERO1_GOLDEN_DIR "/gpt-a.init.safetensors"), "wte.weight"},
      {"--metrics " + quoted(folder.path("no/such/folder")), "--metrics"},
      {"--param-group wte:size=3", "--param-group"},
      {"--param-group 'nothing*:wd_mult=0'", "nothing*"},
      {"--config " + quoted(folder.path("none.toml")), "none.toml"},
      {"--config " + quoted(folder.path("")), folder.path("")},
      {"--config " + quoted(folder.write("empty.toml", "lr =\n")), "--lr"},
      {"--config " + quoted(folder.write("section.toml", "[model]\nlr = 1\n")), "[model]"},
      {"--config " + quoted(folder.write("help.toml", "help = true\n")), "help"},
      {"--lr ''", "--lr"},
      {"--data ''", "--data"},
      {"--no-such-flag", "--no-such-flag"},
      {"--dp 4 --global-batch-size 4 --micro-batch-size 4611686018427387904", "--micro-batch-size"},
      {"--micro-batch-size 4611686018427387904", "--micro-batch-size"},
      {"--seq-length 9223372036854775807", "--seq-length"},
      {"--loss-scale 8", "--fp16"},
      {"--valid-data " + quoted(short_file), "--eval-interval"},
      {"--fp16 --initial-loss-scale -1", "--initial-loss-scale"},
      {"--fp16 --min-loss-scale nan", "--min-loss-scale"},
      {"--fp16 --loss-scale-window 0", "--loss-scale-window"},
      {"--fp16 --hysteresis 0", "--hysteresis"},
      {"--param-group 'wpe*:lr_mult=nan'", "--param-group"},
      {"--ddp-bucket-size 99999999999999999999", "too large"},
      {"--fp16 --config " + quoted(folder.write("bf16.toml", "bf16 = true")), "--bf16"},
      {"--train-iters many", "--train-iters"},
      {"--num-layers 1K", "--num-layers: expected a whole number, found '1K'"},
      {"--num-layers 010", "expected a whole number"},
      {"--num-layers 0x2", "expected a whole number"},
      {"--num-layers 99999999999", "below 2^31"},
      {"--seed -1", "--seed"},
      {"--seed 18446744073709551616", "below 2^64"},
      {"--lr nan", "--lr: expected a finite number"},
      {"--lr inf", "--lr: expected a finite number"},
      {"--lr 1e400", "--lr"},
      {"--lr 1e39", "--lr must lie"},
      {"--weight-decay 1e39", "--weight-decay must lie"},
      {"--clip-grad -1", "--clip-grad must lie"},
      {"--adam-eps 1e-40", "--adam-eps must lie"},
      {"--check-for-large-grads 0", "--check-for-large-grads must lie"},
      {"--lr-decay-style linear --lr-decay-iters -1", "--lr-decay-iters must not be negative"},
      {"--lr-warmup-iters 10", "--lr-warmup-iters (10) must not exceed --lr-decay-iters (3"},
      {"--threads-per-rank 100000", "--threads-per-rank must lie"},
      {"--link-gbps 1e-300", "--link-gbps must"},
      {"--link-latency-us 1e300", "--link-latency-us must"},
      {"--log-interval -1", "--log-interval must be 0 or more, got -1"},
      {"--save-interval -1 --save out", "--save-interval must be 0 or more, got -1"},
      {"--ddp-bucket-size -1", "--ddp-bucket-size: '-1' is not a count"},
      {"--fp16 --initial-loss-scale 1 --min-loss-scale 10", "--min-loss-scale (10)"},
      {"--max-position-embeddings 99999999", "--max-position-embeddings must be at most"},
      {"--hidden-size 1048576", "GiB"},
      {"--global-batch-size 1073741824 --seq-length 65536", "GiB"},
      {"--param-group 'wte*:lr_mult=1,lr_mult=2'", "--param-group"},
      {"--param-group 'wte*:lr_mult=1,'", "--param-group"},
      {"--param-group 'wte*:lr_mult=inf'", "--param-group"},
      {"--config " + quoted(folder.write("octal.toml", "dp = 010")), "whole number"},
      {"--config " + quoted(folder.write("twice.toml", "lr = 0.5\nseed = 1\nlr = 0.25\n")),
       "'lr' appears twice"},
      {"--config " + quoted(folder.write("list.toml", "lr = [0.5, 0.25]\n")), "expected one value, found 2"},
  };
  for (const auto& c : cases) {
    const Outcome outcome = run_zero1(tiny + c.flags);
    CAPTURE(c.flags);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says(c.says));
  }
}

TEST_CASE("what cannot be written is told before the training, with status 2") {
  const TemporaryFolder folder;
  for (const char* flag : {"--metrics ", "--trace ", "--svg ", "--save-weights "}) {
    for (const std::string& path : {folder.path(""), folder.path("no/such/folder")}) {
      const Outcome outcome = run_zero1(tiny + flag + quoted(path));
      CAPTURE(flag);
      CAPTURE(outcome.output);
      CHECK(outcome.status == 2);
      CHECK(outcome.says(path));
      CHECK_FALSE(outcome.says("step 1"));
    }
  }
  CHECK(run_zero1(tiny + "> /dev/full").status == 1);
}

TEST_CASE("a run that cannot begin leaves older metrics and traces as they are") {
  const TemporaryFolder folder;
  const std::string metrics = folder.path("m.jsonl");
  const std::string trace = folder.path("run.trace");
  const std::string outputs = "--metrics " + quoted(metrics) + " --trace " + quoted(trace) + " ";
  REQUIRE(run_zero1(tiny + outputs).status == 0);
  const std::string old_metrics = folder.read("m.jsonl");
  const std::string old_trace = folder.read("run.trace");
  REQUIRE(
      run_zero1(tiny + "--hidden-size 32 --save-weights " + quoted(folder.path("wide.safetensors"))).status ==
      0);
  const std::string not_weights = quoted(folder.write("text", "no weights, and too short to train on"));
  for (const std::string& bad :
       {"--init " + quoted(folder.path("wide.safetensors")), "--init " + not_weights,
        "--init " + quoted(folder.path("missing")), "--load " + not_weights,
        "--seq-length 64 --data " + not_weights, std::string("--device cuda --dp 999")}) {
    const Outcome outcome = run_zero1(tiny + outputs + bad);
    CAPTURE(bad);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(folder.read("m.jsonl") == old_metrics);
    CHECK(folder.read("run.trace") == old_trace);
  }
}

TEST_CASE("no output replaces what the run reads, nor another output") {
  const TemporaryFolder folder;
  const std::string text(1000, 'a');
  const std::string data = folder.write("text", text);
  for (const char* flag : {"--metrics ", "--trace ", "--svg ", "--save-weights "}) {
    const Outcome outcome =
        run_zero1(tiny + "--data " + quoted(data) + " " + flag + quoted(folder.path("./text")));
    CAPTURE(flag);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says("--data"));
    CHECK(folder.read("text") == text);
  }
  const Outcome twice =
      run_zero1(tiny + "--svg " + quoted(folder.path("out")) + " --trace " + quoted(folder.path("out")));
  CHECK(twice.status == 2);
  CHECK(run_zero1(tiny + "--svg /dev/null --metrics /dev/null --trace /dev/null").status == 0);
  // Weights may be trained on in place.
  const std::string weights = quoted(folder.path("w.safetensors"));
  CHECK(run_zero1(tiny + "--save-weights " + weights).status == 0);
  CHECK(run_zero1(tiny + "--init " + weights + " --save-weights " + weights).status == 0);
}

TEST_CASE("no output replaces a checkpoint or a file of one") {
  const TemporaryFolder folder;
  const std::string saved = folder.path("ckpt");
  const Outcome same = run_zero1(tiny + "--save " + quoted(saved) + " --svg " + quoted(saved));
  CHECK(same.status == 2);
  CHECK(same.says("--save"));
  REQUIRE(run_zero1(tiny + "--save " + quoted(saved)).status == 0);
  int tried = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(saved)) {
    if (entry.path().extension() != ".h5") continue;
    ++tried;
    const auto bytes = entry.file_size();
    for (const char* flag : {" --load ", " --save "}) {
      const Outcome outcome =
          run_zero1(tiny + flag + quoted(saved) + " --metrics " + quoted(entry.path().string()));
      CAPTURE(outcome.output);
      CHECK(outcome.status == 2);
      CHECK(outcome.says("part of a checkpoint"));
    }
    CHECK(std::filesystem::file_size(entry.path()) == bytes);
  }
  CHECK(tried == 2);
}

TEST_CASE("an output named by a link goes to the file that the link names, and the link stays") {
  const TemporaryFolder folder;
  for (const char* flag : {"--metrics ", "--trace ", "--svg ", "--save-weights "}) {
    const std::string target = folder.write("target", "older");
    const std::string link = folder.path("link");
    std::filesystem::remove(link);
    std::filesystem::create_symlink("target", link);
    CAPTURE(flag);
    CHECK(run_zero1(tiny + flag + quoted(link)).status == 0);
    CHECK(std::filesystem::is_symlink(link));
    CHECK(folder.read("target").size() > 100);
  }
}

TEST_CASE("a flag that is off excludes nothing") {
  const TemporaryFolder folder;
  const std::string off = quoted(folder.write("off.toml", "bf16 = false"));
  CHECK(run_zero1(tiny + "--fp16 --initial-loss-scale 1024 --config " + off).status == 0);
}

TEST_CASE("a failure in one rank ends the program with that rank's message and status 1") {
  const Outcome outcome = run_zero1(tiny + "--dp 3 --check-for-large-grads 1e-9");
  CHECK(outcome.status == 1);
  CHECK(outcome.says("rank "));
  CHECK(outcome.says("--check-for-large-grads"));
}

TEST_CASE("a run that is told to end finishes its iteration, saves, reports, and then ends by the signal") {
  const zero1::test::TemporaryFolder folder;
  const std::string metrics = zero1::test::quoted(folder / "m.jsonl");
  const Outcome outcome = zero1::test::run_command(
      zero1::test::quoted(ZERO1_BIN_DIR "/zero1") +
      " train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --dp 3 "
      "--global-batch-size 3 "
      "--threads-per-rank 1 --train-iters 100000000 --log-interval 0 --metrics " +
      metrics + " --save " + zero1::test::quoted(folder / "saved") + " --save-weights " +
      zero1::test::quoted(folder / "w.safetensors") + " & until test -s " + metrics +
      "; do sleep 0.01; done; kill -TERM $!; wait $!; echo status $?");
  CHECK(outcome.says("stopping after this iteration"));
  CHECK(outcome.says("Final parameters"));
  CHECK(outcome.says("Checkpoints: 1 saved"));
  CHECK(outcome.says("status 143"));  // 128 + SIGTERM
  CHECK(zero1::test::run_zero1("ckpt verify " + zero1::test::quoted(folder / "saved")).status == 0);
  CHECK(std::filesystem::exists(folder / "w.safetensors"));
}

TEST_CASE("waiting OpenMP threads soon sleep, unless the user has said otherwise") {
  const Outcome display = run_command("env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=VERBOSE " +
                                      quoted(ZERO1_BIN_DIR "/zero1") + " --version");
  CHECK(display.status == 0);
  if (!display.says("GOMP_SPINCOUNT")) {
    skip("not GCC's OpenMP");
    return;
  }
  CHECK(display.says("GOMP_SPINCOUNT = '1000'"));
  const Outcome chosen = run_command("OMP_WAIT_POLICY=active OMP_DISPLAY_ENV=VERBOSE " +
                                     quoted(ZERO1_BIN_DIR "/zero1") + " --version");
  CHECK_FALSE(chosen.says("GOMP_SPINCOUNT = '1000'"));
}

TEST_CASE("flags can come from a file") {
  const TemporaryFolder folder;
  const std::string config =
      folder.write("run.toml", "num-layers = 2\nddp-bucket-size = \"3K\"\noverlap-grad-reduce = true\n");
  const Outcome outcome = run_zero1(
      "train --hidden-size 16 --num-attention-heads 2 --seq-length 8 --threads-per-rank 1 "
      "--train-iters 2 --config " +
      quoted(config));
  CAPTURE(outcome.output);
  CHECK(outcome.status == 0);
  CHECK(outcome.says("overlap grad reduce on"));
}

TEST_CASE("a rerun writes the same metrics but for the times, and other seeds do not") {
  const TemporaryFolder folder;
  const auto losses = [&](const std::string& flags) {
    const std::string path = folder.path("m.jsonl");
    REQUIRE(run_zero1(tiny + flags + " --shuffle --log-interval 0 --metrics " + quoted(path)).status == 0);
    std::vector<double> values;
    for (const json& line : lines_of(folder.read("m.jsonl"))) values.push_back(line.at("loss"));
    return values;
  };
  const auto first = losses("--dp 2 --seed 5");
  CHECK(losses("--dp 2 --seed 5") == first);
  CHECK(losses("--dp 2 --seed 6") != first);
}

TEST_CASE("communication and padding are the layout's: every run says the same, and the trace has seen it") {
  const TemporaryFolder folder;
  const std::string trace = quoted(folder.path("run.trace"));
  const auto summary = [&](const std::string& flags) {
    const Outcome outcome = run_zero1(tiny + "--dp 3 --ddp-bucket-size 1000 --log-interval 0 " + flags);
    CAPTURE(outcome.output);
    REQUIRE(outcome.status == 0);
    const std::size_t begin = outcome.output.find("Buckets (");
    const std::size_t end = outcome.output.find("  collectives run");
    REQUIRE(begin < end);
    return outcome.output.substr(begin, end - begin);
  };
  const std::string overlap = "--overlap-grad-reduce --overlap-param-gather ";
  const std::string said = summary(overlap + "--trace " + trace);
  for (int i = 0; i < 3; ++i) CHECK(summary(overlap) == said);
  CHECK(summary("--train-iters 1") == said);  // however the steps' collectives lie in time
  // What a step of one rank has handed in, by the trace of a run that finishes them within the step.
  CHECK(summary("--trace " + trace) == said);
  const json recorded = json::parse(run_zero1("trace summary --json " + trace).output);
  const json& bytes = recorded.at("steps").at(1).at("bytes");
  for (const char* what : {"reduce-scatter", "all-gather"})
    CHECK(said.find(zero1::format_bytes(bytes.at(what).get<std::int64_t>() / 3)) != std::string::npos);
  // Every bucket's padding, between parameters too: the layout's table has the same.
  const std::string table = run_zero1("layout " + trace).output;
  std::int64_t elems = 0, params = 0;
  const std::regex bucket(R"(\[([\d,]+), ([\d,]+)\)  \d+ parameters?, ([\d,]+) padding)");
  const auto number = [](std::string text) {
    std::erase(text, ',');
    return std::stoll(text);
  };
  for (auto it = std::sregex_iterator(said.begin(), said.end(), bucket); it != std::sregex_iterator(); ++it) {
    elems += number((*it)[2]) - number((*it)[1]);
    params += number((*it)[2]) - number((*it)[1]) - number((*it)[3]);
  }
  CHECK_MESSAGE(table.find(zero1::format_count(params) + " elements in") != std::string::npos, table);
  CHECK_MESSAGE(table.find("of which " + zero1::format_count(elems - params)) != std::string::npos, table);
}

TEST_CASE("numbers are taken as help prints them and people write them") {
  CHECK(
      run_zero1(tiny + "--fp16 --initial-loss-scale 2^32 --lr +0.001").says("loss scale dynamic, from 2^32"));
  CHECK(run_zero1(tiny + "--train-iters 1e0 --ddp-bucket-size 1e4 --seed 2^63").status == 0);
  for (const char* flag : {"--lr", "--min-lr", "--weight-decay", "--adam-beta1", "--adam-beta2", "--adam-eps",
                           "--clip-grad", "--loss-scale", "--initial-loss-scale", "--min-loss-scale",
                           "--check-for-large-grads", "--link-gbps", "--link-latency-us"}) {
    for (const char* value : {"-nan", "nan", "inf", "-inf", "+nan", "1e999"}) {
      const Outcome outcome = run_zero1(tiny + flag + " " + value);
      CAPTURE(flag);
      CAPTURE(value);
      CHECK(outcome.status == 2);
      CHECK_MESSAGE(outcome.says(std::string(flag) + ": expected a "), outcome.output);
    }
  }
  const Outcome help = run_zero1("train --help");
  for (const char* says : {"2^32", "130", "143", "* is any text"}) CHECK_MESSAGE(help.says(says), says);
  CHECK(run_zero1("--help").says("130 after Ctrl-C, 143 after SIGTERM"));
}

TEST_CASE("where no GPU is visible, --device cuda ends with status 2 and names --device cpu") {
  const Outcome outcome =
      run_command("CUDA_VISIBLE_DEVICES= " + quoted(ZERO1_BIN_DIR "/zero1") + " " + tiny + "--device cuda");
  CHECK_MESSAGE(outcome.status == 2, outcome.output);
  CHECK_MESSAGE(outcome.says("--device cpu"), outcome.output);
}
