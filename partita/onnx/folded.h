// Undoes an exporter's computations on parameters: a pass from model to model, after the file is read and before it is
// imported.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "partita/onnx/model.h"

namespace partita::onnx_model {

struct Folded {
  std::string name, from;  // the value; the parameters, with commas between
  std::string how;         // "transposed", "rows of it"; for a value that is not trained: empty
  bool tied = false;       // the parameter is read elsewhere too
};
struct FoldedValues {
  std::vector<Folded> restored;  // read their parameter through nodes now
  std::vector<Folded> frozen;    // computed otherwise: constants
};

// Initializers whose elements are those of one parameter, only moved, become nodes that read it. So gradients reach the
// parameter, and tied weights of the source are one parameter again. If the file lacks the parameter, it is made from
// its remains, under its own name. The newer exporter of PyTorch lists the values that each was computed from, and the
// parameters among these. Elements are then found by their values; without the parameter, the names of the steps say
// whether elements were only moved. The older exporter says nothing: a value is a parameter, transposed or otherwise
// moved, if it is that bit for bit. Values that could be anyone's, as those filled with one number, are not taken for
// another's. Nor are those of modules that are copies of each other. Without `load_weights` values are not looked at.
FoldedValues restore_parameters(Model& model, bool load_weights);

// Turns Constant nodes with more than one floating number into initializers, which are weights or not. PyTorch's
// exporters write weights as initializers: only in a file without any do the constants count as weights.
void lift_constants(Model& model);

// Tells whether a floating initializer is trained. The newer exporter says so itself; results of its optimizer are not,
// nor is a lifted number. For the older one those that have an attribute's name are. For others all but scalars that no
// module owns are.
bool is_weight(const Model& model, const std::string& name, const Initializer& initializer);

// A name with # for each run of digits: layers.#.norm.
std::string without_digits(const std::string& name);

}  // namespace partita::onnx_model
