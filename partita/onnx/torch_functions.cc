// Holds tables of PyTorch's functions, by their effect on a weight.
#include "partita/onnx/torch_functions.h"

#include <algorithm>

namespace partita::onnx_model {

std::string function_of(const std::string& value) {
  const std::size_t digits = value.find_last_not_of("0123456789");
  return digits != std::string::npos && digits + 1 < value.size() && value[digits] == '_' ? value.substr(0, digits)
                                                                                          : value;
}

bool only_moves_elements(const std::string& function) {
  static const std::set<std::string> names{"_reshape_alias",
                                           "_to_copy",
                                           "_unsafe_view",
                                           "alias",
                                           "arange",
                                           "broadcast_to",
                                           "cat",
                                           "chunk",
                                           "clone",
                                           "contiguous",
                                           "detach",
                                           "detach_",
                                           "diagonal",
                                           "embedding",
                                           "expand",
                                           "expand_as",
                                           "flatten",
                                           "flip",
                                           "gather",
                                           "index",
                                           "index_select",
                                           "lift_fresh_copy",
                                           "movedim",
                                           "narrow",
                                           "permute",
                                           "repeat",
                                           "repeat_interleave",
                                           "reshape",
                                           "roll",
                                           "select",
                                           "slice",
                                           "split",
                                           "split_with_sizes",
                                           "squeeze",
                                           "stack",
                                           "swapaxes",
                                           "t",
                                           "take",
                                           "tile",
                                           "transpose",
                                           "unbind",
                                           "unflatten",
                                           "unfold",
                                           "unsafe_chunk",
                                           "unsafe_split",
                                           "unsqueeze",
                                           "val",
                                           "view"};
  return names.contains(function) || function.find('/') != std::string::npos;  // a shape: "view_8/shape"
}

bool computes_places(const std::set<std::string>& functions) {
  static const std::set<std::string> sums{"abs",          "add",
                                          "arange",       "clamp",
                                          "clamp_max",    "clamp_min",
                                          "cumsum",       "eq",
                                          "floor_divide", "full",
                                          "full_like",    "ge",
                                          "gt",           "le",
                                          "lt",           "lift_fresh_copy",
                                          "maximum",      "minimum",
                                          "ne",           "neg",
                                          "new_ones",     "ones",
                                          "ones_like",    "remainder",
                                          "rsub",         "scalar_tensor_default",
                                          "sub",          "sym_size_int",
                                          "zeros",        "zeros_like"},
      products{"div", "log", "mul", "where"};
  const bool compared = functions.contains("log") || functions.contains("where");
  return std::all_of(functions.begin(), functions.end(), [&](const std::string& f) {
    return only_moves_elements(f) || sums.contains(f) || (compared && products.contains(f));
  });
}

bool may_repeat(const std::string& function) {
  static const std::set<std::string> names{"broadcast_to", "cat",   "embedding",    "expand", "expand_as",
                                           "gather",       "index", "index_select", "repeat", "repeat_interleave",
                                           "stack",        "take",  "tile",         "unfold"};
  return names.contains(function);
}

bool transposes(const std::string& function) {
  return function == "t" || function == "transpose" || function == "permute" || function == "swapaxes" ||
         function == "movedim";
}

bool takes_weights(const std::string& target) {
  static const std::set<std::string> names{"linear",
                                           "mm",
                                           "matmul",
                                           "bmm",
                                           "addmm",
                                           "baddbmm",
                                           "conv1d",
                                           "conv2d",
                                           "conv3d",
                                           "conv_transpose1d",
                                           "conv_transpose2d",
                                           "conv_transpose3d",
                                           "convolution",
                                           "prelu",
                                           "_prelu_kernel",
                                           "layer_norm",
                                           "group_norm",
                                           "native_group_norm",
                                           "instance_norm",
                                           "batch_norm",
                                           "_native_batch_norm_legit_no_training",
                                           "rms_norm",
                                           "lstm",
                                           "gru",
                                           "rnn_tanh",
                                           "rnn_relu",
                                           "_grouped_mm",
                                           "embedding",
                                           "index",
                                           "index_select",
                                           "gather"};
  if (!target.starts_with("aten.")) return false;
  return names.contains(target.substr(5, target.find('.', 5) - 5));
}

}  // namespace partita::onnx_model
