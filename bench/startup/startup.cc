// Times whole processes by wall clock, from spawn to exit: a small `partita plan` (goal: below 100 ms), an empty
// program, and an empty program that links libtorch. The plan would take at least the last one's time if the program
// linked it too.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <string>
#include <vector>

extern char** environ;

namespace {

// Runs a program of the build folder to its end and discards its output. True if it exited with 0.
bool run(const std::string& program, std::vector<std::string> arguments) {
  const std::string path = std::string(PARTITA_BINARY_DIR) + "/" + program;
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  int status = -1;
  const bool started = posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  return started && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void process(benchmark::State& state, const std::string& program, const std::vector<std::string>& arguments) {
  for (auto _ : state) {
    if (!run(program, arguments)) state.SkipWithError((program + " did not exit with 0").c_str());
  }
}

BENCHMARK_CAPTURE(process, empty_program, "partita_bench_empty", std::vector<std::string>{})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(process, empty_program_that_loads_libtorch, "partita_bench_loads_torch", std::vector<std::string>{})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(process, partita_plan, "partita",
                  std::vector<std::string>{"plan", "zoo:mlp", "--cluster", "local:4", "--search", "data-parallel"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
