# The CUDA device. nvcc and, for the emulated GPU, an ordinary C++ compiler build the same files.
set(ZERO1_CUDA_DEVICE_SOURCES
  blas.cpp cublas_library.cpp cuda_check.cpp cuda_device.cpp cuda_memory.cpp cuda_stream.cpp gpu_clock.cpp ops_matmul.cpp
  stamp_resolver.cpp
  ops_attention.cu ops_elementwise.cu ops_embedding.cu ops_layernorm.cu ops_loss.cu ops_optimizer.cu
  ops_rows.cu token_fault.cu)
list(TRANSFORM ZERO1_CUDA_DEVICE_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
