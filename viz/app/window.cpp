#include "viz/app/window.h"

#define GLFW_INCLUDE_NONE  // NOLINT: GLFW's own switch
#include <GL/gl.h>
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "viz/app/fonts.h"
#include "viz/app/input_queue.h"
#include "viz/app/picture.h"
#include "viz/app/session.h"

namespace zero1::viz {

namespace {

constexpr const char* glsl_version = "#version 330";
constexpr int frames_to_settle = 4;
constexpr int most_frames = 2000;  // of a picture that is not finished

/// ImGui's context, with the names of parameters and layers in its fonts.
class Context {
 public:
  explicit Context(const Document& document) : texts_(document.info.params) {
    IMGUI_CHECKVERSION();
    ImGui::CreateContext();
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.LogFilename = nullptr;
    texts_.insert(texts_.end(), document.info.layers.begin(), document.info.layers.end());
    texts_.push_back(document.title);
    if (document.layout != nullptr) {
      for (const ParamSpec& spec : document.layout->specs) texts_.push_back(spec.name);
    }
    files_ = find_fonts();
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { ImGui::DestroyContext(); }

  void scale_fonts(float scale) { load_fonts(files_, scale, texts_); }

 private:
  std::vector<std::string> texts_;
  FontFiles files_;
};

/// The OpenGL side of ImGui; needs the OpenGL context to be current.
struct Renderer {
  Renderer() {
    if (!ImGui_ImplOpenGL3_Init(glsl_version)) throw Error("OpenGL 3.3 could not be set up");
  }
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;
  ~Renderer() { ImGui_ImplOpenGL3_Shutdown(); }
};

std::string& last_glfw_error() {
  static std::string text;
  return text;
}

[[noreturn]] void fail_display() {
  throw InputError(
      fmt::format("no window can be opened ({}). Without a display, draw into a file: --screenshot OUT.png",
                  last_glfw_error()));
}

InputQueue& of(GLFWwindow* window) {
  return *static_cast<InputQueue*>(glfwGetWindowUserPointer(window));
}

/// Lets `input` hear of everything that happens in `window`, whose user pointer it becomes.
void listen(GLFWwindow* window, InputQueue& input) {
  glfwSetWindowUserPointer(window, &input);
  glfwSetKeyCallback(window, [](GLFWwindow* from, int key, int, int action, int) {
    if (action != GLFW_REPEAT) of(from).key(key, action == GLFW_PRESS);  // ImGui repeats by itself
  });
  glfwSetCharCallback(window, [](GLFWwindow* from, unsigned letter) { of(from).character(letter); });
  glfwSetMouseButtonCallback(window, [](GLFWwindow* from, int button, int action, int) {
    of(from).button(button, action == GLFW_PRESS);
  });
  glfwSetCursorPosCallback(window, [](GLFWwindow* from, double x, double y) {
    of(from).move({static_cast<float>(x), static_cast<float>(y)});
  });
  glfwSetCursorEnterCallback(window, [](GLFWwindow* from, int entered) {
    if (entered == GLFW_FALSE) of(from).leave();
  });
  glfwSetScrollCallback(window, [](GLFWwindow* from, double x, double y) {
    of(from).wheel({static_cast<float>(x), static_cast<float>(y)});
  });
  // GLFW lets go of all keys and buttons by itself as the window loses them.
  glfwSetWindowFocusCallback(window, ImGui_ImplGlfw_WindowFocusCallback);
}

/// GLFW and its one window.
class Display {
 public:
  Display(const std::string& title, int width, int height) {
    glfwSetErrorCallback([](int, const char* text) { last_glfw_error() = text; });
    if (glfwInit() != GLFW_TRUE) fail_display();
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
    glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
    window_ = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
    if (window_ == nullptr) {
      glfwTerminate();
      fail_display();
    }
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(1);
    ImGui_ImplGlfw_InitForOpenGL(window_, false);
    listen(window_, input_);
    ImGui::GetIO().ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
  }
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;
  ~Display() {
    ImGui_ImplGlfw_Shutdown();
    glfwDestroyWindow(window_);
    glfwTerminate();
  }

  GLFWwindow* window() const { return window_; }
  InputQueue& input() { return input_; }
  float scale() const {
    float x = 1;
    float y = 1;
    glfwGetWindowContentScale(window_, &x, &y);
    return std::clamp(std::max(x, y), 0.5F, 8.0F);
  }

 private:
  GLFWwindow* window_ = nullptr;
  InputQueue input_;
};

void render(const Display& display, Shell& shell) {
  int width = 0;
  int height = 0;
  glfwGetFramebufferSize(display.window(), &width, &height);
  glViewport(0, 0, width, height);
  const ImVec4 ground = ImGui::ColorConvertU32ToFloat4(shell.theme().grid());
  glClearColor(ground.x, ground.y, ground.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  glfwSwapBuffers(display.window());
}

/// Waits for input, not longer than until the picture may change by itself.
void wait_for_events(const Document& document, int& busy_frames) {
  constexpr double live_s = 1.0 / 40;
  constexpr double idle_s = 0.5;
  if (busy_frames > 0) {
    --busy_frames;
    glfwPollEvents();
    return;
  }
  const double before = glfwGetTime();
  const double limit = moving(document) ? live_s : idle_s;
  glfwWaitEventsTimeout(limit);
  if (glfwGetTime() - before < limit * 0.95) busy_frames = 3;  // input takes ImGui a few frames
}

}  // namespace

void show_window(Document document, Preferences preferences, const WindowOptions& options) {
  Context context(document);
  const std::string title = "ZeRO-1 Lab: " + document.title;
  Display display(title, preferences.width, preferences.height);
  Renderer renderer;
  if (!options.config_folder.empty())
    ImGui::LoadIniSettingsFromDisk((options.config_folder + "/imgui.ini").c_str());
  const auto wanted_scale = [&] { return options.scale > 0 ? options.scale : display.scale(); };
  float scale = wanted_scale();
  context.scale_fonts(scale);
  Shell shell(std::move(document), std::move(preferences), scale);
  if (!options.tab.empty()) shell.show_tab(options.tab);
  int busy_frames = frames_to_settle;
  for (int frame = 0; options.frames == 0 || frame < options.frames; ++frame) {
    if (display.input().waiting() || shell.unfinished()) busy_frames = std::max(busy_frames, 1);
    wait_for_events(shell.document(), busy_frames);
    if (glfwWindowShouldClose(display.window()) == GLFW_TRUE || shell.quit()) break;
    if (options.frames > 0) busy_frames = 1;
    if (wanted_scale() != scale) {
      scale = wanted_scale();
      context.scale_fonts(scale);
      shell.set_scale(scale);
      ImGui_ImplOpenGL3_DestroyFontsTexture();
      ImGui_ImplOpenGL3_CreateFontsTexture();
    }
    update(shell.document());
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
    display.input().deliver(ImGui::GetIO());
    ImGui::NewFrame();
    shell.draw();
    ImGui::Render();
    render(display, shell);
  }
  if (options.config_folder.empty()) return;
  glfwGetWindowSize(display.window(), &shell.preferences().width, &shell.preferences().height);
  save_preferences(options.config_folder, shell.preferences());
  ImGui::SaveIniSettingsToDisk((options.config_folder + "/imgui.ini").c_str());
}

void take_picture(Document document, Preferences preferences, const PictureOptions& options) {
  Context context(document);
  Offscreen target(options.width, options.height);
  Renderer renderer;
  context.scale_fonts(options.scale);
  Shell shell(std::move(document), std::move(preferences), options.scale);
  if (!options.tab.empty()) shell.show_tab(options.tab);
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(options.width), static_cast<float>(options.height)};
  io.DeltaTime = 1.0F / 60;
  const int frames = options.frames > 0 ? options.frames : frames_to_settle;
  const auto goes_on = [&](int frame) {
    return frame < frames || (options.frames == 0 && frame < most_frames && shell.unfinished());
  };
  for (int frame = 0; goes_on(frame); ++frame) {
    update(shell.document());
    ImGui_ImplOpenGL3_NewFrame();
    ImGui::NewFrame();
    shell.draw();
    ImGui::Render();
  }
  target.frame(shell.theme().grid(), [] { ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData()); });
  write_png(target.read(), options.path);
}

}  // namespace zero1::viz
