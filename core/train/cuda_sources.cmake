# Runs on GPUs; the real and the emulated build both read this list.
set(ZERO1_CUDA_TRAIN_SOURCES ${CMAKE_CURRENT_LIST_DIR}/machine_cuda.cpp)
