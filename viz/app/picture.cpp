#include "viz/app/picture.h"

#define GL_GLEXT_PROTOTYPES  // NOLINT: OpenGL's own switch
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>
#include <fmt/core.h>
#include <imgui.h>
#include <png.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"

namespace zero1::viz {

namespace {

[[noreturn]] void fail_egl(const char* call) {
  throw Error(
      fmt::format("drawing without a display: {} failed (EGL error 0x{:x}); install a driver: libegl1 and "
                  "libgl1-mesa-dri",
                  call, static_cast<unsigned>(eglGetError())));
}

/// A display that needs no screen: Mesa's surfaceless one, else whatever EGL has by default.
EGLDisplay open_display() {
  const char* extensions = eglQueryString(EGL_NO_DISPLAY, EGL_EXTENSIONS);
  if (extensions != nullptr && std::strstr(extensions, "EGL_MESA_platform_surfaceless") != nullptr) {
    EGLDisplay display = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
    if (display != EGL_NO_DISPLAY && eglInitialize(display, nullptr, nullptr) == EGL_TRUE) return display;
  }
  EGLDisplay display = eglGetDisplay(EGL_DEFAULT_DISPLAY);
  if (display == EGL_NO_DISPLAY) fail_egl("eglGetDisplay");
  if (eglInitialize(display, nullptr, nullptr) != EGL_TRUE) fail_egl("eglInitialize");
  return display;
}

}  // namespace

struct Offscreen::Impl {
  int width = 0;
  int height = 0;
  EGLDisplay display = EGL_NO_DISPLAY;
  EGLContext context = EGL_NO_CONTEXT;
  GLuint framebuffer = 0;
  GLuint texture = 0;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (framebuffer != 0) glDeleteFramebuffers(1, &framebuffer);
    if (texture != 0) glDeleteTextures(1, &texture);
    if (display == EGL_NO_DISPLAY) return;
    eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    if (context != EGL_NO_CONTEXT) eglDestroyContext(display, context);
    eglTerminate(display);
  }

  void open() {
    display = open_display();
    if (eglBindAPI(EGL_OPENGL_API) != EGL_TRUE) fail_egl("eglBindAPI(OpenGL)");
    const EGLint wanted[] = {EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_SURFACE_TYPE, EGL_DONT_CARE, EGL_NONE};
    EGLConfig config = nullptr;
    EGLint count = 0;
    if (eglChooseConfig(display, wanted, &config, 1, &count) != EGL_TRUE || count == 0) config = nullptr;
    const EGLint attributes[] = {EGL_CONTEXT_MAJOR_VERSION,
                                 3,
                                 EGL_CONTEXT_MINOR_VERSION,
                                 3,
                                 EGL_CONTEXT_OPENGL_PROFILE_MASK,
                                 EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT,
                                 EGL_NONE};
    context = eglCreateContext(display, config, EGL_NO_CONTEXT, attributes);
    if (context == EGL_NO_CONTEXT) fail_egl("eglCreateContext(OpenGL 3.3)");
    if (eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context) != EGL_TRUE) {
      fail_egl("eglMakeCurrent");
    }
    make_framebuffer();
  }

  void make_framebuffer() {
    GLint largest = 0;
    glGetIntegerv(GL_MAX_TEXTURE_SIZE, &largest);
    if (width > largest || height > largest) {
      throw InputError(
          fmt::format("--size {}x{}: this machine draws at most {} pixels each way", width, height, largest));
    }
    glGenTextures(1, &texture);
    glBindTexture(GL_TEXTURE_2D, texture);
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE, nullptr);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    glGenFramebuffers(1, &framebuffer);
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
    glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, texture, 0);
    if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE) {
      throw Error(fmt::format("drawing without a display: no framebuffer of {}x{} pixels", width, height));
    }
  }
};

Offscreen::Offscreen(int width, int height) : impl_(std::make_unique<Impl>()) {
  impl_->width = width;
  impl_->height = height;
  impl_->open();
}
Offscreen::~Offscreen() = default;

void Offscreen::frame(std::uint32_t clear_colour, const std::function<void()>& draw) {
  glBindFramebuffer(GL_FRAMEBUFFER, impl_->framebuffer);
  glViewport(0, 0, impl_->width, impl_->height);
  const ImVec4 colour = ImGui::ColorConvertU32ToFloat4(clear_colour);
  glClearColor(colour.x, colour.y, colour.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  draw();
}

Picture Offscreen::read() const {
  Picture picture{impl_->width, impl_->height, {}};
  const auto row = static_cast<std::size_t>(picture.width) * 4;
  picture.pixels.resize(row * static_cast<std::size_t>(picture.height));
  glBindFramebuffer(GL_FRAMEBUFFER, impl_->framebuffer);
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, picture.width, picture.height, GL_RGBA, GL_UNSIGNED_BYTE, picture.pixels.data());
  const auto at = [&](int y) { return picture.pixels.begin() + static_cast<std::ptrdiff_t>(row) * y; };
  for (int top = 0, bottom = picture.height - 1; top < bottom; ++top, --bottom) {  // OpenGL's rows go up
    std::swap_ranges(at(top), at(top + 1), at(bottom));
  }
  for (std::size_t i = 3; i < picture.pixels.size(); i += 4) picture.pixels[i] = 255;
  return picture;
}

void write_png(const Picture& picture, const std::string& path) {
  // Without alpha: the window is opaque, and a quarter of the bytes is saved.
  std::vector<std::uint8_t> rgb;
  rgb.reserve(picture.pixels.size() / 4 * 3);
  for (std::size_t i = 0; i + 3 < picture.pixels.size(); i += 4) {
    rgb.insert(rgb.end(), {picture.pixels[i], picture.pixels[i + 1], picture.pixels[i + 2]});
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  const auto check = [&](int ok) {
    if (ok == 0) throw Error(fmt::format("{}: the picture cannot be encoded: {}", path, image.message));
  };
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(bytes, '\0');
  check(png_image_write_to_memory(&image, file.data(), &bytes, 0, rgb.data(), 0, nullptr));
  file.resize(bytes);
  write_file(path, file);
}

}  // namespace zero1::viz
