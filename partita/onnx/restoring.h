// Shared by the two ways of restoring parameters: the model on the way, and the nodes that make a value from a
// parameter.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "partita/onnx/folded.h"
#include "partita/onnx/model.h"
#include "partita/onnx/moves.h"

namespace partita::onnx_model {

struct Restoring {
  Restoring(Model& of, bool with_weights);

  Model& model;
  const bool load_weights;
  std::map<std::string, std::vector<const Node*>> readers;  // in the file
  std::set<std::string> made_parameters;                    // that the file lacks
  std::vector<Node> made;                                   // nodes, which come before the file's
  FoldedValues found;

  // Replaces the initializer `name` by the parameter `source`, moved. `expanded`: and expanded to its own shape.
  // `tied`: the parameter is read elsewhere too.
  void replace(const std::string& name, const std::string& source, const Moves& moves, bool expanded, bool tied);
  // The same for a parameter that the file lacks.
  void replace_by_new(const std::string& name, const std::string& source, Initializer parameter, const Moves& moves,
                      bool expanded);
  void freeze(const std::string& name, const std::vector<std::string>& from);

 private:
  // Adds an initializer with these numbers; returns its name.
  std::string integers_of(const std::string& name, std::size_t step, Values values);
};

// Restores values whose parameters PyTorch's newer exporter names.
void restore_from_notes(Restoring& r, const std::vector<std::string>& order);
// Restores values that are a parameter's elements, rearranged, without notes in the file.
void restore_by_values(Restoring& r, const std::vector<std::string>& order);

// Tells whether a module owns the name: "layers.0.weight".
bool is_owned(const std::string& name);
std::string owner_of(const std::string& parameter);  // "layers.0"
// Returns values in a shorter floating type; in float32 for float64.
Values rounded(Values values, DType to);
// Returns the values of `from` in the type of `to`.
Values as_type_of(const Initializer& to, const Initializer& from);

}  // namespace partita::onnx_model
