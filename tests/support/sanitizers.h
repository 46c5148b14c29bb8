// Which sanitizer a file is compiled with, for the preprocessor (0 or 1) and for the compiler.
#pragma once

#if defined(__has_feature)  // clang
#define ZERO1_UNDER_ASAN __has_feature(address_sanitizer)
#define ZERO1_UNDER_TSAN __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define ZERO1_UNDER_ASAN 1
#else
#define ZERO1_UNDER_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define ZERO1_UNDER_TSAN 1
#else
#define ZERO1_UNDER_TSAN 0
#endif
#endif

namespace zero1::test {

inline constexpr bool under_asan = ZERO1_UNDER_ASAN;
inline constexpr bool under_tsan = ZERO1_UNDER_TSAN;
inline constexpr bool sanitized = under_tsan || under_asan;

}  // namespace zero1::test
