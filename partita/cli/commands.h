// Declares one function a command; each prints its result on standard output and returns the exit code.
#pragma once
#include "partita/base/units.h"
#include "partita/cli/arguments.h"
#include "partita/cli/output.h"
#include "partita/cli/plan_figures.h"

namespace partita {

int show_command(const Arguments& a);
int plan_command(const Arguments& a);
int simulate_command(const Arguments& a);
int compare_command(const Arguments& a);
int predict_command(const Arguments& a);
int profile_command(const Arguments& a);
int run_command(const Arguments& a);
int train_command(const Arguments& a);
int check_command(const Arguments& a);
int explain_command(const Arguments& a);
int solve_command(const Arguments& a);
int place_command(const Arguments& a);
int check_bound_command(const Arguments& a);  // of a problem and a certificate
int tdl_command(const Arguments& a);
int models_command(const Arguments& a);
int clusters_command(const Arguments& a);
int searches_command(const Arguments& a);
int ops_command(const Arguments& a);

}  // namespace partita
