// One function a command; each prints its result on standard output and returns the exit code.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "partita/base/units.h"
#include "partita/cli/arguments.h"
#include "partita/runtime/kernel.h"

namespace partita {

int show_command(const Arguments& a);
int plan_command(const Arguments& a);
int simulate_command(const Arguments& a);
int compare_command(const Arguments& a);
int run_command(const Arguments& a);
int train_command(const Arguments& a);
int check_command(const Arguments& a);
int explain_command(const Arguments& a);
int solve_command(const Arguments& a);
int check_bound_command(const Arguments& a);  // of a problem and a certificate
int tdl_command(const Arguments& a);
int models_command(const Arguments& a);
int clusters_command(const Arguments& a);
int searches_command(const Arguments& a);
int ops_command(const Arguments& a);

// ---------------------------------------------------------------- shared

// The keys of `partita plan --json` that have a figure (docs/cli.md).
nlohmann::ordered_json plan_json(const Planned& planned, const std::string& plan_file);
// Without the keys whose number is none: NaN and infinity have no spelling in JSON.
nlohmann::ordered_json without_missing(nlohmann::ordered_json json);
void print_json(nlohmann::ordered_json json);  // with schema_version first, without_missing
void print_timings(const Runner& runner, const Arguments& a);
// plan_model(), with what its search has so far on standard error. Ctrl-C ends the search, which keeps its best;
// throws, exit code 130, where there is none yet. Where nothing fits, the error says with what it would
// (partita/remedies.h), if that is asked for.
Planned plan_watched(const Request& request, Runner& runner, bool say_remedies = true);
// What of an .onnx file is not trained as its source would be, on standard error.
void print_training_notes(const OnnxFindings& findings);

}  // namespace partita
