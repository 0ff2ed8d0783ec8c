// Restores parameters without notes in the file: values that are a parameter's elements, rearranged, and those with
// repeated rows.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/onnx/doubts.h"
#include "partita/onnx/restoring.h"

namespace partita::onnx_model {

namespace {

constexpr int64_t kMostCompared = int64_t{1} << 26;  // elements of a table in which rows are looked for without a hint

class UnsaidRestorer {
 public:
  explicit UnsaidRestorer(Restoring& restoring) : r_(restoring) {}

  // Those of the same number of elements are compared.
  void restore(const std::vector<std::string>& order) {
    std::map<int64_t, std::vector<std::string>> groups;
    bool any = false;
    for (const std::string& name : order) {
      const auto found = r_.model.initializers.find(name);
      if (found == r_.model.initializers.end() || !is_candidate(name, found->second)) continue;
      groups[volume(found->second.shape)].push_back(name);
      any = any || !is_owned(name);
    }
    if (!any) return;
    for (const auto& [count, names] : groups)
      if (names.size() > 1) compare(names);
    for (const auto& [count, names] : groups)
      for (const std::string& name : names)
        if (r_.model.initializers.contains(name) && is_older_exporters(name) && !look_up(name, order))
          take_repeats(name);
  }

 private:
  bool is_candidate(const std::string& name, const Initializer& initializer) const {
    return is_float(initializer.dtype) && volume(initializer.shape) > 1 && initializer.folded_from.empty() &&
           initializer.kind != "BUFFER" && !r_.made_parameters.contains(name) && r_.readers.contains(name);
  }

  // Named by the older exporter after the node that reads it: "onnx::MatMul_12".
  static bool is_older_exporters(const std::string& name) { return name.starts_with("onnx::"); }

  // Names of one size: those that a module owns first, then those that an embedding reads, then the file's order.
  void compare(std::vector<std::string> names) {
    std::stable_sort(names.begin(), names.end(),
                     [&](const std::string& a, const std::string& b) { return rank_of(a) < rank_of(b); });
    std::map<uint64_t, std::vector<std::string>> by_hash, by_rounded;
    for (const std::string& name : names) {
      const Values values = r_.model.initializers.at(name).load();
      const bool is_low = r_.model.initializers.at(name).low.has_value();
      const uint64_t hash = hash_of_elements(values);
      if (!is_owned(name) && !says_nothing(values)) {
        bool done = false;  // true: the model has the initializer no more
        for (const std::string& other : by_hash[hash]) done = done || tie(name, other, values);
        if (is_low)
          for (const std::string& other : by_rounded[hash]) done = done || tie(name, other, values);
        if (done) continue;
      }
      by_hash[hash].push_back(name);
      if (is_owned(name) && !is_low)
        for (DType low : {DType::kFloat16, DType::kBFloat16})
          by_rounded[hash_of_elements(rounded(values, low))].push_back(name);
    }
  }

  int rank_of(const std::string& name) const {
    if (is_owned(name)) return 0;
    const auto& readers = r_.readers.at(name);
    return std::any_of(readers.begin(), readers.end(),
                       [&](const Node* node) { return node->operation == "Gather" && node->inputs[0] == name; })
               ? 1
               : 2;
  }

  bool tie(const std::string& name, const std::string& other, const Values& values) {
    const Initializer &to = r_.model.initializers.at(name), &from = r_.model.initializers.at(other);
    if (!is_weight(r_.model, other, from) || belongs_to_a_copy(name, other)) return false;
    const auto moves = find_moves(as_type_of(to, from), values, true);
    if (!moves) return false;
    // Equal values under names of the file's own can be two parameters; a transposed one nobody makes but from the
    // other.
    const bool is_transpose = moves->takes.empty() && moves->perm.size() >= 2;
    if (!is_older_exporters(name) && !is_transpose) return false;
    if (!is_older_exporters(name) && find_rearranged(as_type_of(to, from), values, false)->is_copy()) return false;
    r_.replace(name, other, *moves, false, true);
    return true;
  }

  // The module that reads the value is a copy of the parameter's.
  bool belongs_to_a_copy(const std::string& name, const std::string& parameter) const {
    std::set<std::string> owners;
    if (is_owned(parameter)) owners.insert(owner_of(parameter));
    else
      for (const Node* node : r_.readers.at(parameter)) owners.insert(node->source.module);
    return std::any_of(r_.readers.at(name).begin(), r_.readers.at(name).end(), [&](const Node* node) {
      const std::string& module = node->source.module;
      return !owners.contains(module) && std::any_of(owners.begin(), owners.end(), [&](const std::string& owner) {
        return without_digits(module) == without_digits(owner);
      });
    });
  }

  // Looks up a smaller value of the older exporter: rows of a table, transposed perhaps. False: of none in the file.
  bool look_up(const std::string& name, const std::vector<std::string>& order) {
    const Initializer to = r_.model.initializers.at(name);
    const int64_t count = volume(to.shape);
    std::optional<Values> values;
    for (const std::string& other : order) {
      const auto from = r_.model.initializers.find(other);
      if (from == r_.model.initializers.end() || other == name || !is_owned(other) ||
          !is_candidate(other, from->second)) {
        continue;
      }
      const int64_t all = volume(from->second.shape);
      if (from->second.shape.size() < 2 || all > kMostCompared || all <= count || from->second.low != to.low) continue;
      if (!values) values = to.load();
      if (says_nothing(*values)) return false;
      if (!has_rows_of(*values, other) || belongs_to_a_copy(name, other)) continue;
      const auto moves = find_moves(as_type_of(to, from->second), *values, false);
      if (!moves || moves->flat) continue;
      r_.replace(name, other, *moves, false, true);
      return true;
    }
    return false;
  }

  // Rows that are there several times, bit for bit, come from one row of a table that the file lacks. A matrix that
  // multiplies is left alone.
  void take_repeats(const std::string& name) {
    const auto& readers = r_.readers.at(name);
    const auto multiplies = [](const Node* node) { return takes_matrices(node->operation); };
    if (std::any_of(readers.begin(), readers.end(), multiplies)) return;
    const Initializer to = r_.model.initializers.at(name);
    const Values values = to.load();
    if (says_nothing(values)) return;
    Repeated repeated = without_repeats(values);
    if (!repeated.expanded && !repeated.moves) return;
    Initializer parameter = to;
    parameter.shape = repeated.whole.shape;
    parameter.kind = "PARAMETER";
    parameter.load = [whole = std::make_shared<const Values>(repeated.whole)] { return *whole; };
    const Moves moves = repeated.moves.value_or(Moves{.shape = repeated.whole.shape});
    r_.replace_by_new(name, name + ".rows", std::move(parameter), moves, repeated.expanded);
  }

  static bool takes_matrices(const std::string& operation) {
    static const std::set<std::string> names{"Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"};
    return names.contains(operation);
  }

  // Tells whether the first slice of the values along some axis is one of the table's rows.
  bool has_rows_of(const Values& values, const std::string& table) {
    auto known = rows_.find(table);
    if (known == rows_.end()) {
      const Values from = r_.model.initializers.at(table).load();
      const auto axis = std::find_if(from.shape.begin(), from.shape.end(), [](int64_t extent) { return extent > 1; });
      const auto rows = hashes_along(from, static_cast<std::size_t>(axis - from.shape.begin()));
      known = rows_.emplace(table, std::set<uint64_t>(rows.begin(), rows.end())).first;
    }
    for (std::size_t a = 0; a < values.shape.size(); ++a)
      if (values.shape[a] > 1 && known->second.contains(hashes_along(values, a)[0])) return true;
    return false;
  }

  Restoring& r_;
  std::map<std::string, std::set<uint64_t>> rows_;  // of a table: hashes of its slices along its first axis
};

}  // namespace

void restore_by_values(Restoring& r, const std::vector<std::string>& order) { UnsaidRestorer(r).restore(order); }

}  // namespace partita::onnx_model
