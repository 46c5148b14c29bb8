// zero1 train --save/--load and zero1 ckpt, as people call them.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "tests/ckpt/python.h"
#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

const std::string tiny =
    "train --num-layers 1 --hidden-size 12 --num-attention-heads 3 --seq-length 8 --threads-per-rank 1 "
    "--global-batch-size 12 --log-interval 0 ";

std::string final_params(const test::Outcome& outcome) {
  const std::size_t at = outcome.output.find("Final parameters ");
  REQUIRE_MESSAGE(at != std::string::npos, outcome.output);
  return outcome.output.substr(at, 34);
}

}  // namespace

TEST_CASE("train, stop, reshard there and back, go on: the same parameters") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  const std::string expected = final_params(test::run_zero1(tiny + "--dp 2 --train-iters 6"));
  const test::Outcome saved = test::run_zero1(tiny + "--dp 2 --train-iters 4 --save " + root +
                                              " --save-interval 1 --keep-last 2 --async-save");
  CHECK_MESSAGE(saved.says("4 saved, the last is " + root + "/step_00000004"), saved.output);
  CHECK(!std::filesystem::exists(root + "/step_00000002"));

  const test::Outcome inspected = test::run_zero1("ckpt inspect " + root);
  CHECK(inspected.status == 0);
  CHECK(inspected.says("h.0.attn.c_attn.weight"));
  CHECK(test::run_zero1("ckpt inspect --json " + root).says("\"dp_size\": 2"));
  CHECK(test::run_zero1("ckpt inspect " + root + " --param wte.weight").says("rank_00001.h5"));
  CHECK(test::run_zero1("ckpt inspect " + root + " --param nothing").status == 2);

  CHECK(test::run_zero1("ckpt reshard --dry-run " + root + " " + folder.path("x") + " --dp 5")
            .says("rank_00004.h5 <-"));
  CHECK(!std::filesystem::exists(folder.path("x")));
  CHECK(test::run_zero1("ckpt reshard " + root + " " + folder.path("five") + " --dp 5 --workers 3").status ==
        0);
  CHECK(test::run_zero1("ckpt verify " + folder.path("five")).status == 0);
  CHECK(test::run_zero1("ckpt diff --bitwise " + root + " " + folder.path("five")).output.empty());
  CHECK(test::run_zero1("ckpt reshard " + folder.path("five") + " " + folder.path("two") +
                        " --dp 2 --bucket-size 1000")
            .status == 0);
  CHECK(final_params(test::run_zero1(tiny + "--dp 2 --train-iters 6 --load " + folder.path("two"))) ==
        expected);
}

TEST_CASE("a run that saves where another has been further is told so") {
  const test::TemporaryFolder folder;
  const std::string save = tiny + "--dp 2 --save " + folder.path("run");
  const std::string note = "/run has checkpoints up to step 4 already";
  CHECK(!test::run_zero1(save + " --train-iters 4").says("has checkpoints"));
  CHECK(!test::run_zero1(save + " --train-iters 5 --load " + folder.path("run")).says("has checkpoints"));
  std::filesystem::remove_all(folder.path("run/step_00000005"));
  CHECK(test::run_zero1(save + " --train-iters 2").says(note));
  CHECK(test::run_zero1(save + " --train-iters 3 --load " + folder.path("run")).says(note));
}

TEST_CASE("differences are listed, faults are named") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  REQUIRE(test::run_zero1(tiny + "--dp 3 --train-iters 2 --save-interval 1 --save " + root).status == 0);
  const std::string one = root + "/step_00000001";
  const std::string two = root + "/step_00000002";
  const test::Outcome different = test::run_zero1("ckpt diff " + one + " " + two);
  CHECK(different.status == 1);
  CHECK(different.says("max abs"));
  CHECK(different.says("wte.weight"));
  CHECK(test::run_zero1("ckpt diff -d 1e9 " + one + " " + two).status == 0);
  CHECK(test::run_zero1("ckpt diff " + one + " " + folder.path("none")).status == 2);

  CHECK(test::run_zero1("ckpt gather " + two + " " + folder.path("all.h5")).status == 0);
  CHECK(test::run_zero1("ckpt export " + two + " " + folder.path("all.safetensors")).status == 0);
  CHECK(test::run_zero1("ckpt import " + folder.path("all.safetensors") + " " + folder.path("in") + " --dp 2")
            .status == 0);
  CHECK(test::run_zero1("ckpt diff " + two + " " + folder.path("in")).output.empty());

  std::filesystem::resize_file(two + "/rank_00001.h5", 1000);
  const test::Outcome verified = test::run_zero1("ckpt verify " + root);
  CHECK(verified.status == 1);
  CHECK(verified.says("rank_00001.h5: 1,000 bytes"));
  const test::Outcome loaded = test::run_zero1(tiny + "--dp 3 --train-iters 5 --load " + root);
  CHECK(loaded.status == 2);
  CHECK(loaded.says("rank_00001.h5: 1,000 bytes, where "));

  std::filesystem::create_directory(root + "/.tmp-step_00000003.1.0");
  CHECK(test::run_zero1("ckpt inspect " + root).says("left behind by a run that was killed"));
  CHECK(test::run_zero1("ckpt clean " + root).says("removed"));
  CHECK(!std::filesystem::exists(root + "/.tmp-step_00000003.1.0"));
  CHECK(test::run_zero1("train --train-iters 1 --save-interval 3").status == 2);
}

TEST_CASE("a flipped byte is refused by whatever reads, by file and slice") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  REQUIRE(test::run_zero1(tiny + "--dp 2 --train-iters 2 --save " + root).status == 0);
  const std::string rank1 = folder.read("run/step_00000002/rank_00001.h5");
  std::string flipped = rank1;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  folder.write("run/step_00000002/rank_00001.h5", flipped);
  const std::string part = "rank_00001.h5: /buffers/0/buckets/0/exp_avg: its bytes are not those";
  const std::string copy = folder.path("copy");
  for (const std::string& command :
       {tiny + "--dp 2 --train-iters 3 --load " + root, tiny + "--dp 3 --train-iters 3 --load " + root,
        "ckpt reshard " + root + " " + copy + " --dp 3", "ckpt gather " + root + " " + copy + ".h5",
        "ckpt export " + root + " " + copy + ".safetensors", "ckpt diff " + root + " " + root}) {
    const test::Outcome outcome = test::run_zero1(command);
    CHECK_MESSAGE(outcome.status == 2, command << ": " << outcome.output);
    CHECK_MESSAGE(outcome.says(part), outcome.output);
  }
  CHECK(folder.count() == 1);  // nothing of the copies
  // Weights alone do not need what is broken.
  CHECK(test::run_zero1(tiny + "--dp 2 --train-iters 3 --load-weights-only --load " + root).status == 0);
}

TEST_CASE("a run that goes on with other hyperparameters must say which side wins") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  const std::string cosine = tiny + "--dp 2 --lr 0.01 --lr-decay-style cosine --lr-decay-iters 8 ";
  REQUIRE(test::run_zero1(cosine + "--train-iters 4 --save " + root).status == 0);
  const std::string expected = final_params(test::run_zero1(cosine + "--train-iters 6"));
  CHECK(final_params(test::run_zero1(cosine + "--train-iters 6 --load " + root)) == expected);

  const std::string plain = tiny + "--dp 2 --train-iters 6 --load " + root;
  const test::Outcome refused = test::run_zero1(plain);
  CHECK(refused.status == 2);
  CHECK_MESSAGE(refused.says("--lr: 0.0005 here, 0.01 in the checkpoint"), refused.output);
  CHECK(refused.says("--lr-decay-style: constant here, cosine in the checkpoint"));
  const test::Outcome stored = test::run_zero1(plain + " --use-checkpoint-opt_param-scheduler");
  CHECK(final_params(stored) == expected);
  CHECK(stored.says("the checkpoint's value is taken"));
  const test::Outcome overridden = test::run_zero1(plain + " --override-opt_param-scheduler");
  CHECK(overridden.says("the flag's value is taken"));
  CHECK(final_params(overridden) != expected);
  CHECK(test::run_zero1(plain + " --override-opt_param-scheduler --use-checkpoint-opt_param-scheduler")
            .status == 2);
  CHECK(test::run_zero1("train --train-iters 1 --override-opt_param-scheduler").status == 2);
}

TEST_CASE("safetensors in shards with an index, as Hugging Face's libraries read them, and back") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  REQUIRE(test::run_zero1(tiny + "--dp 2 --train-iters 1 --save " + root).status == 0);
  std::filesystem::create_directory(folder.path("out"));
  const std::string target = folder.path("out/model.safetensors");
  const test::Outcome outcome =
      test::run_zero1("ckpt gather " + root + " " + target + " --max-shard-size 10KiB");
  REQUIRE_MESSAGE(outcome.status == 0, outcome.output);
  CHECK(outcome.says("out/model-00001-of-0"));
  CHECK(!std::filesystem::exists(target));

  // What transformers does with an index, in plain Python.
  const std::string python = test::python_with("json");
  if (!python.empty()) {
    const std::string script = folder.write("check.py", R"(
import json, math, os, struct, sys
folder = sys.argv[1]
index = json.load(open(folder + '/model.safetensors.index.json'))
shards = sorted(set(index['weight_map'].values()))
assert shards == ['model-%05d-of-%05d.safetensors' % (i + 1, len(shards)) for i in range(len(shards))], shards
assert sorted(os.listdir(folder)) == shards + ['model.safetensors.index.json']
total, seen = 0, {}
for shard in shards:
    data = open(folder + '/' + shard, 'rb').read()
    header = json.loads(data[8:8 + struct.unpack('<Q', data[:8])[0]])
    assert header.pop('__metadata__')['format'] == 'pt'
    size = sum(t['data_offsets'][1] - t['data_offsets'][0] for t in header.values())
    assert size <= 10240 or len(header) == 1, (shard, size)
    total += size
    for name in header:
        assert name not in seen and index['weight_map'][name] == shard
        seen[name] = header[name]
assert set(seen) == set(index['weight_map']) and total == index['metadata']['total_size']
assert 'wte.weight' in seen and seen['wte.weight.exp_avg']['dtype'] == 'F32'
)");
    const test::Outcome checked = test::run_command(python + " " + script + " " + folder.path("out"));
    CHECK_MESSAGE(checked.status == 0, checked.output);
  }
  const test::Outcome imported =
      test::run_zero1("ckpt import " + target + ".index.json " + folder.path("back") + " --dp 3");
  REQUIRE_MESSAGE(imported.status == 0, imported.output);
  CHECK(test::run_zero1("ckpt diff --bitwise " + root + " " + folder.path("back")).output.empty());

  CHECK(test::run_zero1("ckpt gather " + root + " " + target + " --max-shard-size 10KiB")
            .says("is there already"));
  CHECK(
      test::run_zero1("ckpt gather " + root + " " + folder.path("x.h5") + " --max-shard-size 1MiB").status ==
      2);
  // One file is enough: no index.
  const std::string one = folder.path("one.safetensors");
  CHECK(test::run_zero1("ckpt gather --model-only --dtype bfloat16 --max-shard-size 1GB " + root + " " + one)
            .status == 0);
  CHECK(std::filesystem::exists(one));
  CHECK(!std::filesystem::exists(one + ".index.json"));

  // An index that lies.
  const std::string index = folder.read("out/model.safetensors.index.json");
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string lie = index;
    const std::size_t at = lie.find(from);
    REQUIRE(at != std::string::npos);
    folder.write("out/lie.json", lie.replace(at, from.size(), to));
    const test::Outcome each =
        test::run_zero1("ckpt import " + folder.path("out/lie.json") + " " + folder.path("lie") + " --dp 1");
    CHECK_MESSAGE(each.status == 2, each.output);
    CHECK(!std::filesystem::exists(folder.path("lie")));
  };
  refused("\"wte.weight\"", "\"wte.heavy\"");
  refused("\"model-00001", "\"../model-00001");
  refused("\"weight_map\": {", "\"weight_map\": [");
}

TEST_CASE("what to load can be chosen: the step, names, what fits, weights alone") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  REQUIRE(test::run_zero1(tiny + "--dp 2 --train-iters 3 --save-interval 1 --save " + root).status == 0);
  const std::string load = "--dp 2 --load " + root + " ";
  CHECK(test::run_zero1(tiny + "--train-iters 4 --ckpt-step 1 " + load).says("step 1, saved at dp 2"));
  CHECK(test::run_zero1(tiny + "--train-iters 4 --ckpt-step 9 " + load).says("there are: 1, 2, 3"));

  // One layer more, and one name that is not the model's.
  const std::string deeper = tiny + "--num-layers 2 --train-iters 4 " + load;
  const std::string rename = " --rename h.0.ln_1.bias=h.1.ln_1.bias";
  const test::Outcome refused = test::run_zero1(deeper);
  CHECK(refused.status == 2);
  CHECK(refused.says("missing: h.1.attn.c_attn.weight"));
  const test::Outcome odd =
      test::run_zero1(tiny + "--train-iters 4 " + load + "--rename wte.weight=odd.weight");
  CHECK(odd.status == 2);
  CHECK(odd.says("missing: wte.weight"));
  CHECK(odd.says("unexpected: odd.weight"));
  const test::Outcome loose = test::run_zero1(deeper + "--no-strict --load-weights-only" + rename);
  CHECK_MESSAGE(loose.status == 0, loose.output);
  CHECK(loose.says("not in the checkpoint: h.0.ln_1.bias"));
  CHECK(!loose.says("not in the checkpoint: h.1.ln_1.bias"));
  const test::Outcome weights =
      test::run_zero1(tiny + "--lr 0.5 --train-iters 1 --load-weights-only " + load);
  CHECK_MESSAGE(weights.status == 0, weights.output);
}

TEST_CASE("--no-strict tells what the checkpoint lacks and what it has beyond the model, always") {
  const test::TemporaryFolder folder;
  const std::string deep = folder.path("deep");
  const std::string flat = folder.path("flat");
  const std::string deeper = tiny + "--num-layers 2 --dp 2 ";
  REQUIRE(test::run_zero1(deeper + "--train-iters 2 --save " + deep).status == 0);
  REQUIRE(test::run_zero1(tiny + "--dp 2 --train-iters 2 --save " + flat).status == 0);
  for (const char* weights_only : {"", " --load-weights-only"}) {
    CAPTURE(weights_only);
    const std::string rest = std::string(" --train-iters 3 --no-strict --log-interval 0") + weights_only;
    const test::Outcome dropped = test::run_zero1(tiny + "--dp 2 --load " + deep + rest);
    CHECK_MESSAGE(dropped.status == 0, dropped.output);
    CHECK_MESSAGE(dropped.says("not in the model: h.1.attn.c_attn.weight"), dropped.output);
    CHECK(dropped.says("not in the model: h.1.ln_1.bias"));
    CHECK(!dropped.says("not in the model: h.0."));
    CHECK(!dropped.says("not in the checkpoint"));
  }
  const test::Outcome added =
      test::run_zero1(deeper + "--train-iters 3 --no-strict --load-weights-only --load " + flat);
  CHECK_MESSAGE(added.says("not in the checkpoint: h.1.mlp.c_fc.bias"), added.output);
  CHECK(!added.says("not in the model"));
  const test::Outcome both = test::run_zero1(tiny + "--dp 2 --train-iters 3 --no-strict --load " + flat +
                                             " --load-weights-only --rename 'h\\.0\\.(.*)=block.\\1'");
  CHECK_MESSAGE(both.says("not in the model: block.ln_1.weight"), both.output);
  CHECK(both.says("not in the checkpoint: h.0.ln_1.weight"));
  CHECK(both.says("renamed: 12 tensors"));
  // Said where it helps, and only there.
  CHECK(test::run_zero1(tiny + "--dp 2 --train-iters 3 --load " + deep).says("with --no-strict"));
  const test::Outcome other_shape =
      test::run_zero1(tiny + "--seq-length 9 --dp 2 --train-iters 3 --load " + deep);
  CHECK(other_shape.says("wpe.weight: shape [8, 12], expected [9, 12]"));
  CHECK_MESSAGE(!other_shape.says("with --no-strict"), other_shape.output);
}

TEST_CASE("names, orientation and what to leave out are said alike to export, --load and --init") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  const std::string file = folder.path("hf.safetensors");
  REQUIRE(test::run_zero1(tiny + "--dp 2 --train-iters 2 --save " + root).status == 0);
  const std::string conv1d = " --transpose '.*\\.(c_attn|c_fc|c_proj)\\.weight' ";
  REQUIRE(test::run_zero1("ckpt export --dtype float32 " + root + " " + file +
                          " --rename '(.*)=transformer.\\1'" + conv1d)
              .status == 0);
  const std::string back = " --rename 'transformer\\.(.*)=\\1'" + conv1d;
  const std::string fresh = tiny + "--dp 2 --train-iters 1 --lr 0.001 ";
  const std::string expected = final_params(test::run_zero1(fresh + "--load-weights-only --load " + root));
  const test::Outcome bare = test::run_zero1(fresh + "--init " + file + " --exclude '.*\\.exp_avg(_sq)?'");
  CHECK(bare.status == 2);
  CHECK_MESSAGE(bare.says("--rename 'transformer\\.(.*)=\\1'"), bare.output);
  const test::Outcome init =
      test::run_zero1(fresh + "--init " + file + back + " --exclude '.*\\.exp_avg(_sq)?'");
  CHECK_MESSAGE(init.says("left out by --exclude: 32 tensors"), init.output);
  CHECK(final_params(init) == expected);

  // A checkpoint in the file's names and orientation.
  const std::string foreign = folder.path("foreign");
  REQUIRE(test::run_zero1("ckpt import " + file + " " + foreign).status == 0);
  CHECK(final_params(test::run_zero1(fresh + "--load-weights-only --load " + foreign + back)) == expected);
  CHECK(final_params(test::run_zero1(tiny + "--dp 3 --train-iters 4 --load " + foreign + back)) ==
        final_params(test::run_zero1(tiny + "--dp 3 --train-iters 4 --load " + root)));
  const test::Outcome undecided =
      test::run_zero1(fresh + "--load " + foreign + " --rename 'transformer\\.(.*)=\\1'" +
                      " --transpose '.*\\.(c_attn|c_fc|mlp\\.c_proj)\\.weight'");
  CHECK(undecided.status == 2);
  CHECK_MESSAGE(undecided.says("--no-transpose 'transformer\\.h\\.[0-9]+\\.attn\\.c_proj\\.weight'"),
                undecided.output);
  CHECK(test::run_zero1(tiny + "--train-iters 1 --rename a=b").says("needs --load DIR or --init FILE"));
}
