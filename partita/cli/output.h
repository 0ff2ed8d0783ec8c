// Prints JSON, timings and notes alike for all commands.
#pragma once
#include <nlohmann/json.hpp>

#include "partita/cli/arguments.h"
#include "partita/onnx/onnx.h"
#include "partita/pipeline/runner.h"

namespace partita {

// Without the keys whose number is NaN or infinite, which have no spelling in JSON.
nlohmann::ordered_json without_missing(nlohmann::ordered_json json);
void print_json(nlohmann::ordered_json json);  // with schema_version first, without_missing
// With --verbose, on standard error.
void print_timings(const Runner& runner, const Arguments& a);
// Prints the parts of an .onnx file that are not trained as their source would be, on standard error.
void print_training_notes(const OnnxFindings& findings);
void print_shape_notes(const OnnxFindings& findings);

}  // namespace partita
