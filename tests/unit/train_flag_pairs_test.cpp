// Every pair of flags of `zero1 train`: what one of them would change is done, or refused with both named.
#include "apps/zero1/train_flag_pairs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

using namespace zero1;

namespace {

/// A flag with a value, and the flags one of which it cannot do without.
struct Flag {
  const char* words;
  std::vector<const char*> needs;

  std::string name() const { return std::string(words).substr(0, std::string(words).find(' ')); }
};

const std::vector<Flag> flags{
    {"--model mlp", {}},
    {"--num-layers 2", {}},
    {"--hidden-size 16", {}},
    {"--num-attention-heads 2", {}},
    {"--seq-length 8", {}},
    {"--max-position-embeddings 200", {}},
    {"--bf16", {}},
    {"--fp16", {}},
    {"--init w.safetensors", {}},
    {"--seed 1", {}},
    {"--data d", {}},
    {"--shuffle", {}},
    {"--vocab-size 300", {}},
    {"--make-vocab-size-divisible-by 8", {}},
    {"--token-dtype uint8", {"--data"}},
    {"--dp 2", {}},
    {"--micro-batch-size 2", {}},
    {"--global-batch-size 4", {}},
    {"--rampup-batch-size 4 4 10 --global-batch-size 16", {}},
    {"--train-iters 3", {}},
    {"--valid-data v", {"--eval-interval", "--eval"}},
    {"--eval-interval 1", {"--valid-data"}},
    {"--eval", {"--valid-data"}},
    {"--eval-iters 1", {"--valid-data"}},
    {"--lr 0.1", {}},
    {"--min-lr 0.0001", {"--lr-decay-style", "--lr-wsd-decay-iters", "--lr-wsd-decay-style"}},
    {"--lr-warmup-iters 1", {}},
    {"--lr-decay-style linear", {}},
    {"--lr-decay-iters 2",
     {"--lr-decay-style", "--lr-warmup-iters", "--lr-wsd-decay-iters", "--lr-wsd-decay-style"}},
    {"--lr-wsd-decay-iters 1 --lr-decay-style WSD", {}},
    {"--lr-wsd-decay-style cosine --lr-wsd-decay-iters 1 --lr-decay-style WSD", {}},
    {"--weight-decay 0.1", {}},
    {"--adam-beta1 0.8", {}},
    {"--adam-beta2 0.9", {}},
    {"--adam-eps 1e-6", {}},
    {"--clip-grad 2", {}},
    {"--param-group wte*:lr_mult=2", {}},
    {"--loss-scale 8", {"--fp16"}},
    {"--initial-loss-scale 8", {"--fp16"}},
    {"--min-loss-scale 2", {"--fp16"}},
    {"--loss-scale-window 5", {"--fp16"}},
    {"--hysteresis 3", {"--fp16"}},
    {"--no-use-distributed-optimizer", {}},
    {"--overlap-grad-reduce", {}},
    {"--overlap-param-gather", {"--overlap-grad-reduce"}},
    {"--ddp-bucket-size 1000", {}},
    {"--ddp-num-buckets 3", {}},
    {"--ddp-pad-buckets-for-high-nccl-busbw", {}},
    {"--ddp-average-in-collective", {}},
    {"--grad-reduce-in-bf16", {"--bf16", "--fp16"}},
    {"--no-check-for-nan-in-loss-and-grad", {}},
    {"--check-for-large-grads 5", {}},
    {"--force-all-reduce", {}},
    {"--device cuda", {}},
    {"--comm local", {}},
    {"--tf32", {"--device"}},
    {"--threads-per-rank 1", {}},
    {"--link-gbps 1", {}},
    {"--link-latency-us 1", {}},
    {"--save-weights o.safetensors", {}},
    {"--metrics m.jsonl", {}},
    {"--tensorboard-dir b", {}},
    {"--trace t", {}},
    {"--svg s.svg", {}},
    {"--log-interval 2", {}},
    {"--save s", {}},
    {"--save-interval 1", {"--save"}},
    {"--keep-last 1", {"--save"}},
    {"--async-save", {"--save"}},
    {"--save-best", {"--save"}},
    {"--exit-duration-in-mins 1", {}},
    {"--load l", {}},
    {"--no-strict", {"--load"}},
    {"--load-weights-only", {"--load"}},
    {"--allow-change seq-length", {"--load"}},
    {"--rename a=b", {"--load", "--init"}},
    {"--exclude x", {"--load", "--init"}},
    {"--transpose x", {"--load", "--init"}},
    {"--no-transpose x", {"--load", "--init"}},
    {"--use-checkpoint-opt_param-scheduler", {"--load"}},
    {"--override-opt_param-scheduler", {"--load"}},
    {"--ckpt-step 1", {"--load"}},
};

/// Of each of these pairs one flag would undo or ignore the other.
const std::vector<std::pair<std::string, std::string>> contradictions{
    {"--bf16", "--fp16"},
    {"--init", "--load"},
    {"--use-checkpoint-opt_param-scheduler", "--override-opt_param-scheduler"},
    {"--use-checkpoint-opt_param-scheduler", "--load-weights-only"},
    {"--override-opt_param-scheduler", "--load-weights-only"},
    {"--loss-scale", "--initial-loss-scale"},
    {"--loss-scale", "--min-loss-scale"},
    {"--loss-scale", "--loss-scale-window"},
    {"--loss-scale", "--hysteresis"},
    {"--model", "--num-attention-heads"},
    {"--model", "--max-position-embeddings"},
    {"--ddp-bucket-size", "--ddp-num-buckets"},
    {"--no-use-distributed-optimizer", "--overlap-param-gather"},
    {"--tf32", "--bf16"},
    {"--tf32", "--fp16"},
    {"--device", "--threads-per-rank"},
    {"--device", "--link-gbps"},
    {"--device", "--link-latency-us"},
};

const Flag& find(const std::string& name) {
  const auto found =
      std::find_if(flags.begin(), flags.end(), [&](const Flag& f) { return f.name() == name; });
  REQUIRE_MESSAGE(found != flags.end(), name);
  return *found;
}

/// Adds a flag with the first of what it needs, and what that needs.
void add_with_needs(std::map<std::string, std::string>& words, const Flag& flag) {
  if (!words.emplace(flag.name(), flag.words).second || flag.needs.empty()) return;
  const auto met = [&](const char* need) { return words.count(need) > 0; };
  if (std::none_of(flag.needs.begin(), flag.needs.end(), met))
    add_with_needs(words, find(flag.needs.front()));
}

struct Parsed {
  std::string refusal;  ///< empty: accepted
  std::vector<std::string> notes;
};

Parsed parse(const std::string& words) {
  CLI::App cmd;
  cmd.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app::TrainOptions options;
  app::add_train_flags(cmd, options);
  try {
    cmd.parse(words);
    app::complete_train_flags(cmd, options);
    app::train_config(options);
  } catch (const CLI::Error& error) {
    return {error.what(), {}};
  } catch (const InputError& error) {
    return {error.what(), {}};
  }
  return {"", options.notes};
}

bool names(const std::string& refusal, const std::string& flag) {
  return refusal.find(flag) != std::string::npos;
}

}  // namespace

TEST_CASE("the table has every flag") {
  CLI::App cmd;
  app::TrainOptions options;
  app::add_train_flags(cmd, options);
  std::set<std::string> known{"--help", "--config"};
  for (const Flag& flag : flags) known.insert(flag.name());
  for (const CLI::Option* option : cmd.get_options()) {
    bool in_table = false;
    for (const std::string& name : option->get_lnames()) in_table = in_table || known.count("--" + name) > 0;
    CHECK_MESSAGE(in_table, option->get_name() << " is missing in the table of this test");
  }
}

TEST_CASE("a flag that another must accompany is refused alone and beside every flag but that") {
  for (const Flag& flag : flags) {
    if (flag.needs.empty()) continue;
    for (const Flag& other : flags) {
      const auto is_other = [&](const char* need) { return other.name() == need; };
      if (std::any_of(flag.needs.begin(), flag.needs.end(), is_other) || other.name() == flag.name())
        continue;
      const std::string words = std::string(flag.words) + " " + other.words;
      const std::string refusal = parse(words).refusal;
      CHECK_MESSAGE(refusal != "", words);
    }
    const std::string refusal = parse(flag.words).refusal;
    CHECK_MESSAGE(names(refusal, flag.name()), refusal);
    CHECK_MESSAGE(names(refusal, flag.needs.front()), refusal);
  }
}

TEST_CASE("each pair of flags is accepted, with what they need, or one of the two is refused") {
  for (std::size_t i = 0; i < flags.size(); ++i) {
    for (std::size_t j = i + 1; j < flags.size(); ++j) {
      std::map<std::string, std::string> given{{flags[i].name(), flags[i].words},
                                               {flags[j].name(), flags[j].words}};
      for (const std::size_t k : {i, j}) {
        given.erase(flags[k].name());
        add_with_needs(given, flags[k]);
      }
      std::string words;
      for (const auto& [name, text] : given) words += text + " ";
      const std::string refusal = parse(words).refusal;
      bool expected = false;
      bool named = false;
      for (const auto& [a, b] : contradictions) {
        if (given.count(a) == 0 || given.count(b) == 0) continue;
        if (a == "--init" && given.count("--no-strict") > 0) continue;  // gives what the checkpoint lacks
        expected = true;
        named = named || (names(refusal, a) && names(refusal, b)) ||
                (a[2] == 'n' && names(refusal, b) && names(refusal, a.substr(5)));  // --no-X by way of --X
      }
      CHECK_MESSAGE(!refusal.empty() == expected, words << ": " << refusal);
      if (expected) CHECK_MESSAGE(named, words << ": " << refusal);
    }
  }
}

TEST_CASE("flags that other values of the same flags would use are told, not refused") {
  const struct {
    const char* words;
    const char* note;
  } cases[] = {
      {"--link-gbps 1", "--link-gbps changes nothing at --dp 1"},
      {"--link-latency-us 1", "--link-latency-us changes nothing at --dp 1"},
      {"--overlap-grad-reduce --overlap-param-gather", "--overlap-param-gather changes nothing at --dp 1"},
      {"--force-all-reduce", "--force-all-reduce changes nothing at --dp 1"},
      {"--ddp-average-in-collective", "--ddp-average-in-collective changes nothing at --dp 1"},
      {"--dp 2 --fp16 --initial-loss-scale 8 --load l", "--initial-loss-scale changes nothing with --load"},
      {"--dp 2 --valid-data v --eval-interval 200", "--eval-interval is larger than --train-iters"},
      {"--dp 2 --seed 3 --data d --init w", "--seed changes nothing"},
  };
  for (const auto& c : cases) {
    const Parsed parsed = parse(c.words);
    CHECK_MESSAGE(parsed.refusal == "", c.words);
    REQUIRE_MESSAGE(parsed.notes.size() == 1, c.words);
    CHECK(names(parsed.notes.front(), c.note));
  }
  for (const char* quiet :
       {"", "--dp 2 --link-gbps 1 --force-all-reduce", "--seed 3", "--seed 3 --data d --init w --shuffle",
        "--fp16 --initial-loss-scale 8", "--fp16 --initial-loss-scale 8 --load l --load-weights-only"})
    CHECK_MESSAGE(parse(quiet).notes.empty(), quiet);
  // Beside --no-strict, --init gives what the checkpoint lacks; a checkpoint's schedule may decay.
  CHECK(parse("--init w --load l --no-strict").refusal == "");
  for (const char* alone : {"--lr-wsd-decay-iters 1", "--lr-wsd-decay-style cosine"})
    CHECK_MESSAGE(names(parse(alone).refusal, "needs --lr-decay-style WSD"), alone);
  CHECK(parse("--async-save=false --fp16=false --overlap-param-gather=false").refusal == "");
  CHECK(parse("--min-lr 0.0001 --load l --use-checkpoint-opt_param-scheduler").refusal == "");
}
