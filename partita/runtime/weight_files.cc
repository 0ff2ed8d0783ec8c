// Finds arrays in one file of weights, or in several with an index.
#include "partita/runtime/weight_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/json_nesting.h"

namespace partita {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The file of weights or the index at a path.
std::string resolved(const std::string& path) {
  if (!is_folder(path)) return path;
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"})
    if (std::string file = (fs::path(path) / name).string(); is_regular_file(file)) return file;
  fail("{}: the folder has neither model.safetensors nor model.safetensors.index.json", path);
}

std::map<std::string, std::string> read_index(const std::string& path) {
  const std::string text = read_file(path, "an index of weights", kMostOfDescription);
  validate_json_depth(text, path);
  const json index = json::parse(text, nullptr, false);
  const json* map = index.is_object() && index.contains("weight_map") ? &index["weight_map"] : nullptr;
  if (!map || !map->is_object())
    fail("{}: not an index of weights: it needs an object weight_map, from arrays to files", path);
  std::map<std::string, std::string> file_of;
  for (const auto& [name, file] : map->items()) {
    const fs::path relative = file.is_string() ? fs::path(file.get<std::string>()) : fs::path();
    bool inside = !relative.empty() && relative.is_relative();
    for (const fs::path& part : relative) inside = inside && part != "..";
    if (!inside) fail("{}: array '{}' is in {}; a file in the index's folder is needed", path, name, file.dump());
    file_of[name] = (fs::path(path).parent_path() / relative).string();
  }
  return file_of;
}

}  // namespace

WeightFiles::WeightFiles(const std::string& path) : path_(resolved(path)) {
  if (path_.ends_with(".json")) {
    file_of_ = read_index(path_);
  } else {
    for (const auto& [name, array] : list_safetensors(path_)) file_of_[name] = path_;
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

StoredArrays WeightFiles::locate(const std::vector<std::string>& names) const {
  std::set<std::string> files;
  for (const std::string& name : names) files.insert(file_of_.at(name));
  std::vector<std::string> missing;
  for (const std::string& file : files)
    if (!is_regular_file(file)) missing.push_back(file);
  if (!missing.empty())
    fail("{}: {} missing: {}", path_, missing.size() == 1 ? "a file is" : "files are", fmt::join(missing, ", "));
  std::map<std::string, StoredArrays> headers;
  for (const std::string& file : files) headers[file] = list_safetensors(file);
  StoredArrays located;
  for (const std::string& name : names) {
    const StoredArrays& arrays = headers.at(file_of_.at(name));
    const auto found = arrays.find(name);
    if (found != arrays.end()) located[name] = found->second;
    else missing.push_back(fmt::format("'{}' in {}", name, file_of_.at(name)));
  }
  if (!missing.empty()) fail("{}: arrays are not where the index says: {}", path_, fmt::join(missing, ", "));
  return located;
}

}  // namespace partita
