// Recordings of other runs than ours: several buffers, shared embeddings, padding, no layout, a wrong one.
#include "viz/app/session.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/layout/json.h"
#include "core/trace/file_writer.h"
#include "tests/gui/screen_text.h"
#include "tests/support/temporary_folder.h"
#include "tests/window/run_info.h"
#include "tests/window/shown_document.h"
#include "viz/model/event_index.h"

using namespace zero1;
using namespace zero1::viz;
using viz::test::info_of;
using viz::test::on_screen;

namespace {

/// Dense and expert parameters of two types, a shared embedding, padding in every bucket.
LayoutCase mixed_case() {
  LayoutCase c;
  c.name = "mixed";
  c.params = {{"embedding", {301, 8}, DType::bf16, true, false},
              {"dense.weight", {77, 13}, DType::bf16, false, false},
              {"dense.scale", {5}, DType::fp32, false, false},
              {"expert.weight", {64, 33}, DType::bf16, false, true},
              {"head", {301, 8}, DType::bf16, true, false}};
  c.options.dp_size = 4;
  c.options.expert_dp_size = 2;
  c.options.bucket_size_elems = 1000;
  c.options.pad_buckets_for_high_nccl_busbw = true;
  return c;
}

/// A recording in which every bucket becomes ready on every rank.
struct Recording {
  zero1::test::TemporaryFolder folder;
  std::string path = folder / "run.trace";

  explicit Recording(const trace::RunInfo& info, int chunks = 1) {
    trace::FileWriter writer(path, info, 0);
    std::vector<trace::Event> events;
    for (int rank = 0; rank < info.ranks; ++rank) {
      for (int bucket = 0; bucket < static_cast<int>(info.buckets.size()); ++bucket) {
        trace::Event event;
        event.kind = trace::Kind::bucket_state;
        event.detail = static_cast<std::uint8_t>(trace::BucketState::ready);
        event.stream = trace::StreamId::host;
        event.rank = static_cast<std::int16_t>(rank);
        event.bucket = bucket;
        event.step = 1;
        event.begin_ns = event.end_ns = 1000 * (rank + 1);
        events.push_back(event);
      }
    }
    for (int chunk = 0; chunk < chunks; ++chunk) writer.write_chunk(events, 0);
    writer.close(0);
  }
};

}  // namespace

TEST_CASE("a recording of several buffers, a shared embedding and padding has its own map") {
  const LayoutCase c = mixed_case();
  const Recording recording(info_of(c));
  Document document = open_recording(recording.path);
  CHECK(document.error == "");
  REQUIRE(document.layout != nullptr);
  CHECK(*document.layout == compute_layout(c.params, c.options));
  CHECK(document.layout->buffers.size() >= 3);
  const int buckets = document.layout->bucket_count();
  viz::test::ShownDocument window(std::move(document));
  for (int bucket = 0; bucket < buckets; ++bucket) {
    CAPTURE(bucket);
    // Selected, it comes into view and is named.
    Selection selection;
    selection.bucket = bucket;
    window.shell->document().selection.set(selection);
    window.gui.frame(2);
    CHECK(on_screen("bucket " + std::to_string(bucket)));
  }
  for (int param = 0; param < static_cast<int>(c.params.size()); ++param) {
    Selection selection;
    selection.param = param;
    selection.element = 0;
    window.shell->document().selection.set(selection);
    window.gui.frame(2);
    CHECK(on_screen(c.params[static_cast<std::size_t>(param)].name));
  }
  CHECK(on_screen("0 dropped"));
}

TEST_CASE("a recording without a layout, or with a wrong one, shows its events and says what is missing") {
  trace::RunInfo info = info_of(mixed_case());
  std::string wanted;
  SUBCASE("none") {
    info.layout_json = "null";
    wanted = "does not tell its layout";
  }
  SUBCASE("nonsense") {
    info.layout_json = R"({"params": [], "dp_size": -7})";
    wanted = "no ownership map";
  }
  SUBCASE("of other buckets") {
    info.buckets.back().end += 4;
    wanted = "disagree";
  }
  SUBCASE("of other parameters") {
    info.params.emplace_back("one more");
    wanted = "disagree";
  }
  const Recording recording(info);
  Document document = open_recording(recording.path);
  INFO(document.error);
  CHECK(document.layout == nullptr);
  CHECK(document.error.find(wanted) != std::string::npos);
  viz::test::ShownDocument window(std::move(document));
  CHECK(on_screen("no ownership map"));
  CHECK(on_screen("dropped"));
  // Selecting what it has no place for does no harm.
  Selection selection;
  selection.bucket = 1;
  selection.param = 2;
  selection.element = 3;
  selection.rank = 1;
  window.shell->document().selection.set(selection);
  window.gui.frame(3);
  CHECK(window.gui.vertices() > 1000);
}

TEST_CASE("a recording that is damaged inside is shown up to there, and the window says so") {
  const Recording recording(info_of(mixed_case()), 20);
  std::string bytes = recording.folder.read("run.trace");
  const std::size_t at = bytes.size() * 3 / 4;
  bytes[at] = static_cast<char>(bytes[at] ^ 0x5A);
  recording.folder.write("damaged.trace", bytes);
  viz::test::ShownDocument window(open_recording(recording.folder / "damaged.trace"));
  CHECK(window.shell->document().events->size() > 0);
  CHECK(on_screen("damaged"));
  const Document& document = window.shell->document();
  CHECK(document.error == document.events->error());
}
