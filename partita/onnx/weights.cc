// Finds the parameters that operands read.
#include "partita/onnx/weights.h"

#include <algorithm>

#include "partita/onnx/doubts.h"
#include "partita/onnx/folded.h"
#include "partita/onnx/moves.h"

namespace partita::onnx_model {
namespace {

class Finder {
 public:
  Finder(const Model& model, const std::set<std::string>& settings, bool load_weights)
      : model_(model), settings_(settings), load_weights_(load_weights) {
    for (const Node& node : model_.nodes)
      for (const std::string& name : node.outputs) producer_[name] = &node;
  }

  WeightReads find() {
    find_weights();
    find_clones();
    return std::move(found_);
  }

 private:
  void find_weights() {
    for (const Node& node : model_.nodes) {
      if (node.operation != "MatMul" || !node.domain.empty() || node.inputs.size() != 2) continue;
      const std::string& name = node.inputs[1];
      const auto producer = producer_.find(name);
      if (producer == producer_.end()) continue;
      const Node& transpose = *producer->second;
      const auto perm = transpose.attributes.find("perm");
      const auto* order =
          perm == transpose.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&perm->second);
      if (transpose.operation == "Transpose" && transpose.domain.empty() && transpose.inputs.size() == 1 && order &&
          *order == std::vector<int64_t>{1, 0})
        found_.untransposed[name] = transpose.inputs[0];
    }
  }

  // Exporters merge initializers that are equal: those of layers that are copies of each other, and all fresh scales
  // and biases. Weights that only begin equal must be trained apart. So a reader of `layers.0.norm.weight` in the
  // module layers.1.norm has a weight of its own. So has a reader in another module of a weight that is filled with one
  // number, or with two as the identity matrix is. PyTorch's older exporter leaves an Identity under the merged one's
  // name. The newer one leaves only the module of the reading node, and only its optimizer merges.
  void find_clones() {
    std::set<std::string> modules;
    for (const Node& node : model_.nodes) modules.insert(node.source.module);
    if (!model_.from_dynamo)
      for (const Node& node : model_.nodes)
        for (const std::string& name : node.inputs)
          if (name.starts_with("onnx::") && node.operation != "Identity")
            reading_module_.emplace(name, module_called(node.source.module, modules));
    const bool optimized = model_.from_dynamo && std::none_of(model_.nodes.begin(), model_.nodes.end(),
                                                              [](const Node& n) { return n.operation == "Constant"; });
    for (const Node& node : model_.nodes) {
      if (node.operation == "Identity" && node.inputs.size() == 1 && node.outputs.size() == 1 && !model_.from_dynamo) {
        const std::string &from = node.inputs[0], &name = node.outputs[0];
        if (is_own_weight(from, name) && name.find('/') == std::string::npos) found_.clones[name] = from;
      } else if (optimized && !node.source.module.empty()) {
        find_renamed(node);
      }
    }
  }

  // Operands of a node of the newer exporter that are weights of other modules.
  void find_renamed(const Node& node) {
    const std::vector<std::string> inputs = found_.inputs_of(node);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string& from = inputs[i];
      const std::size_t dot = from.rfind('.');
      if (dot == std::string::npos) continue;
      const std::string owner = from.substr(0, dot), &module = node.source.module;
      const bool related = owner == module || owner.starts_with(module + ".") || module.starts_with(owner + ".");
      if (related) continue;
      const std::string name = counterpart(from, module);
      if (is_own_weight(from, name)) {
        found_.clones[name] = from;
        found_.renamed[{&node, i}] = name;
      }
    }
  }

  // The parameter's name in another module: layers.0.attention.out.weight read in layers.1.attention is
  // layers.1.attention.out.weight; a.norm.weight read in b.norm is b.norm.weight.
  static std::string counterpart(const std::string& parameter, const std::string& module) {
    std::size_t end = 0;
    for (auto parts = std::count(module.begin(), module.end(), '.') + 1; parts > 0 && end != std::string::npos; --parts)
      end = parameter.find('.', end + 1);
    if (end != std::string::npos && without_digits(parameter.substr(0, end)) == without_digits(module))
      return module + parameter.substr(end);
    return module + parameter.substr(parameter.rfind('.'));
  }

  // Tells whether `name`, which reads the parameter `from`, is another parameter that only began equal.
  bool is_own_weight(const std::string& from, const std::string& name) {
    const auto found = model_.initializers.find(from);
    if (found == model_.initializers.end() || name == from ||
        !is_trained(model_, settings_, found->first, found->second) || model_.initializers.contains(name))
      return false;
    std::string one = from, other = name;
    // The older exporter names a matrix that it has transposed by a number: the modules that read it tell.
    if (from.starts_with("onnx::")) {
      one = reading_module_[from], other = reading_module_[name];
      if (one == other) return false;  // a module that is called twice
    }
    if (without_digits(one) == without_digits(other)) return true;
    return load_weights_ && says_nothing(found->second.load());
  }

  // The module of the older exporter's scope: "head_1" is the second call of "head", unless it has parameters of its
  // own.
  std::string module_called(const std::string& module, const std::set<std::string>& modules) const {
    const std::size_t digits = module.find_last_not_of("0123456789");
    if (digits == std::string::npos || digits + 1 == module.size() || module[digits] != '_') return module;
    const auto next = model_.initializers.lower_bound(module + ".");
    const bool is_own = next != model_.initializers.end() && next->first.starts_with(module + ".");
    return is_own || !modules.contains(module.substr(0, digits)) ? module : module.substr(0, digits);
  }

  const Model& model_;
  const std::set<std::string>& settings_;
  const bool load_weights_;
  std::map<std::string, const Node*> producer_;        // of a name
  std::map<std::string, std::string> reading_module_;  // of a matrix that the older exporter has transposed
  WeightReads found_;
};

}  // namespace

std::set<std::string> running_statistics(const std::vector<Node>& nodes) {
  std::set<std::string> names;
  for (const Node& node : nodes)
    if (node.operation == "BatchNormalization" && node.inputs.size() == 5)
      for (std::size_t i : {3, 4}) names.insert(node.inputs[i]);
  return names;
}

std::set<std::string> settings_of(const std::vector<Node>& nodes) {
  static const std::map<std::string, std::vector<std::size_t>> kSettings{{"Resize", {1, 2}},
                                                                         {"Clip", {1, 2}},
                                                                         {"Pad", {2}},
                                                                         {"OneHot", {2}},
                                                                         {"Dropout", {1}},
                                                                         {"Range", {0, 1, 2}},
                                                                         {"Upsample", {1}},
                                                                         {"GroupQueryAttention", {7, 8}},
                                                                         {"RotaryEmbedding", {1, 2, 3}}};
  std::set<std::string> names;
  for (const Node& node : nodes)
    if (const auto found = kSettings.find(node.operation); found != kSettings.end())
      for (std::size_t i : found->second)
        if (i < node.inputs.size()) names.insert(node.inputs[i]);
  return names;
}

bool is_trained(const Model& model, const std::set<std::string>& settings, const std::string& name,
                const Initializer& initializer) {
  return is_weight(model, name, initializer) && (initializer.kind == "PARAMETER" || !settings.contains(name));
}

bool WeightReads::reads_transposed(const Node& node) const {
  return node.operation == "MatMul" && node.domain.empty() && node.inputs.size() == 2 &&
         untransposed.contains(node.inputs[1]);
}

std::vector<std::string> WeightReads::inputs_of(const Node& node) const {
  std::vector<std::string> inputs = node.inputs;
  if (reads_transposed(node)) inputs[1] = untransposed.at(node.inputs[1]);
  for (std::size_t i = 0; i < inputs.size() && !renamed.empty(); ++i)
    if (const auto found = renamed.find({&node, i}); found != renamed.end()) inputs[i] = found->second;
  return inputs;
}

WeightReads weight_reads(const Model& model, const std::set<std::string>& settings, bool load_weights) {
  return Finder(model, settings, load_weights).find();
}

}  // namespace partita::onnx_model
