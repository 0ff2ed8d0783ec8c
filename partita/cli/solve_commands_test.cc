// Tests `partita solve` and `partita check --bound` as a user meets them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "partita/network/problem.h"

namespace partita::solver {
namespace {

struct Outcome {
  int code = -1;
  std::string out;
};

Outcome run(const std::string& words, const std::string& errors = "/dev/null") {
  const std::string command = std::string(PARTITA_BINARY_DIR) + "/partita " + words + " 2>" + errors;
  FILE* pipe = popen(command.c_str(), "r");
  Outcome o;
  char piece[4096];
  while (size_t got = std::fread(piece, 1, sizeof piece, pipe)) o.out.append(piece, got);
  const int status = pclose(pipe);
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return o;
}

std::string last_line(std::string text) {
  text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::string scratch(const std::string& name) {
  const std::string folder = std::string(PARTITA_BINARY_DIR) + "/solve_test/" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  return folder + "/" + name;
}

const std::string kExample = std::string(PARTITA_SOURCE_DIR) + "/tests/data/sharding_example.json";

TEST(SolveCommand, Example) {
  const std::string solution = scratch("solution.json"), bound = scratch("bound.json.gz");
  const Outcome o = run("solve " + kExample + " --time-limit 10 -o " + solution + " --write-bound " + bound);
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(last_line(o.out), "[0, 0, 2, 1, 0]");
  EXPECT_NE(o.out.find("cost   445\npeak   50 of 50\nbound  445, gap 0.0000%\noptimal"), std::string::npos) << o.out;
  EXPECT_EQ(read_text(solution), "[0, 0, 2, 1, 0]\n");
  const Outcome checked = run("check " + kExample + " --bound " + bound);
  EXPECT_EQ(checked.code, 0);
  EXPECT_NE(checked.out.find("costs less than 445"), std::string::npos) << checked.out;
  std::string text = read_text(bound);
  text.replace(text.find("\"445\""), 5, "\"446\"");
  write_text(bound, text);
  EXPECT_EQ(run("check " + kExample + " --bound " + bound).code, 3);
}

TEST(SolveCommand, ExitCodes) {
  std::string text = read_text(kExample);
  text.replace(text.find("\"usage_limit\": 50"), 17, "\"usage_limit\": 49");
  const std::string infeasible = scratch("infeasible.json"), bound = scratch("bound.json");
  write_text(infeasible, text);
  Outcome o = run("solve " + infeasible + " --write-bound " + bound);
  EXPECT_EQ(o.code, 4);
  EXPECT_EQ(last_line(o.out), "[]");
  EXPECT_NE(run("check " + infeasible + " --bound " + bound).out.find("has no solution"), std::string::npos);
  o = run("solve " + kExample + " --max-steps 0");
  EXPECT_EQ(o.code, 5);
  EXPECT_EQ(last_line(o.out), "[]");
  EXPECT_EQ(run("solve " + scratch("absent.json")).code, 3);
  EXPECT_EQ(run("solve " + kExample + " --time-limit -1").code, 2);
  EXPECT_EQ(run("solve " + kExample + " --gap 1.5").code, 2);
  EXPECT_EQ(run("solve " + kExample + " --gap 0.5").code, 0);
  EXPECT_EQ(run("solve").code, 2);
  const std::string json = run("solve " + kExample + " --json --seed 3").out;
  for (const char* key : {"\"schema_version\": 1", "\"cost\": 445", "\"lower_bound\": 445", "\"status\": \"optimal\"",
                          "\"peak_usage\": 50"})
    EXPECT_NE(json.find(key), std::string::npos) << key << json;
}

}  // namespace
}  // namespace partita::solver
