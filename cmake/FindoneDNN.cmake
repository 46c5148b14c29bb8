# Finds oneDNN by its header and library: DNNL::dnnl, oneDNN_VERSION. The package's own configuration file
# also wants OpenCL's development files, which nothing here uses.
find_path(oneDNN_INCLUDE_DIR dnnl.hpp)
find_library(oneDNN_LIBRARY dnnl)
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)

if(oneDNN_INCLUDE_DIR)
  foreach(directory ${oneDNN_INCLUDE_DIR} ${oneDNN_INCLUDE_DIR}/oneapi/dnnl)
    if(EXISTS ${directory}/dnnl_version.h)
      file(STRINGS ${directory}/dnnl_version.h lines REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
    endif()
  endforeach()
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." oneDNN_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR VERSION_VAR oneDNN_VERSION)

if(oneDNN_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${oneDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${oneDNN_INCLUDE_DIR})
endif()
