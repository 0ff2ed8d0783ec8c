// Compares text with golden files, or rewrites them.
#include "partita/tdl/testing/golden.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "partita/base/error.h"

namespace partita::tdl::testing {

std::string golden_difference(const std::string& name, const std::string& text) {
  std::string path = fmt::format("{}/tests/golden/{}", PARTITA_SOURCE_DIR, name);
  if (std::getenv("PARTITA_UPDATE_GOLDEN")) {
    std::ofstream(path) << text;
    return "";
  }
  std::ifstream file(path);
  if (!file) return path + " cannot be read";
  std::istringstream lines(text);
  std::string got, want, section;
  for (int number = 1;; ++number) {
    bool more = static_cast<bool>(std::getline(lines, got)), more_wanted = static_cast<bool>(std::getline(file, want));
    if (!more && !more_wanted) return "";
    if (more && !got.empty() && got[0] != ' ') section = got;
    if (more && more_wanted && got == want) continue;
    return fmt::format("{}:{} (in '{}')\n  is now:   {}\n  the file: {}\nPARTITA_UPDATE_GOLDEN=1 writes the file anew",
                       path, number, section, more ? got : "nothing", more_wanted ? want : "nothing");
  }
}

}  // namespace partita::tdl::testing
