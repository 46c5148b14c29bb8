# gpu_bench; the real and the emulated build both read this list.
set(ZERO1_GPU_BENCH_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/gpu_bench.cpp
  ${CMAKE_CURRENT_LIST_DIR}/figures.cpp
  ${CMAKE_CURRENT_LIST_DIR}/operations.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collectives.cpp
  ${CMAKE_CURRENT_LIST_DIR}/training.cpp)
