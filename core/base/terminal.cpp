#include "core/base/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/error.h"

namespace zero1 {

namespace {

/// Why standard output did not take something; 0: it took everything. The stream remembers that it failed,
/// but not why.
std::atomic<int> output_error{0};

void note_failure(std::FILE* stream) {
  if (stream == stdout && output_error == 0) output_error = errno;
}

}  // namespace

void detail::write(std::FILE* to, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), to) != text.size()) note_failure(to);
}

void print_lines(std::string_view text) {
  detail::write(stdout, printable_lines(text));
}

void print_json_text(std::string_view json) {
  detail::write(stdout, printable_json(json));
}

void print_json(const nlohmann::ordered_json& json) {
  print_json_text(json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void flush_each_line() {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

void claim_standard_files() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The wrong way round: reading and writing fail as they would have.
    static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

void finish_output() {
  if (std::fflush(stdout) != 0) note_failure(stdout);
  if (output_error == 0 && std::ferror(stdout) == 0) return;
  const int error = output_error;
  throw Error("standard output: cannot be written" +
              (error == 0 ? "" : ": " + std::generic_category().message(error)));
}

}  // namespace zero1
