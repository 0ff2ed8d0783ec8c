// Finds the origin of a node or a tensor in the metadata that PyTorch's exporters write into the file.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace partita::onnx_model {

// The words of a printed Python list: "['', 'stem', 'stem.conv']".
std::vector<std::string> words_of(const std::string& list);
// The kinds of an exported program's inputs, by name, from its printed signature:
// "p_head_weight: PARAMETER target='head.weight'".
std::map<std::string, std::string> kinds_in(const std::string& signature);
// "train.py:41": the innermost frame of a stack trace that is not inside an installed package.
std::string location_of(const std::string& stack);
// The scopes in a name of the TorchScript exporter: "/layer1/layer1.0/conv1/Conv" is in layer1.0.conv1.
std::vector<std::string> scopes_of_path(const std::string& name);

}  // namespace partita::onnx_model
