#include "core/base/units.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "core/base/error.h"
#include "tests/support/message.h"

using namespace zero1;
using zero1::test::message_of;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("sizes in bytes are read exactly") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("7B") == 7);
  CHECK(parse_bytes("64KiB") == 65536);
  CHECK(parse_bytes("64 kib") == 65536);
  CHECK(parse_bytes("1.5MiB") == 1572864);
  CHECK(parse_bytes("2GB") == 2'000'000'000);
  CHECK(parse_bytes("2G") == 2'000'000'000);
  CHECK(parse_bytes(".5k") == 500);
  CHECK(parse_bytes("0.1GB") == 100'000'000);
  CHECK(parse_bytes("9223372036854775807") == largest);
  CHECK(parse_bytes("7EiB") == std::int64_t{7} << 60);
}

TEST_CASE("counts are read exactly") {
  CHECK(parse_count("40000000") == 40'000'000);
  CHECK(parse_count("40M") == 40'000'000);
  CHECK(parse_count("64Ki") == 65536);
  CHECK(parse_count("1.000001M") == 1'000'001);
}

TEST_CASE("what is no size is refused, and the message repeats it") {
  for (const char* text :
       {"", "x", "-1", "-5K", "1.5", "1.23456K", "10XB", "10KK", "1..5K", ".", "K", "12 34", "1e6", "8EiB",
        "9223372036854775808", "99999999999999999999999", "10KiBB", " 5", "5K\n"}) {
    CAPTURE(text);
    CHECK(message_of<InputError>([&] { parse_bytes(text); }).find("'" + std::string(text) + "'") !=
          std::string::npos);
    CHECK(message_of<InputError>([&] { parse_count(text); }).find("'" + std::string(text) + "'") !=
          std::string::npos);
  }
  CHECK_THROWS_AS(parse_count("64KB"), InputError);
}

TEST_CASE("sizes, counts and times are written for people") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(1572864) == "1.50 MiB");
  CHECK(format_bytes(1048575) == "1.00 MiB");
  CHECK(format_bytes(-2048) == "-2.00 KiB");
  CHECK(format_bytes(largest) == "8.00 EiB");
  CHECK(format_bytes(std::numeric_limits<std::int64_t>::min()) == "-8.00 EiB");

  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1,000");
  CHECK(format_count(124439808) == "124,439,808");
  CHECK(format_count(-1234567) == "-1,234,567");
  CHECK(format_count(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");

  CHECK(format_duration_ns(0) == "0 ns");
  CHECK(format_duration_ns(999) == "999 ns");
  CHECK(format_duration_ns(3'210'000) == "3.21 ms");
  CHECK(format_duration_ns(999'999) == "1.00 ms");
  CHECK(format_duration_ns(1'500) == "1.50 µs");
  CHECK(format_duration_ns(59'990'000'000) == "59.99 s");
  CHECK(format_duration_ns(59'999'999'999) == "1 min 00 s");
  CHECK(format_duration_ns(125'000'000'000) == "2 min 05 s");
  CHECK(format_duration_ns(3'900'000'000'000) == "1 h 05 min");
  CHECK(format_duration_ns(-1'500) == "-1.50 µs");
}

TEST_CASE("counts agree with their noun") {
  CHECK(counted(0, "rank") == "0 ranks");
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(std::size_t{1024}, "rank") == "1,024 ranks");
  CHECK(counted(-1, "rank") == "-1 ranks");
  CHECK(counted(1, "microbatch", "microbatches") == "1 microbatch");
  CHECK(counted(2, "microbatch", "microbatches") == "2 microbatches");
  CHECK(counted(largest, "element") == "9,223,372,036,854,775,807 elements");
}

TEST_CASE("ranges are half-open on screen too") {
  CHECK(format_range({0, 65'536}) == "[0, 65,536)");
  CHECK(format_range({7, 7}) == "[7, 7)");
}
