// Import is export's inverse, and takes files of other programs as it is told.
#include "ckpt/import.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "ckpt/diff.h"
#include "ckpt/gather.h"
#include "ckpt/hdf5.h"
#include "ckpt/verify.h"
#include "core/base/error.h"
#include "core/data/safetensors.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/command.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

/// Twelve layers, so that names and numbers sort differently; a tied embedding, two dtypes, experts on ranks
/// of their own, square matrices, names with slashes.
LayoutCase twelve_layers() {
  LayoutCase result;
  result.params.push_back({"wte", {19, 6}, DType::bf16, true, false});
  for (int layer = 0; layer < 12; ++layer) {
    const std::string h = fmt::format("h.{}.", layer);
    result.params.push_back({h + "ln.weight", {6}, DType::fp32, false, false});
    result.params.push_back({h + "attn/c_attn.weight", {18, 6}, DType::bf16, false, false});
    result.params.push_back({h + "attn/c_proj.weight", {6, 6}, DType::bf16, false, false});
    result.params.push_back({h + "expert.weight", {5, 7}, DType::bf16, false, true});
  }
  result.params.push_back({"scale", {}, DType::fp32, false, false});
  result.options.dp_size = 4;
  result.options.expert_dp_size = 2;
  result.options.bucket_size_elems = 300;
  result.options.grad_reduce_in_fp32 = false;
  return result;
}

ckpt::RunState some_state(const LayoutCase& layout_case) {
  ckpt::RunState state;
  state.step = 41;
  state.optimizer_steps = 40;
  state.param_groups.resize(2);
  for (const ParamSpec& spec : layout_case.params)
    state.param_groups[spec.shape.size() < 2 ? 1 : 0].params.push_back(spec.name);
  state.param_groups[1].weight_decay_mult = 0;
  return state;
}

/// Every byte of both checkpoints.
void check_same_files(const test::TemporaryFolder& folder, const std::string& a, const std::string& b) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path(a))) {
    const std::string name = "/" + entry.path().filename().string();
    CHECK_MESSAGE(folder.read(a + name) == folder.read(b + name), b << name);
  }
}

std::string refusal(const std::string& path, const ckpt::ImportOptions& options) {
  return test::message_of<InputError>([&] { const ckpt::ImportPlan plan(path, options); });
}

void check_says(const std::string& message, const std::string& part) {
  CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

/// PlacedValues, and the file that another program would write of them.
void write_foreign(const std::string& path, const LayoutCase& layout_case,
                   const std::function<std::string(const std::string&)>& name_of) {
  std::vector<SafetensorsEntry> entries;
  for (const ParamSpec& spec : layout_case.params)
    entries.push_back({name_of(spec.name), DType::fp32, spec.shape});
  SafetensorsWriter file(path, entries);
  for (std::size_t p = 0; p < entries.size(); ++p) {
    std::vector<float> values(static_cast<std::size_t>(entries[p].numel()));
    test::PlacedValues().read(static_cast<int>(p), ckpt::State::param, {0, entries[p].numel()},
                              values.data());
    file.write_fp32(p, 0, values.data(), entries[p].numel());
  }
  file.close();
}

}  // namespace

TEST_CASE("import is export's inverse, byte for byte: order, marks, dtypes, options, state") {
  const test::TemporaryFolder folder;
  const LayoutCase layout_case = twelve_layers();
  ckpt::write_checkpoint(folder.path("a"), some_state(layout_case), layout_case, test::PlacedValues());
  const ckpt::Checkpoint a(folder.path("a"));
  ckpt::GatherOptions fp32;
  fp32.dtype = DType::fp32;
  fp32.max_shard_bytes = 4000;
  ckpt::gather_safetensors(a, folder.path("s.safetensors"), fp32);
  ckpt::gather_hdf5(a, folder.path("g.h5"), {});
  int serial = 0;
  for (const char* file : {"s.safetensors.index.json", "g.h5"}) {
    CAPTURE(file);
    const std::string back = "back" + std::to_string(serial++);
    ckpt::ImportPlan(folder.path(file), {}).write(folder.path(back), {});
    check_same_files(folder, "a", back);
    // Flags win over what is recorded.
    ckpt::ImportOptions other;
    other.layout.dtype = DType::fp16;
    other.layout.dp_size = 3;
    other.layout.adjust = [](LayoutOptions& options) { options.bucket_size_elems = 99; };
    const LayoutCase changed = ckpt::ImportPlan(folder.path(file), other).layout_case();
    CHECK(changed.options.dp_size == 3);
    CHECK(changed.options.expert_dp_size == 3);
    CHECK(changed.options.bucket_size_elems == 99);
    CHECK(!changed.options.grad_reduce_in_fp32);
    CHECK(changed.params[0].shared_embedding);
    CHECK(changed.params[4].expert_parallel);
    CHECK(changed.params[4].dtype == DType::fp16);
  }
}

TEST_CASE("out under other names and transposed, and back by the same flags") {
  const test::TemporaryFolder folder;
  const LayoutCase layout_case = twelve_layers();
  ckpt::write_checkpoint(folder.path("a"), some_state(layout_case), layout_case, test::PlacedValues());
  const ckpt::Checkpoint a(folder.path("a"));
  ckpt::GatherOptions out;
  out.dtype = DType::fp32;
  out.names = {{"(.*)=transformer.\\1"}, {}, {".*/c_(attn|proj)\\.weight"}, {}};
  CHECK(ckpt::gather_safetensors(a, folder.path("t.safetensors"), out).notes.size() == 2);
  ckpt::gather_hdf5(a, folder.path("t.h5"), out);
  const SafetensorsReader file(folder.path("t.safetensors"));
  CHECK(file.find("transformer.h.3.attn/c_attn.weight")->shape == std::vector<std::int64_t>{6, 18});
  CHECK(file.find("transformer.h.3.attn/c_attn.weight.exp_avg_sq")->shape ==
        std::vector<std::int64_t>{6, 18});
  const std::vector<float> row = file.read_fp32(*file.find("transformer.h.0.attn/c_attn.weight"), {1, 2});
  CHECK(row[0] == test::PlacedValues::value(2, ckpt::State::param, 6));

  ckpt::ImportOptions in;
  in.names = {{"transformer\\.(.*)=\\1"}, {}, {".*/c_attn\\.weight", ".*/c_proj\\.weight"}, {}};
  int serial = 0;
  for (const char* path : {"t.safetensors", "t.h5"}) {
    CAPTURE(path);
    const std::string back = "back" + std::to_string(serial++);
    ckpt::WriteOptions two_workers;
    two_workers.workers = 2;
    ckpt::ImportPlan(folder.path(path), in).write(folder.path(back), two_workers);
    check_same_files(folder, "a", back);
  }
  // Without some of them: the rest as it was, and the optimizer's groups without them.
  in.names.excludes = {"transformer\\.h\\.1[01]?\\..*"};
  const ckpt::ImportPlan less(folder.path("t.h5"), in);
  CHECK(less.layout_case().params.size() == layout_case.params.size() - 12);
  CHECK(less.state().param_groups[0].params.size() == 1 + 9 * 3);
  CHECK(less.state().param_groups[1].params.back() == "scale");
}

TEST_CASE("a file of another program gets the layout that it is given, or one by names") {
  const test::TemporaryFolder folder;
  const LayoutCase layout_case = twelve_layers();
  write_foreign(folder.path("f.safetensors"), layout_case,
                [](const std::string& name) { return "m." + name; });
  ckpt::ImportOptions options;
  check_says(refusal(folder.path("f.safetensors"), options), "--dp is missing");
  options.layout.dp_size = 2;
  const ckpt::ImportPlan by_names(folder.path("f.safetensors"), options);
  const std::vector<ParamSpec>& params = by_names.layout_case().params;
  CHECK(params.front().name == "m.h.0.attn/c_attn.weight");
  CHECK(params[4].name == "m.h.1.attn/c_attn.weight");
  CHECK(params[40].name == "m.h.10.attn/c_attn.weight");
  CHECK(params.back().name == "m.wte");

  options.layout.dp_size.reset();
  options.layout.given = layout_case;
  options.layout.given_source = "case.json";
  check_says(refusal(folder.path("f.safetensors"), options), "missing: wte [19, 6]");
  check_says(refusal(folder.path("f.safetensors"), options), "--rename 'm\\.(.*)=\\1'");
  options.names.renames = {"m\\.(.*)=\\1"};
  const ckpt::ImportPlan given(folder.path("f.safetensors"), options);
  CHECK(given.layout_case() == layout_case);
  given.write(folder.path("c"), {});
  ckpt::write_checkpoint(folder.path("expected"), {}, layout_case, test::PlacedValues());
  const ckpt::Checkpoint c(folder.path("c"));
  const ckpt::DiffReport report = ckpt::diff(ckpt::Checkpoint(folder.path("expected")), c, {});
  CHECK(report.structure.empty());
  for (const ckpt::DiffRow& row : report.rows) CHECK(row.state != ckpt::State::param);

  options.layout.given->params.push_back({"new", {3}, DType::fp32, false, false});
  check_says(refusal(folder.path("f.safetensors"), options), "missing: new [3]");
  options.layout.given->params.pop_back();
  options.layout.given->params.pop_back();
  check_says(refusal(folder.path("f.safetensors"), options), "unexpected: scale []");
  options.names.excludes = {"m.scale"};
  CHECK_NOTHROW(ckpt::ImportPlan(folder.path("f.safetensors"), options));
  std::swap(options.layout.given->params[2].shape[0], options.layout.given->params[2].shape[1]);
  const std::string turned = refusal(folder.path("f.safetensors"), options);
  check_says(turned, "expected [6, 18], which it has when transposed");
  check_says(turned, "square ones fit either way");
}

TEST_CASE("what was changed behind the recorded layout is named") {
  const test::TemporaryFolder folder;
  LayoutCase layout_case;
  layout_case.params = {{"b", {3}, DType::bf16, false, false}, {"a", {2, 3}, DType::fp32, true, false}};
  const auto import_of = [&](std::vector<SafetensorsEntry> entries) {
    const std::string path = folder.path("x.safetensors");
    std::filesystem::remove(path);
    SafetensorsWriter file(path, entries, {{"zero1_layout", layout_case_json(layout_case).dump()}});
    const std::vector<float> zeros(10);
    for (std::size_t i = 0; i < entries.size(); ++i) file.write_fp32(i, 0, zeros.data(), entries[i].numel());
    file.close();
    return path;
  };
  const std::string good = import_of({{"a", DType::fp32, {2, 3}}, {"b", DType::fp32, {3}}});
  CHECK(ckpt::ImportPlan(good, {}).layout_case() == layout_case);
  ckpt::ImportOptions none;
  none.layout.ignore_recorded = true;
  none.layout.dp_size = 1;
  CHECK(ckpt::ImportPlan(good, none).layout_case().params[0] ==
        ParamSpec{"a", {2, 3}, DType::fp32, false, false});
  const std::string lacking = refusal(import_of({{"a", DType::fp32, {2, 3}}}), {});
  check_says(lacking, "missing: b [3]");
  check_says(lacking, "--layout none");
  check_says(
      refusal(import_of({{"a", DType::fp32, {3, 2}}, {"b", DType::fp32, {3}}, {"c", DType::fp32, {1}}}), {}),
      "a: shape [3, 2], expected [2, 3]");
  layout_case.params[0].name = "a";
  check_says(refusal(import_of({{"a", DType::fp32, {2, 3}}}), {}), "the recorded layout: params[1].name");
}

TEST_CASE("gathered HDF5 files: names like states, nothing to read, and whatever is broken") {
  const test::TemporaryFolder folder;
  LayoutCase odd = test::uneven_case(2);
  for (const char* name : {"w", "w.exp_avg", "w/param", "param", "%x//..", "exp_avg/exp_avg"})
    odd.params.push_back({name, {3}, DType::fp32, false, false});
  ckpt::write_checkpoint(folder.path("a"), test::one_step(), odd, test::PlacedValues());
  ckpt::gather_hdf5(ckpt::Checkpoint(folder.path("a")), folder.path("a.h5"), {});
  ckpt::ImportPlan(folder.path("a.h5"), {}).write(folder.path("b"), {});
  CHECK(ckpt::Checkpoint(folder.path("b")).layout_case() == odd);
  CHECK(test::misplaced(ckpt::Checkpoint(folder.path("b"))) == 0);

  ckpt::GatherOptions model_only;
  model_only.model_only = true;
  ckpt::gather_hdf5(ckpt::Checkpoint(folder.path("a")), folder.path("m.h5"), model_only);
  ckpt::ImportPlan(folder.path("m.h5"), {}).write(folder.path("m"), {});
  float moment = std::nanf("");
  ckpt::Checkpoint(folder.path("m")).read(0, ckpt::State::exp_avg, {3, 4}, &moment);
  CHECK(moment == 0);

  check_says(refusal(folder.path("a/rank_00000.h5"), {}), "needs no import");
  check_says(refusal(folder.path("a/checkpoint.h5"), {}), "needs no import");
  check_says(refusal(folder.write("text.h5", "no HDF5"), {}), "text.h5: cannot be imported");
  check_says(refusal(folder.write("empty.hdf5", ""), {}), "cannot be imported");

  // Cut anywhere, and with any byte of its structures changed: refused, or imported with what is there.
  const std::string whole = folder.read("a.h5");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 1 + bytes / 5) {
    CAPTURE(bytes);
    folder.write("cut.h5", whole.substr(0, bytes));
    CHECK_THROWS_AS(ckpt::ImportPlan(folder.path("cut.h5"), {}), InputError);
  }
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += 7) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    folder.write("changed.h5", changed);
    try {
      const ckpt::ImportPlan plan(folder.path("changed.h5"), {});
    } catch (const InputError& error) {
      const std::string message = error.what();
      CHECK_MESSAGE(message.find("changed.h5") != std::string::npos, message);
      ++refused;
    }
    at += at > 8192 && at + 4096 < whole.size() ? 509 : 0;
  }
  CHECK(refused > 100);
}

TEST_CASE("gathered HDF5 files that hold something else are refused by name") {
  using ckpt::Handle;
  const test::TemporaryFolder folder;
  const auto refused = [&](const char* says, const std::function<void(hid_t, const std::string&)>& fill) {
    const std::string path = folder.path("x.h5");
    std::filesystem::remove(path);
    {
      const ckpt::Hdf5Lock lock;
      Handle file = ckpt::create_file(path);
      ckpt::write_attribute(file.get(), "format", "zero1-lab gathered checkpoint", path);
      {
        const Handle model = ckpt::create_group(file.get(), "model", path);
        fill(model.get(), path);
      }
      file.close(path, "H5Fclose");
    }
    check_says(refusal(path, {}), says);
  };
  const hsize_t sizes[] = {4};
  const auto dataset = [&](hid_t group, const char* name, hid_t type, hid_t creation) {
    const Handle space(H5Screate_simple(1, sizes, nullptr), H5Sclose);
    const Handle made(H5Dcreate2(group, name, type, space.get(), H5P_DEFAULT, creation, H5P_DEFAULT),
                      H5Dclose);
  };
  const auto in_w = [&](hid_t model, const std::string& path, const std::function<void(hid_t)>& fill) {
    const Handle group = ckpt::create_group(model, "w", path);
    fill(group.get());
  };
  refused("holds no parameter", [](hid_t, const std::string&) {});
  refused("/model/w/param: it is not a dataset of little-endian float32",
          [&](hid_t model, const std::string& path) {
            in_w(model, path, [&](hid_t w) { dataset(w, "param", H5T_IEEE_F64LE, H5P_DEFAULT); });
          });
  refused("/model/w/param: it is not a dataset of little-endian float32",
          [&](hid_t model, const std::string& path) {
            in_w(model, path, [&](hid_t w) { dataset(w, "param", H5T_IEEE_F32BE, H5P_DEFAULT); });
          });
  refused("/model/w/param: its data lie in chunks, not contiguous",
          [&](hid_t model, const std::string& path) {
            const Handle chunks(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
            H5Pset_chunk(chunks.get(), 1, sizes);
            in_w(model, path, [&](hid_t w) { dataset(w, "param", H5T_IEEE_F32LE, chunks.get()); });
          });
  refused("/model/w/param has its data in external files", [&](hid_t model, const std::string& path) {
    const Handle external(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_external(external.get(), "/etc/passwd", 0, 16);
    in_w(model, path, [&](hid_t w) { dataset(w, "param", H5T_IEEE_F32LE, external.get()); });
  });
  refused("link", [&](hid_t model, const std::string&) {
    H5Lcreate_soft("/nowhere", model, "w", H5P_DEFAULT, H5P_DEFAULT);
  });
  refused("second name", [&](hid_t model, const std::string&) {
    H5Lcreate_hard(model, ".", model, "w", H5P_DEFAULT, H5P_DEFAULT);
  });
  refused("w has states and no values", [&](hid_t model, const std::string& path) {
    in_w(model, path, [&](hid_t w) { ckpt::create_float_array(w, "exp_avg", {4}, path); });
  });
  refused("its shape is not that", [&](hid_t model, const std::string& path) {
    in_w(model, path, [&](hid_t w) {
      ckpt::create_float_array(w, "exp_avg", {4}, path);
      ckpt::create_float_array(w, "param", {5}, path);
    });
  });
}

TEST_CASE("as people call it: the plan, the notes, and what is missing") {
  const test::TemporaryFolder folder;
  LayoutCase layout_case = twelve_layers();
  write_foreign(folder.path("f.safetensors"), layout_case,
                [](const std::string& name) { return "m." + name; });
  const std::string import = "ckpt import " + folder.path("f.safetensors") + " " + folder.path("c") + " ";
  const test::Outcome plan = test::run_zero1(
      import + "--dp 3 --dry-run --rename 'm\\.(.*)=\\1' --exclude m.scale --transpose '.*c_.*'");
  CHECK_MESSAGE(plan.status == 0, plan.output);
  CHECK(plan.says("left out by --exclude: 1 tensor: m.scale"));
  CHECK(plan.says("transposed: 24 tensors: m.h.0.attn/c_attn.weight, "));
  CHECK(plan.says(" and 16 more"));
  CHECK_MESSAGE(plan.says("h.10.attn/c_attn.weight [6, 18], transposed\n"), plan.output);
  CHECK(folder.count() == 1);

  folder.write("case.json", "[" + layout_case_json(layout_case).dump() + "]");
  const std::string given = import + "--rename 'm\\.(.*)=\\1' --layout ";
  CHECK(test::run_zero1(given + folder.path("case.json")).status == 0);
  CHECK(ckpt::Checkpoint(folder.path("c")).layout_case() == layout_case);
  // A checkpoint's layout will do, too.
  const std::string again = "ckpt import " + folder.path("f.safetensors") + " " + folder.path("d") + " ";
  CHECK(test::run_zero1(again + "--dp 2 --rename 'm\\.(.*)=\\1' --layout " + folder.path("c")).status == 0);
  CHECK(ckpt::Checkpoint(folder.path("d")).layout_case().options.dp_size == 2);
  CHECK(ckpt::verify(folder.path("d")).faults.empty());

  const auto refused = [&](const std::string& flags, const char* says) {
    const test::Outcome outcome =
        test::run_zero1("ckpt import " + folder.path("f.safetensors") + " " + folder.path("e") + " " + flags);
    CHECK_MESSAGE(outcome.status == 2, outcome.output);
    CHECK_MESSAGE(outcome.says(says), outcome.output);
    CHECK(!std::filesystem::exists(folder.path("e")));
  };
  refused("", "--dp is missing");
  refused("--dp 2 --rename x=y", "--rename x=y: matches no tensor");
  refused("--dp 2 --transpose '.*/c_attn.weight' ", "square matrices");
  refused("--dp 2 --case x", "--case needs --layout");
  refused("--layout " + folder.path("none.json"), "none.json");
  refused("--layout " + folder.path("case.json"), "does not fit --layout");
  folder.write("two.json", fmt::format("[{0}, {0}]", layout_case_json(layout_case).dump()));
  refused("--layout " + folder.path("two.json"), "has 2 cases, choose one with --case NAME");
  const Layout layout = compute_layout(layout_case.params, layout_case.options);
  folder.write("expect.json", expect_json(layout, RangeDetail::digest));
  refused("--layout " + folder.path("expect.json"), "this is an `expect`");
}
