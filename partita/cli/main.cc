// Runs one command of the program, and returns its exit code.
#include <map>

#include "partita/cli/commands.h"
#include "partita/cli/environment.h"

int main(int argc, char** argv) {
  using namespace partita;
  static const std::map<std::string, int (*)(const Arguments&)> kCommands = {
      {"show", show_command},       {"plan", plan_command},         {"simulate", simulate_command},
      {"compare", compare_command}, {"run", run_command},           {"train", train_command},
      {"check", check_command},     {"explain", explain_command},   {"tdl", tdl_command},
      {"models", models_command},   {"clusters", clusters_command}, {"searches", searches_command},
      {"solve", solve_command},     {"ops", ops_command},           {"predict", predict_command},
      {"profile", profile_command}, {"place", place_command}};
  begin_program();
  int code = 0;
  try {
    Arguments a = parse_arguments(argc, argv);
    if (!a.command.empty()) code = kCommands.at(a.command)(a);
  } catch (const std::exception& e) {
    code = report_error(e);
  }
  return finish_output(code);
}
