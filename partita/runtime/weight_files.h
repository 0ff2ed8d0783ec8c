// Reads weights in one file or in several, as they are published. The path is MODEL.safetensors, or
// MODEL.safetensors.index.json, which lists the files beside it that have each array. Or it is a folder with
// model.safetensors.index.json or model.safetensors.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/runtime/safetensors.h"

namespace partita {

class WeightFiles {
 public:
  // Reads an index, or the header of the only file. Bad input: a path that is none of the three, a damaged index, a
  // file that is not in the index's folder by its name.
  explicit WeightFiles(const std::string& path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;
  // Returns the places of these arrays. Reads the headers of the files that have them, and of no others. Bad input
  // lists all files that are missing and all arrays that the index places wrongly.
  StoredArrays locate(const std::vector<std::string>& names) const;

 private:
  std::string path_;
  std::map<std::string, std::string> file_of_;  // of each array
};

}  // namespace partita
