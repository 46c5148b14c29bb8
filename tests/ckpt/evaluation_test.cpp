// Evaluation at the end, the best checkpoint, and runs that are asked to save or to end.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ckpt/checkpoint.h"
#include "tests/ckpt/tiny_run.h"

using namespace zero1;
using namespace zero1::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Text to be validated on, and text on which a run gets better at that, worse, and better again.
struct Texts {
  TemporaryFolder folder;
  std::string valid = "--valid-data " + folder.write("valid", std::string(3000, 'a')) + " --eval-iters 1 ";
  std::string data =
      "--data " +
      folder.write("data", std::string(600, 'a') + std::string(2000, 'b') + std::string(3000, 'a')) + " ";

  std::vector<json> train(const std::string& flags) const {
    const Outcome outcome =
        train_tiny(data + valid + "--lr 0.02 --metrics " + folder.path("m.jsonl") + " " + flags);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.output);
    std::vector<json> steps;
    std::istringstream lines(folder.read("m.jsonl"));
    for (std::string line; std::getline(lines, line);) steps.push_back(json::parse(line));
    return steps;
  }
};

/// The step with the least validation loss.
std::int64_t best_of(const std::vector<json>& steps) {
  const json* best = nullptr;
  for (const json& step : steps) {
    if (!step.contains("valid_loss")) continue;
    if (best == nullptr || step["valid_loss"] < (*best)["valid_loss"]) best = &step;
  }
  REQUIRE(best != nullptr);
  return (*best)["step"];
}

}  // namespace

TEST_CASE("--eval evaluates after the last iteration, and the summary says loss and perplexity") {
  const Texts texts;
  for (const char* interval : {"", "--eval-interval 2 ", "--eval-interval 5 "}) {
    CAPTURE(interval);
    const std::vector<json> steps = texts.train(std::string("--train-iters 5 --eval ") + interval);
    REQUIRE(steps.size() == 5);
    for (const json& step : steps) {
      const std::int64_t number = step["step"];
      const bool due =
          number == 5 || (std::string(interval).find('2') != std::string::npos && number % 2 == 0);
      CHECK(step.contains("valid_loss") == due);
      if (due)
        CHECK(step["valid_perplexity"].get<double>() ==
              doctest::Approx(std::exp(step["valid_loss"].get<double>())).epsilon(1e-12));
    }
    const Outcome outcome =
        train_tiny(texts.data + texts.valid + "--lr 0.02 --train-iters 5 --eval " + interval);
    const double loss = steps.back()["valid_loss"];
    CHECK_MESSAGE(
        outcome.says(fmt::format("\nValidation loss {:.4f}, perplexity {:.4g}\n", loss, std::exp(loss))),
        outcome.output);
  }
  const Outcome earlier = train_tiny(texts.valid + "--train-iters 5 --eval-interval 2");
  CHECK_MESSAGE(earlier.says(" (after step 4)\n"), earlier.output);
  CHECK(train_tiny("--train-iters 1 --eval").says("--eval needs --valid-data FILE"));
  CHECK(train_tiny("--train-iters 1 " + texts.valid).says("--valid-data needs --eval-interval N, or --eval"));
}

TEST_CASE("--save-best: `best` names the least validation loss, and a run that goes on compares with it") {
  const Texts texts;
  const std::string root = texts.folder.path("run");
  const std::string best = "--eval-interval 1 --save-best --save " + root + " ";
  const std::vector<json> steps = texts.train("--train-iters 20 " + best + "--keep-last 1");
  const std::int64_t expected = best_of(steps);
  REQUIRE(expected < 19);  // it has got worse, and what was saved since is not the best one
  CHECK(ckpt::linked_step(root, ckpt::best_name) == expected);
  CHECK(ckpt::published_steps(root) == Steps{expected, 20});
  const ckpt::Checkpoint saved(root + "/best");
  CHECK(saved.state().step == expected);
  CHECK(saved.state().valid_loss ==
        steps[static_cast<std::size_t>(expected - 1)]["valid_loss"].get<double>());
  CHECK(saved.state().best == ckpt::BestCheckpoint{expected, *saved.state().valid_loss});
  CHECK(ckpt::Checkpoint(root).state().best == saved.state().best);

  const Outcome shown = run_zero1("ckpt inspect " + root);
  CHECK_MESSAGE(shown.says(fmt::format("best so far   step {}, validation loss", expected)), shown.output);
  CHECK(run_zero1("ckpt inspect " + root + "/best").says("best so far   this one, validation loss"));
  CHECK(run_zero1("ckpt inspect --json " + root).says("\"valid_loss\""));

  // Worse than the best one: nothing new, and the best one stays beside what the run was loaded from.
  texts.train("--train-iters 22 " + best + "--keep-last 1 --load " + root);
  CHECK(ckpt::linked_step(root, ckpt::best_name) == expected);
  CHECK(ckpt::published_steps(root) == Steps{expected, 20, 22});
  // From the best one: worse, and then better.
  const Outcome better = train_tiny(texts.data + texts.valid + best +
                                    "--lr 0.02 --train-iters 60 --keep-last 1 --load " + root + "/best");
  CHECK_MESSAGE(better.status == 0, better.output);
  CHECK_MESSAGE(better.says(fmt::format("Going on from {}/best: step {}", root, expected)), better.output);
  const ckpt::Checkpoint new_best(root + "/best");
  CHECK(new_best.state().step > 22);
  CHECK(*new_best.state().valid_loss < *saved.state().valid_loss);
  CHECK_MESSAGE(better.says(fmt::format("Best: {}/best, step {}", root, new_best.state().step)),
                better.output);
  CHECK(fs::exists(root + "/" + ckpt::step_folder_name(expected)));  // what it was loaded from
}

TEST_CASE("a run that replaces the step that `best` names moves the link or takes it away") {
  const Texts texts;
  const std::string root = texts.folder.path("run");
  const std::int64_t best =
      best_of(texts.train("--train-iters 12 --eval-interval 1 --save-best --save-interval 1 --save " + root));
  REQUIRE(best > 1);
  REQUIRE(ckpt::linked_step(root, ckpt::best_name) == best);
  // A new run, which does not look for a best one, saves that step.
  texts.train(fmt::format("--train-iters {} --seed 3 --eval --save {}", best, root));
  CHECK(!fs::exists(fs::symlink_status(root + "/best")));
}

TEST_CASE("--save-best needs evaluations and a folder") {
  const Texts texts;
  CHECK(train_tiny("--save-best --save " + texts.folder.path("run")).says("--save-best needs evaluations"));
  CHECK(train_tiny(texts.valid + "--eval --save-best").says("needs --save DIR"));
  CHECK(!fs::exists(texts.folder.path("run")));
}

TEST_CASE("SIGUSR1 saves after the iteration, and the run goes on; without --save it says so") {
  const TemporaryFolder folder;
  const std::string log = quoted(folder.path("log"));
  const Outcome outcome = run_script(
      folder, "begin; RUN=$!; kill -USR1 $RUN; until grep -q 'zero1: saved' " + log +
                  "; do sleep 0.01; done; readlink $SAVE/latest; $ZERO1 ckpt verify $SAVE; echo verify $?\n"
                  "FIRST=$(readlink $SAVE/latest); kill -USR1 $RUN\n"
                  "until test $(readlink $SAVE/latest) != $FIRST; do sleep 0.01; done\n"
                  "kill -TERM $RUN; wait $RUN; echo run $?; cat " +
                  log);
  CAPTURE(outcome.output);
  CHECK(outcome.says("zero1: SIGUSR1: saving after this iteration"));
  CHECK(outcome.says("verify 0"));
  CHECK(outcome.says("run 143"));
  CHECK(outcome.says("Checkpoints: 3 saved"));

  const std::string metrics = quoted(folder.path("m.jsonl"));
  const Outcome nowhere =
      run_script(folder, "$TRAIN --train-iters 100000000 --metrics " + metrics + " & until test -s " +
                             metrics + "; do sleep 0.01; done; kill -USR1 $!; BEFORE=$(wc -l < " + metrics +
                             "); until test $(wc -l < " + metrics +
                             ") -gt $BEFORE; do sleep 0.01; done; kill -TERM $!; wait $!; echo status $?");
  CHECK_MESSAGE(nowhere.says("SIGUSR1 saves a checkpoint, but without --save DIR there is no place for it"),
                nowhere.output);
  CHECK(nowhere.says("status 143"));
}

TEST_CASE("--exit-duration-in-mins ends the run in order, saved, with status 0") {
  const TemporaryFolder folder;
  const std::string root = folder.path("run");
  const Outcome outcome = train_tiny("--train-iters 100000000 --exit-duration-in-mins 1e-9 --save " + root);
  CAPTURE(outcome.output);
  CHECK(outcome.status == 0);
  CHECK(
      outcome.says("Ended after step 1 of 100000000: the 1e-09 minutes of --exit-duration-in-mins are over"));
  CHECK(outcome.says("go on with --load " + root));
  CHECK(ckpt::published_steps(root) == Steps{1});
  const Outcome longer =
      train_tiny("--train-iters 100000000 --exit-duration-in-mins 0.002 --log-interval 1 --load " + root);
  CHECK(longer.status == 0);
  CHECK_MESSAGE(longer.says("Ended after step "), longer.output);
  CHECK(longer.says("step         2/100000000"));
  CHECK(
      !train_tiny("--train-iters 1 --exit-duration-in-mins 1e-9").says("Ended after"));  // as it would anyway
  for (const char* value : {"0", "-1", "nan", "soon"})
    CHECK(train_tiny(std::string("--exit-duration-in-mins ") + value).status == 2);
}
