// Declares the families of models, and reads their options; one file a family.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/models/models.h"

namespace partita {

// The options of one model, defaults filled in.
class ModelOptions {
 public:
  ModelOptions(std::string model, std::map<std::string, std::string> values)
      : model_(std::move(model)), values_(std::move(values)) {}
  const std::string& text(const std::string& name) const { return values_.at(name); }
  // An integer of at least `least`.
  int64_t integer(const std::string& name, int64_t least = 1) const;
  int64_t integer_or_auto(const std::string& name, int64_t chosen) const;  // `chosen` if it says auto
  // A number in [lo, hi).
  double number(const std::string& name, double lo, double hi) const;
  bool flag(const std::string& name) const;  // 0|1|false|true
  // One of `allowed`.
  const std::string& choice(const std::string& name, const std::vector<std::string>& allowed) const;
  DType dtype() const { return parse_dtype(text("dtype")); }
  const std::string& model() const { return model_; }

 private:
  std::string model_;
  std::map<std::string, std::string> values_;
};

struct ModelFamily {
  ModelInfo info;
  Model (*build)(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry);
};

ModelFamily mlp_family();
ModelFamily lenet_family();
ModelFamily cnn_family();
ModelFamily inception_family();
std::vector<ModelFamily> alexnet_families();
std::vector<ModelFamily> resnet_families();
std::vector<ModelFamily> recurrent_families();
ModelFamily wide_deep_family();
ModelFamily encoder_decoder_family();
std::vector<ModelFamily> transformer_families();
std::vector<ModelFamily> gpt2_families();
std::vector<ModelFamily> bert_families();
std::vector<ModelFamily> llama_families();
ModelFamily mixtral_family();
std::vector<ModelFamily> nasnet_families();
ModelFamily vit_family();

}  // namespace partita
