#include "core/base/units.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/base/numbers.h"
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

TEST_CASE("numbers are read as people write them") {
  CHECK(parse_bytes("2^20") == 1 << 20);
  CHECK(parse_count("1e6") == 1'000'000);
  CHECK(parse_count("1.5E3") == 1500);
  CHECK(parse_count("+40M") == 40'000'000);
  const auto whole = [](const char* text) { return parse_whole(text).value_or(WholeNumber{}); };
  CHECK(whole("12").digits == 12);
  CHECK(whole("+7").digits == 7);
  CHECK(whole("-3").negative);
  CHECK(whole("-3").digits == 3);
  CHECK_FALSE(whole("-0").negative);
  CHECK(whole("2^63").digits == std::uint64_t{1} << 63);
  CHECK(whole("18446744073709551615").digits == std::numeric_limits<std::uint64_t>::max());
  CHECK(whole("1000e-3").digits == 1);
  CHECK(whole("0e99999999999999999999").digits == 0);
  for (const char* large :
       {"18446744073709551616", "2^64", "1e20", "10^99999999999999999999", "1e9999999999"}) {
    CAPTURE(large);
    REQUIRE(parse_whole(large));
    CHECK_FALSE(parse_whole(large)->digits);
  }
  for (const char* text : {"",   "+",    "-",  "1.5", "1e-1", "010", "0x10", "1K", "nan",   "2^",
                           "^2", "2^-1", "1e", "1e+", "+-1",  "--1", "1 ",   " 1", "1.2.3", "e5"})
    CHECK_MESSAGE(!parse_whole(text), text);
  CHECK(parse_real("+0.001") == 0.001);
  CHECK(parse_real("-.5e1") == -5);
  CHECK(parse_real("2^32") == 0x1p32);
  CHECK(parse_real("2^-14") == 0x1p-14);
  CHECK(parse_real("1e400") == std::numeric_limits<double>::infinity());
  for (const char* text :
       {"", "+", "nan", "-nan", "+nan", "inf", "-inf", "Infinity", "0x1p3", "1,5", "1e", "+-1", "2^x"})
    CHECK_MESSAGE(!parse_real(text), text);
}

TEST_CASE("counts are read exactly") {
  CHECK(parse_count("40000000") == 40'000'000);
  CHECK(parse_count("40M") == 40'000'000);
  CHECK(parse_count("64Ki") == 65536);
  CHECK(parse_count("1.000001M") == 1'000'001);
}

TEST_CASE("what is no size is refused, and the message repeats it") {
  for (const char* text : {"",
                           "x",
                           "-1",
                           "-5K",
                           "1.5",
                           "1.23456K",
                           "10XB",
                           "10KK",
                           "1..5K",
                           ".",
                           "K",
                           "12 34",
                           "1e-6",
                           "8EiB",
                           "2^64",
                           "1e19",
                           "+",
                           "+-5",
                           "2^",
                           "9223372036854775808",
                           "99999999999999999999999",
                           "10KiBB",
                           " 5",
                           "5K\n"}) {
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
