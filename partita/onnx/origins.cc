// Reads the origins of nodes and tensors from the metadata of PyTorch's exporters.
#include "partita/onnx/origins.h"

#include <sstream>

#include "partita/base/error.h"

namespace partita::onnx_model {

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = list.find('\''); at != std::string::npos; at = list.find('\'', at + 1)) {
    const std::size_t end = list.find('\'', at + 1);
    if (end == std::string::npos) break;
    words.push_back(list.substr(at + 1, end - at - 1));
    at = end;
  }
  return words;
}

std::map<std::string, std::string> kinds_in(const std::string& signature) {
  std::map<std::string, std::string> kinds;
  std::istringstream lines(signature);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": "), target = line.find(" target='");
    const std::size_t end = target == std::string::npos ? target : line.find('\'', target + 9);
    if (colon == std::string::npos || end == std::string::npos || colon + 2 > target) continue;
    kinds[line.substr(target + 9, end - target - 9)] = line.substr(colon + 2, target - colon - 2);
  }
  return kinds;
}

std::string location_of(const std::string& stack) {
  std::string location;
  for (std::size_t at = stack.find("File \""); at != std::string::npos; at = stack.find("File \"", at + 1)) {
    const std::size_t end = stack.find("\", line ", at);
    if (end == std::string::npos) break;
    const std::string file = stack.substr(at + 6, end - at - 6);
    if (file.starts_with("torch/") || file.find("site-packages/") != std::string::npos ||
        file.find("/torch/nn/") != std::string::npos)
      continue;
    std::size_t digits = end + 8;
    while (digits < stack.size() && stack[digits] >= '0' && stack[digits] <= '9') ++digits;
    location = fmt::format("{}:{}", file, stack.substr(end + 8, digits - end - 8));
  }
  return location;
}

std::vector<std::string> scopes_of_path(const std::string& name) {
  std::vector<std::string> scopes{""};
  std::size_t at = 1;
  for (std::size_t slash = name.find('/', at); slash != std::string::npos; at = slash + 1, slash = name.find('/', at)) {
    const std::string part = name.substr(at, slash - at), &outer = scopes.back();
    const std::string last = outer.substr(outer.rfind('.') == std::string::npos ? 0 : outer.rfind('.') + 1);
    if (outer.empty()) scopes.push_back(part);
    else if (part.starts_with(last + ".")) scopes.push_back(outer.substr(0, outer.size() - last.size()) + part);
    else scopes.push_back(fmt::format("{}.{}", outer, part));
  }
  scopes.push_back(name.substr(at));
  return scopes;
}

}  // namespace partita::onnx_model
