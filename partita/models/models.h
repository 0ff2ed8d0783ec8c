// Builds the zoo's models by reference, for users' commands and tests.
//
//   Model m = build_model("zoo:mlp?layers=5,width=300,batch=400,bias=0,loss=elementwise", {}, standard_ops());
//   Graph training = add_backward(m.graph, m.loss, {.lr = 0.01, .momentum = 0.9});
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/graph/autodiff.h"
#include "partita/graph/graph.h"

namespace partita {

// How files of weights name a model's tensors, if they do not as the graph does.
struct WeightNames {
  std::string prefix;  // a beginning that the files may lack, or have if the graph lacks it: "bert."
  std::vector<std::pair<std::string, std::string>> endings;  // theirs, ours: old names of the same
  std::map<std::string, std::string> renamed;                // a tensor of the graph -> its name in the files
  std::map<std::string, std::vector<std::string>>
      parts;                                // a tensor of the graph -> its parts along axis 0, an array each: experts
  std::map<std::string, std::string> same;  // another name -> the tensor: tied weights
  std::vector<std::string> unused;          // endings of arrays that are no weights: masks, numbers of positions
  std::vector<std::string> heads;  // beginnings: a model may lack these arrays, or have them fresh for another task
};

struct Model {
  Graph graph;  // forward
  Loss loss;    // of its training unless the user says otherwise
  WeightNames weight_names;
  std::vector<std::string> notes;  // facts for the user
};

struct ModelOption {
  std::string name, value, meaning;  // `value` is the default; `a|b` in the meaning lists all
};

struct ModelInfo {
  std::string name, summary;
  std::vector<ModelOption> options;
};

// Every model has the options `batch` and `dtype`.
std::vector<ModelInfo> list_models();

// Builds a model. `reference` is NAME, zoo:NAME or zoo:NAME?option=value,option=value. `bindings` are further options
// (--bind batch=32) and win over those of the reference. Bad input names the unknown model or option and lists the
// known ones.
Model build_model(std::string_view reference, const std::map<std::string, std::string>& bindings,
                  std::shared_ptr<const OpRegistry> registry);

}  // namespace partita
