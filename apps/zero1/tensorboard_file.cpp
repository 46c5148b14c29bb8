// TFRecord framing around protocol buffers, both written by hand: an event has six fields in all.
//
// A record: length (u64), masked CRC-32C of these 8 bytes (u32), data, masked CRC-32C of the data (u32).
#include "apps/zero1/tensorboard_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace zero1::app {

namespace {

static_assert(std::endian::native == std::endian::little, "event files are little-endian");

template <class T>
void append_bytes(std::string& out, T value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), bytes.size());
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_key(std::string& out, int field, Wire wire) {
  append_varint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

void append_text(std::string& out, int field, std::string_view text) {
  append_key(out, field, Wire::bytes);
  append_varint(out, text.size());
  out += text;
}

/// Summary.value: { tag: 1, simple_value: 2 }.
void append_scalar(std::string& summary, std::string_view tag, double number) {
  std::string value;
  append_text(value, 1, tag);
  append_key(value, 2, Wire::fixed32);
  append_bytes(value, static_cast<float>(number));
  append_text(summary, 1, value);
}

/// The front of an Event: { wall_time: 1, step: 2, file_version: 3 or summary: 5 }.
std::string begin_event() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  append_key(event, 1, Wire::fixed64);
  append_bytes(event, std::chrono::duration<double>(now).count());
  return event;
}

std::string summary_of(const StepMetrics& step) {
  std::string summary;
  append_scalar(summary, "lm loss", step.loss);
  append_scalar(summary, "learning-rate", step.lr);
  if (!step.skipped) append_scalar(summary, "grad-norm", step.grad_norm);
  if (step.loss_scale) append_scalar(summary, "loss-scale", *step.loss_scale);
  append_scalar(summary, "iteration-time", step.ms * 1e-3);
  append_scalar(summary, "communication-time", step.comm_ms * 1e-3);
  append_scalar(summary, "exposed-communication-time", step.exposed_comm_ms * 1e-3);
  append_scalar(summary, "communication-overlap", step.overlap);
  if (step.valid_loss) {
    append_scalar(summary, "lm loss validation", *step.valid_loss);
    append_scalar(summary, "lm loss validation ppl", std::exp(*step.valid_loss));
  }
  return summary;
}

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  constexpr std::uint32_t reversed_polynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? reversed_polynomial : 0);
    table[i] = crc;
  }
  return table;
}();

/// The checksum of data that may hold checksums itself.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string record(const std::string& event) {
  std::string framed;
  append_bytes(framed, static_cast<std::uint64_t>(event.size()));
  append_bytes(framed, masked_crc(framed));
  framed += event;
  append_bytes(framed, masked_crc(event));
  return framed;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

TensorboardFile::TensorboardFile(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    throw InputError(fmt::format("--tensorboard-dir {}: cannot be made: {}", folder_, error.message()));
  if (::access(folder_.c_str(), W_OK | X_OK) != 0) {
    throw InputError(
        fmt::format("--tensorboard-dir {}: cannot be written to: {}", folder_, std::strerror(errno)));
  }
}

/// TensorBoard orders the files of a folder by their names, so the time comes first.
void TensorboardFile::open() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const std::string front =
      fmt::format("{}/events.out.tfevents.{}.{}.{}", folder_, seconds, host_name(), ::getpid());
  for (int number = 0;; ++number) {
    const std::string path = fmt::format("{}.{}", front, number);
    if (const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666); fd >= 0) {
      ::close(fd);
      out_.open(path, std::ios::binary);
    } else if (errno == EEXIST) {
      continue;
    }
    break;
  }
  if (!out_.is_open()) {
    out_.setstate(std::ios::badbit);  // finish() tells: a run does not end for want of its curves
    return;
  }
  std::string event = begin_event();
  append_text(event, 3, "brain.Event:2");
  out_ << record(event);
}

void TensorboardFile::write(const StepMetrics& step) {
  if (folder_.empty()) return;
  if (!out_.is_open() && out_.good()) open();
  std::string event = begin_event();
  append_key(event, 2, Wire::varint);
  append_varint(event, static_cast<std::uint64_t>(step.step));
  append_text(event, 5, summary_of(step));
  out_ << record(event) << std::flush;
}

void TensorboardFile::finish() {
  if (!folder_.empty() && !out_.flush())
    throw Error(fmt::format("--tensorboard-dir {}: writing failed", folder_));
}

}  // namespace zero1::app
