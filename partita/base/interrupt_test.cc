// Tests when signals end the program, and what they leave.
#include "partita/base/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "partita/base/input_file.h"
#include "partita/base/output_file.h"

namespace partita {
namespace {

std::string fresh(const std::string& name) {
  const std::string folder = std::string(PARTITA_BINARY_DIR) + "/interrupt_test/" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder + "/" + name);
  return folder + "/" + name;
}
std::string contents(const std::string& path) { return read_file(path); }

// Runs `go` in a child process and returns its exit code.
template <typename Do>
int in_child(Do what) {
  const pid_t child = fork();
  if (child == 0) {
    what();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Interrupt, WaitsForAFileToBeWhole) {
  const std::string file = fresh("file");
  EXPECT_EQ(in_child([&] {
              end_on_signals();
              const DelayInterrupt whole;
              raise(SIGTERM);
              std::ofstream(file) << "whole";
            }),
            130);
  EXPECT_EQ(contents(file), "whole");
  // A second signal does not wait, and leaves nothing half done.
  EXPECT_EQ(in_child([&] {
              end_on_signals();
              const DelayInterrupt whole;
              const RemovedAtEnd partly(file);
              raise(SIGTERM);
              raise(SIGINT);
            }),
            130);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(in_child([&] {
              const CatchInterrupt caught;
              raise(SIGHUP);
              write_file(file, "written");  // work that goes on with its results so far
              if (interrupted) _exit(7);
            }),
            7);
  EXPECT_EQ(contents(file), "written");
}

}  // namespace
}  // namespace partita
