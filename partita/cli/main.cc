#include <cstdio>
#include <map>

#include "partita/base/error.h"
#include "partita/cli/commands.h"

int main(int argc, char** argv) {
  using namespace partita;
  static const std::map<std::string, int (*)(const Arguments&)> kCommands = {
      {"show", show_command},     {"plan", plan_command},     {"simulate", simulate_command}, {"compare", compare_command},
      {"run", run_command},       {"train", train_command},   {"check", check_command},       {"explain", explain_command}, {"tdl", tdl_command},
      {"models", models_command}, {"clusters", clusters_command}, {"searches", searches_command}, {"solve", solve_command}, {"ops", ops_command}};
  try {
    Arguments a = parse_arguments(argc, argv);
    return a.command.empty() ? 0 : kCommands.at(a.command)(a);
  } catch (const Error& e) {
    std::fprintf(stderr, "partita: %s\n", e.what());
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "partita: this machine has too little memory for that\n");
    return static_cast<int>(ExitCode::kInfeasible);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "partita: internal error: %s\nPlease report this, with the command line.\n", e.what());
    return static_cast<int>(ExitCode::kBug);
  }
}
