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

# zero1_precompile(TARGET HEADER …): where clang compiles files one by one, and the target has enough of them to gain
# by it, reads what most of them include once for all: the given headers and these. g++ compiles without, since it
# would then warn of the standard library's own code; so no file can count on it.
function(zero1_precompile target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  get_target_property(together ${target} UNITY_BUILD)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT together AND count GREATER 6)
    target_precompile_headers(${target} PRIVATE ${ARGN} <fmt/format.h> <nlohmann/json.hpp> <algorithm> <functional>
      <map> <memory> <mutex> <optional> <string> <vector>)
  endif()
endfunction()

# zero1_library(NAME [APART] SOURCES … PRECOMPILE … LINK …): a static library of the core. APART: its files are not
# made to be compiled together, for example since every command has its `Flags`. The build's own rules stay in
# it: who uses it installed gets its headers, its dependencies and C++20.
function(zero1_library name)
  cmake_parse_arguments(ARG "APART" "" "SOURCES;PRECOMPILE;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:zero1_options> ${ARG_LINK})
  target_include_directories(${name} PUBLIC $<INSTALL_INTERFACE:${ZERO1_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  if(ZERO1_UNITY AND NOT ARG_APART)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
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

# zero1_tests(PREFIX [APART] LINK …): the *_test.cpp here become one doctest program, PREFIX_tests, and each file one
# CTest test of it, PREFIX_<file name without _test>. APART: a program each, named as its test, where test cases stand
# in headers or a program is run for itself. THREADS: those that have threads, and so all that ThreadSanitizer is
# asked about (ZERO1_EVERY_TEST: it is asked about every one). Tests that need more than 60 s under a sanitizer are
# too long.
function(zero1_tests prefix)
  cmake_parse_arguments(ARG "APART" "" "THREADS;LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  if(ARG_THREADS AND ZERO1_SANITIZE MATCHES "thread" AND NOT ZERO1_EVERY_TEST)
    list(JOIN ARG_THREADS "|" threads)
    list(FILTER sources INCLUDE REGEX "/(${threads})_test[.]cpp$")
  endif()
  if(NOT ARG_APART)
    zero1_test_program(${prefix}_tests SOURCES ${sources} LINK ${ARG_LINK})
  endif()
  foreach(source ${sources})
    get_filename_component(file ${source} NAME)
    string(REGEX REPLACE "_test[.]cpp$" "" stem ${file})
    set(test ${prefix}_${stem})
    if(ARG_APART)
      zero1_test_program(${test} SOURCES ${source} LINK ${ARG_LINK})
      add_test(NAME ${test} COMMAND ${test})
    else()
      add_test(NAME ${test} COMMAND ${prefix}_tests --source-file=*/${file})
    endif()
    set_tests_properties(${test} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

function(zero1_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE zero1_test_main ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM zero1_test_main)
endfunction()
