// Finds facts about initializers that a file of PyTorch's exporters leaves open, and separates or reports them.
#pragma once
#include <string>
#include <vector>

#include "partita/onnx/model.h"

namespace partita::onnx_model {

// The exporter merges initializers that are alike when it writes: a fresh model's running variance, all ones, is then
// an Identity of some weight. Each running statistic that is an Identity of an initializer becomes an initializer of
// its own again.
void separate_statistics(Model& model);

// Returns weights of convolutions into which the exporter has put a batch normalization: "c1.weight", "onnx::Conv_38".
// Training changes their product, without the batch's statistics.
std::vector<std::string> with_normalization(const Model& model);

// Tells whether an initializer has the name of a module's attribute, as PyTorch's older exporter leaves it:
// "temperature", "layer.scale". Values that the exporter computed have another, "onnx::MatMul_33" or
// "/Constant_1_output_0".
bool has_attributes_name(const std::string& name);

// Returns the names among `trained` that may as well be buffers: the older exporter writes buffers as it does
// parameters. A name whose last part is "weight", "bias_hh_l0", "original1" or the like is a parameter's.
std::vector<std::string> perhaps_buffers(const Model& model, const std::vector<std::string>& trained);

}  // namespace partita::onnx_model
