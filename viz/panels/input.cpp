#include "viz/panels/input.h"

#if IMGUI_VERSION_NUM >= 18700
#include <array>

namespace zero1::viz::input {
namespace {

struct Run {
  int first;  ///< GLFW's
  int count;
  ImGuiKey name;  ///< of the first; the others follow
};

constexpr std::array runs{
    Run{'0', 10, ImGuiKey_0},
    Run{'A', 26, ImGuiKey_A},
    Run{290, 12, ImGuiKey_F1},
    Run{320, 10, ImGuiKey_Keypad0},
    Run{' ', 1, ImGuiKey_Space},
    Run{'\'', 1, ImGuiKey_Apostrophe},
    Run{',', 1, ImGuiKey_Comma},
    Run{'-', 1, ImGuiKey_Minus},
    Run{'.', 1, ImGuiKey_Period},
    Run{'/', 1, ImGuiKey_Slash},
    Run{';', 1, ImGuiKey_Semicolon},
    Run{'=', 1, ImGuiKey_Equal},
    Run{'[', 1, ImGuiKey_LeftBracket},
    Run{'\\', 1, ImGuiKey_Backslash},
    Run{']', 1, ImGuiKey_RightBracket},
    Run{'`', 1, ImGuiKey_GraveAccent},
    Run{256, 1, ImGuiKey_Escape},
    Run{257, 1, ImGuiKey_Enter},
    Run{258, 1, ImGuiKey_Tab},
    Run{259, 1, ImGuiKey_Backspace},
    Run{260, 1, ImGuiKey_Insert},
    Run{261, 1, ImGuiKey_Delete},
    Run{262, 1, ImGuiKey_RightArrow},
    Run{263, 1, ImGuiKey_LeftArrow},
    Run{264, 1, ImGuiKey_DownArrow},
    Run{265, 1, ImGuiKey_UpArrow},
    Run{266, 1, ImGuiKey_PageUp},
    Run{267, 1, ImGuiKey_PageDown},
    Run{268, 1, ImGuiKey_Home},
    Run{269, 1, ImGuiKey_End},
    Run{330, 1, ImGuiKey_KeypadDecimal},
    Run{331, 1, ImGuiKey_KeypadDivide},
    Run{332, 1, ImGuiKey_KeypadMultiply},
    Run{333, 1, ImGuiKey_KeypadSubtract},
    Run{334, 1, ImGuiKey_KeypadAdd},
    Run{335, 1, ImGuiKey_KeypadEnter},
    Run{336, 1, ImGuiKey_KeypadEqual},
    Run{340, 1, ImGuiKey_LeftShift},
    Run{341, 1, ImGuiKey_LeftCtrl},
    Run{342, 1, ImGuiKey_LeftAlt},
    Run{343, 1, ImGuiKey_LeftSuper},
    Run{344, 1, ImGuiKey_RightShift},
    Run{345, 1, ImGuiKey_RightCtrl},
    Run{346, 1, ImGuiKey_RightAlt},
    Run{347, 1, ImGuiKey_RightSuper},
    Run{348, 1, ImGuiKey_Menu},
};

}  // namespace

ImGuiKey key_of(int glfw_key) {
  for (const Run& run : runs) {
    if (glfw_key < run.first || glfw_key >= run.first + run.count) continue;
    return static_cast<ImGuiKey>(run.name + glfw_key - run.first);
  }
  return ImGuiKey_None;
}

}  // namespace zero1::viz::input
#endif
