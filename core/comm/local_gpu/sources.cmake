# The in-process communicator on GPUs; the real and the emulated build both read this list.
set(ZERO1_LOCAL_GPU_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/collectives.cpp
  ${CMAKE_CURRENT_LIST_DIR}/local_gpu_communicator.cpp
  ${CMAKE_CURRENT_LIST_DIR}/local_gpu_world.cpp
  ${CMAKE_CURRENT_LIST_DIR}/reduce.cu)
