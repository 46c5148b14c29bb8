// What a run writes of its metrics beside JSON lines: tables and TensorBoard's event files.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using nlohmann::json;
using namespace zero1::test;

namespace {

const std::string tiny =
    "train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --threads-per-rank 1 "
    "--log-interval 0 ";

std::vector<std::vector<std::string>> cells_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    std::istringstream cells(line + ",");
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
  }
  return rows;
}

/// CRC-32C bit by bit, as its definition reads.
std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
  }
  return crc ^ 0xFFFFFFFF;
}

std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

/// Reads numbers off the front of bytes.
struct Bytes {
  std::string_view left;

  template <class T>
  T take() {
    REQUIRE(left.size() >= sizeof(T));
    T value{};
    std::memcpy(&value, left.data(), sizeof(T));
    left.remove_prefix(sizeof(T));
    return value;
  }
  std::string_view take_bytes(std::size_t count) {
    REQUIRE(left.size() >= count);
    const std::string_view bytes = left.substr(0, count);
    left.remove_prefix(count);
    return bytes;
  }
  std::uint64_t take_varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = take<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  }
};

/// A message's fields, by number: the bytes of each, numbers as they are stored (varints as u64).
std::multimap<int, std::string> fields_of(std::string_view message) {
  std::multimap<int, std::string> fields;
  Bytes bytes{message};
  while (!bytes.left.empty()) {
    const std::uint64_t key = bytes.take_varint();
    std::string value;
    switch (key & 7) {
      case 0: {
        const std::uint64_t number = bytes.take_varint();
        value.assign(reinterpret_cast<const char*>(&number), sizeof(number));
        break;
      }
      case 1: value = bytes.take_bytes(8); break;
      case 2: value = bytes.take_bytes(bytes.take_varint()); break;
      case 5: value = bytes.take_bytes(4); break;
      default: FAIL("an unknown wire type");
    }
    fields.emplace(static_cast<int>(key >> 3), value);
  }
  return fields;
}

template <class T>
T number_in(const std::multimap<int, std::string>& fields, int field) {
  REQUIRE(fields.count(field) == 1);
  return Bytes{fields.find(field)->second}.take<T>();
}

struct Curves {
  std::map<std::string, std::map<std::int64_t, float>> scalars;  ///< by tag and step
  std::vector<double> wall_times;
};

Curves read_event_file(const std::string& content) {
  Curves curves;
  Bytes file{content};
  bool first = true;
  while (!file.left.empty()) {
    const std::string_view length_bytes = file.left.substr(0, 8);
    const auto length = file.take<std::uint64_t>();
    REQUIRE(file.take<std::uint32_t>() == masked(slow_crc32c(length_bytes)));
    const std::string_view data = file.take_bytes(length);
    REQUIRE(file.take<std::uint32_t>() == masked(slow_crc32c(data)));
    const auto event = fields_of(data);
    curves.wall_times.push_back(number_in<double>(event, 1));
    if (first) {
      REQUIRE(event.find(3)->second == "brain.Event:2");
      first = false;
      continue;
    }
    const auto step = number_in<std::int64_t>(event, 2);
    for (const auto& [field, value] : fields_of(event.find(5)->second)) {
      REQUIRE(field == 1);
      const auto scalar = fields_of(value);
      const bool is_new =
          curves.scalars[scalar.find(1)->second].emplace(step, number_in<float>(scalar, 2)).second;
      REQUIRE(is_new);
    }
  }
  return curves;
}

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("the checksum that the event files are read with is CRC-32C") {
  CHECK(slow_crc32c("123456789") == 0xE3069283);  // the check value of its catalogue
}

TEST_CASE("--metrics FILE.csv is a table of what the JSON lines say") {
  const TemporaryFolder folder;
  const std::string run = tiny + "--train-iters 4 --valid-data " + quoted(ZERO1_GOLDEN_DIR "/corpus.txt") +
                          " --eval-interval 2 --eval-iters 1 --metrics ";
  REQUIRE(run_zero1(run + quoted(folder / "m.jsonl")).status == 0);
  REQUIRE(run_zero1(run + quoted(folder / "m.csv")).status == 0);
  const auto rows = cells_of(folder.read("m.csv"));
  REQUIRE(rows.size() == 1 + 4);
  std::istringstream lines(folder.read("m.jsonl"));
  for (std::size_t r = 1; r < rows.size(); ++r) {
    std::string line;
    REQUIRE(std::getline(lines, line));
    const json step = json::parse(line);
    REQUIRE(rows[r].size() == rows[0].size());
    for (std::size_t c = 0; c < rows[0].size(); ++c) {
      const std::string& key = rows[0][c];
      CAPTURE(key);
      if (key == "skipped") {
        CHECK(rows[r][c] == "0");
      } else if (!step.contains(key)) {
        CHECK(rows[r][c].empty());
      } else if (key.find("ms") == std::string::npos && key != "overlap") {
        CHECK(std::stod(rows[r][c]) == step.at(key).get<double>());
      }
    }
    // No key of a line lacks a column.
    for (const auto& [key, value] : step.items())
      CHECK(std::find(rows[0].begin(), rows[0].end(), key) != rows[0].end());
  }
}

TEST_CASE("skipped steps of fp16 leave their cells empty") {
  const TemporaryFolder folder;
  REQUIRE(run_zero1(tiny + "--train-iters 14 --fp16 --initial-loss-scale 1e30 --hysteresis 1 --metrics " +
                    quoted(folder / "m.csv") + " --tensorboard-dir " + quoted(folder / "tb"))
              .status >= 0);
  const auto rows = cells_of(folder.read("m.csv"));
  REQUIRE(rows.size() > 1);
  const auto column = [&](const char* key) {
    return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), key) - rows[0].begin());
  };
  CHECK(rows[1][column("skipped")] == "1");
  CHECK(rows[1][column("grad_norm")].empty());
  CHECK(std::stod(rows[1][column("loss_scale")]) == 1e30);
  const Curves curves = read_event_file(folder.read("tb/" + event_files(folder / "tb").at(0)));
  CHECK(curves.scalars.at("loss-scale").at(1) == 1e30F);
  CHECK(curves.scalars.count("grad-norm") == 0);
}

TEST_CASE("--tensorboard-dir: the metrics as scalars, a file per run") {
  const TemporaryFolder folder;
  const std::string tb = folder / "runs/first";  // made with its parents
  const std::string run = tiny + "--valid-data " + quoted(ZERO1_GOLDEN_DIR "/corpus.txt") +
                          " --eval-interval 2 --eval-iters 1 --lr-warmup-iters 2 --tensorboard-dir " +
                          quoted(tb) + " --save " + quoted(folder / "ckpt") + " --metrics " +
                          quoted(folder / "m.jsonl");
  REQUIRE(run_zero1(run + " --train-iters 4 --lr-decay-iters 9").status == 0);
  REQUIRE(event_files(tb).size() == 1);
  const std::string name = event_files(tb)[0];
  CHECK(name.starts_with("events.out.tfevents."));
  const Curves curves = read_event_file(folder.read("runs/first/" + name));
  std::istringstream lines(folder.read("m.jsonl"));
  std::int64_t steps = 0;
  for (std::string line; std::getline(lines, line);) {
    const json step = json::parse(line);
    const std::int64_t number = step.at("step");
    const auto same = [&](const char* tag, double value) {
      CAPTURE(tag);
      CHECK(curves.scalars.at(tag).at(number) == static_cast<float>(value));
    };
    same("lm loss", step.at("loss"));
    same("learning-rate", step.at("lr"));
    same("grad-norm", step.at("grad_norm"));
    same("iteration-time", step.at("ms").get<double>() * 1e-3);
    same("exposed-communication-time", step.at("exposed_comm_ms").get<double>() * 1e-3);
    if (step.contains("valid_loss")) {
      same("lm loss validation", step.at("valid_loss"));
      same("lm loss validation ppl", std::exp(step.at("valid_loss").get<double>()));
    }
    ++steps;
  }
  CHECK(steps == 4);
  CHECK(curves.scalars.at("lm loss validation").size() == 2);
  CHECK(curves.wall_times.size() == 5);
  CHECK(std::is_sorted(curves.wall_times.begin(), curves.wall_times.end()));
  CHECK(curves.wall_times.front() > 1e9);  // seconds since 1970

  // A run that goes on adds a file and leaves the first as it is.
  const std::string before = folder.read("runs/first/" + name);
  const Outcome resumed =
      run_zero1(run + " --train-iters 6 --lr-decay-iters 9 --load " + quoted(folder / "ckpt"));
  CAPTURE(resumed.output);
  REQUIRE(resumed.status == 0);
  CHECK(folder.read("runs/first/" + name) == before);
  const auto names = event_files(tb);
  REQUIRE(names.size() == 2);
  const Curves later = read_event_file(folder.read("runs/first/" + (names[0] == name ? names[1] : names[0])));
  CHECK(later.scalars.at("lm loss").begin()->first == 5);
  CHECK(later.scalars.at("lm loss").size() == 2);
}

TEST_CASE("where event files cannot be written is said before training") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "");
  for (const std::string& place : {file, file + "/below", std::string("/proc/none")}) {
    const Outcome outcome = run_zero1(tiny + "--train-iters 1 --tensorboard-dir " + quoted(place));
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says("--tensorboard-dir"));
  }
  // A run that cannot begin leaves no file behind.
  CHECK(run_zero1(tiny + "--train-iters 1 --data " + quoted(folder / "none") + " --tensorboard-dir " +
                  quoted(folder / "tb"))
            .status == 2);
  CHECK((!std::filesystem::exists(folder / "tb") || std::filesystem::is_empty(folder / "tb")));
}
