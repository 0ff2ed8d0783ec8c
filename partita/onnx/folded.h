// What an exporter computed from parameters before it wrote the file: a pass from model to model, after the file is
// read and before it is imported.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "partita/onnx/model.h"

namespace partita::onnx_model {

struct Folded {
  std::string name, from;  // of the value; of the parameters, with commas between
  std::string how;         // "transposed", "rows of it"; of a value that is not trained: empty
  bool tied = false;       // the parameter is read elsewhere too
};
struct FoldedValues {
  std::vector<Folded> restored;  // read their parameter through nodes now
  std::vector<Folded> frozen;    // computed otherwise: constants
};

// Initializers whose elements are those of one parameter, only moved, become nodes that read it: gradients reach the
// parameter, and what is tied in the source is one parameter again. Where the file lacks the parameter, it is made from
// what is left of it, under its own name. How they are found: the newer exporter of PyTorch says which values each was
// computed from, and which of these are parameters; elements are then found by their values, or, without the parameter,
// the names of what was computed on the way say whether elements were only moved. The older exporter says nothing: a
// value is a parameter, transposed or otherwise moved, if it is that bit for bit. Values that could be anyone's, as
// those filled with one number, are not taken for another's, nor are those of modules that are copies of each other.
// Without `load_weights` values are not looked at.
FoldedValues restore_parameters(Model& model, bool load_weights);

// Constant nodes with more than one floating number become initializers, as which they are weights or not. PyTorch's
// exporters are left alone, which write weights as initializers: only of a file without any are the constants taken for
// them.
void lift_constants(Model& model);

// Whether a floating initializer is trained. The newer exporter says so itself; what its optimizer computed is not, nor
// a lifted number. The older one's are those that have an attribute's name. Elsewhere all but scalars that no module
// owns are.
bool is_weight(const Model& model, const std::string& name, const Initializer& initializer);

// A name with # for each run of digits: layers.#.norm.
std::string without_digits(const std::string& name);

}  // namespace partita::onnx_model
