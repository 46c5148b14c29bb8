# `cmake --install`: the programs, and the package Zero1Lab (docs/library.md). It may be moved as a whole: nothing
# in it names the folder that it was built in or installed to.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Zero1Lab)

# zero1_export(TARGET NAME …): the libraries by the names that users know, Zero1Lab::NAME.
function(zero1_export)
  while(ARGN)
    list(POP_FRONT ARGN target name)
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    add_library(Zero1Lab::${name} ALIAS ${target})
    install(TARGETS ${target} EXPORT Zero1LabTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endwhile()
endfunction()

# The three to link with; then what they are made of.
zero1_export(zero1_train core  zero1_ckpt_train ckpt  zero1_trace trace
  zero1_base base  zero1_layout layout  zero1_device device  zero1_comm comm  zero1_data data  zero1_model model
  zero1_pipeline pipeline  zero1_ckpt ckpt_files)
if(ZERO1_HAVE_CUDA)
  zero1_export(zero1_cuda_train cuda  zero1_cuda cuda_device  zero1_cuda_comm cuda_comm)
endif()

# Of a backend's folder only the header that makes it: the others are its own, and depend on its compiler flags.
install(DIRECTORY core ckpt DESTINATION ${ZERO1_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h
  REGEX "core/(device|comm)/[a-z_]+$" EXCLUDE)
set(backends device/cpu/cpu_device.h comm/local/local_world.h)
if(ZERO1_HAVE_CUDA)
  list(APPEND backends device/cuda/cuda_device.h comm/local_gpu/local_gpu_world.h comm/nccl/nccl_world.h)
endif()
foreach(header ${backends})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES core/${header} DESTINATION ${ZERO1_INSTALL_INCLUDEDIR}/core/${folder})
endforeach()

configure_package_config_file(cmake/Zero1LabConfig.cmake.in Zero1LabConfig.cmake INSTALL_DESTINATION ${package_folder}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/Zero1LabConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/Zero1LabConfig.cmake ${PROJECT_BINARY_DIR}/Zero1LabConfigVersion.cmake
  cmake/FindoneDNN.cmake cmake/FindNCCL.cmake DESTINATION ${package_folder})
install(EXPORT Zero1LabTargets NAMESPACE Zero1Lab:: DESTINATION ${package_folder})

install(TARGETS zero1 RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(ZERO1_HAVE_VIZ)
  install(TARGETS zero1_viz RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
