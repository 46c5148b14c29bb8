# What the window needs: Dear ImGui, GLFW, OpenGL 3, EGL (pictures without a display), libpng. Sets
# ZERO1_HAVE_VIZ; without it `zero1_viz` is not built, and this says what to install.
pkg_check_modules(imgui IMPORTED_TARGET imgui)
pkg_check_modules(viz_libraries IMPORTED_TARGET glfw3 egl gl libpng freetype2)
if(ZERO1_SANITIZE MATCHES "thread")
  set(ZERO1_HAVE_VIZ OFF)
  message(STATUS "Window: no, ThreadSanitizer builds end at its model, where the threads are")
elseif(imgui_FOUND AND viz_libraries_FOUND)
  set(ZERO1_HAVE_VIZ ON)
  message(STATUS "Window: yes (Dear ImGui ${imgui_VERSION}, GLFW ${viz_libraries_glfw3_VERSION})")
else()
  set(ZERO1_HAVE_VIZ OFF)
  message(STATUS "Window: no, install libimgui-dev libglfw3-dev libgl-dev libegl-dev libpng-dev libfreetype-dev")
endif()
