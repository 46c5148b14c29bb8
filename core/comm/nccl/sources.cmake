# The NCCL communicator; the real and the emulated build both read this list.
set(ZERO1_NCCL_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/clique.cpp
  ${CMAKE_CURRENT_LIST_DIR}/nccl_check.cpp
  ${CMAKE_CURRENT_LIST_DIR}/nccl_communicator.cpp
  ${CMAKE_CURRENT_LIST_DIR}/nccl_world.cpp
  ${CMAKE_CURRENT_LIST_DIR}/watch.cpp)
