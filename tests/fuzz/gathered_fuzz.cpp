// Any bytes as a gathered HDF5 file: an InputError, or parameters that can be read.
#include "ckpt/gather.h"
#include "ckpt/gathered_file.h"
#include "core/base/error.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/fuzz/fuzz_support.h"

using namespace zero1;

namespace {

const fuzz::Scratch& scratch() {
  static const fuzz::Scratch folder;
  return folder;
}

std::string seed(const std::vector<ParamSpec>& params) {
  LayoutCase layout_case;
  layout_case.params = params;
  for (const char* path : {"c", "seed.h5"}) std::filesystem::remove_all(scratch().path(path));
  ckpt::write_checkpoint(scratch().path("c"), {}, layout_case, test::PlacedValues());
  ckpt::gather_hdf5(ckpt::Checkpoint(scratch().path("c")), scratch().path("seed.h5"), {});
  return fuzz::read_bytes(scratch().path("seed.h5"));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::vector<ParamSpec> many;
  for (int i = 0; i < 12; ++i)
    many.push_back({"h." + std::to_string(i) + "/w", {2, 3}, DType::fp32, false, false});
  fuzz::plant_seeds(*argc, *argv,
                    {seed({{"w", {3, 5}, DType::bf16, false, false}, {"s", {}, DType::fp32, true, false}}),
                     seed({{"none", {0, 3}, DType::fp32, false, false}}), seed(many)});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = scratch().path("in.h5");
  fuzz::write_bytes(path, {reinterpret_cast<const char*>(data), size});
  try {
    const ckpt::GatheredFile file(path);
    std::vector<float> values;
    for (std::size_t p = 0; p < file.params().size(); ++p) {
      const ckpt::GatheredFile::Param& param = file.params()[p];
      constexpr std::int64_t most_elems = 1 << 14;
      const Range range{0, std::min(ParamSpec{param.name, param.shape}.numel(), most_elems)};
      values.resize(static_cast<std::size_t>(range.size()));
      fuzz::require(param.has(ckpt::State::param), "a parameter has values");
      for (const ckpt::State state : ckpt::all_states) {
        if (param.has(state)) file.read(static_cast<int>(p), state, range, values.data());
      }
    }
  } catch (const InputError& error) {
    fuzz::require(std::string_view(error.what()).find(path) != std::string_view::npos,
                  "an error names the file");
  }
  return 0;
}
