// Builds models from Hugging Face's config.json, without their weights, with the meaning and the defaults that the
// transformers package (5.23) gives each field. docs/guide/huggingface.md lists them.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "partita/models/models.h"

namespace partita {

// Tells whether JSON text is a configuration, and not a plan.
bool is_huggingface_config(std::string_view json);

// Builds the model. `path` is for messages. `bindings` are options (batch, steps, dropout, architecture) or fields,
// which they replace. The inputs are named as transformers names them: input_ids, token_type_ids. A field that changes
// the model and is not understood is bad input; fields that change nothing (token numbers, generation, initial values)
// are not read. All faults are in one error.
Model build_huggingface(const std::string& path, std::string_view json,
                        const std::map<std::string, std::string>& bindings, std::shared_ptr<const OpRegistry> registry);

}  // namespace partita
