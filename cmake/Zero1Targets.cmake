# The compile rules of every target, and one-line helpers that make targets by them.

add_library(zero1_options INTERFACE)
target_include_directories(zero1_options INTERFACE ${PROJECT_SOURCE_DIR})
# The C++ compiler's flags. What nvcc compiles gets its own, in core/device/CMakeLists.txt.
set(flags
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -Werror
  # One elementwise loop must give the same bits in its vector body and in its tail.
  -ffp-contract=off -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105329).
  list(APPEND flags -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # g++ 13 takes every reference for dangling that a function returns which was given a temporary (GCC bug 107532).
  # What its optimiser guesses differs from release to release; such a warning is shown, and ends no build.
  list(APPEND flags -Wno-dangling-reference -Wno-error=array-bounds -Wno-error=free-nonheap-object
    -Wno-error=maybe-uninitialized -Wno-error=nonnull -Wno-error=stringop-overflow -Wno-error=stringop-overread)
endif()
# A target may name another processor than the build's.
define_property(TARGET PROPERTY ZERO1_PROCESSOR INITIALIZE_FROM_VARIABLE ZERO1_PROCESSOR)
set(processor $<TARGET_PROPERTY:ZERO1_PROCESSOR>)
list(APPEND flags $<$<BOOL:${processor}>:-march=${processor}>)
if(ZERO1_SANITIZE)
  list(APPEND flags -fsanitize=${ZERO1_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(zero1_options INTERFACE -fsanitize=${ZERO1_SANITIZE})
  # A hundred programs, each with the sanitizer's runtime: lld links them in a fraction of ld's time.
  find_program(ZERO1_LLD ld.lld)
  if(ZERO1_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_link_options(zero1_options INTERFACE -fuse-ld=lld)
  endif()
endif()
target_compile_options(zero1_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")

# zero1_precompile(TARGET HEADER …): where clang compiles, and the target has files enough to gain by it, reads what
# most of them include once for all: the given headers and these. g++ compiles without, since it would then warn of
# the standard library's own code; so no file can count on it.
function(zero1_precompile target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND count GREATER 6)
    target_precompile_headers(${target} PRIVATE ${ARGN} <fmt/format.h> <nlohmann/json.hpp> <algorithm> <functional>
      <map> <memory> <mutex> <optional> <string> <vector>)
  endif()
endfunction()

# zero1_library(NAME SOURCES … PRECOMPILE … LINK …): a static library of the core. The build's own rules stay in it:
# who uses it installed gets its headers, its dependencies and C++20.
function(zero1_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PRECOMPILE;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:zero1_options> ${ARG_LINK})
  target_include_directories(${name} PUBLIC $<INSTALL_INTERFACE:${ZERO1_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  zero1_precompile(${name} ${ARG_PRECOMPILE})
endfunction()

# zero1_command_line(TARGET …): code that reads flags. It runs once, and CLI11 takes up to half a minute a file
# to optimise.
function(zero1_command_line)
  foreach(target ${ARGN})
    if(ZERO1_SANITIZE)
      target_compile_options(${target} PRIVATE -O0)
    else()
      target_compile_options(${target} PRIVATE -O1)
    endif()
  endforeach()
endfunction()

# zero1_tests(PREFIX LINK …): every *_test.cpp here becomes one doctest program and one CTest test,
# PREFIX_<file name without _test>. Tests that need more than 60 s under a sanitizer are too long.
function(zero1_tests prefix)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" stem ${stem})
    set(target ${prefix}_${stem})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE zero1_test_main ${ARG_LINK})
    target_precompile_headers(${target} REUSE_FROM zero1_test_main)
    add_test(NAME ${target} COMMAND ${target})
    set_tests_properties(${target} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
  endforeach()
endfunction()
