// Runs the program as a process: starts it, interrupts it, and catches its output.
#include "program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

namespace partita {

Words::Words(std::initializer_list<std::string_view> words) : std::vector<std::string>(words.begin(), words.end()) {}
Words::Words(std::vector<std::string> words) : std::vector<std::string>(std::move(words)) {}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string scratch(const std::string& name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder =
      fmt::format("{}/cli_test/{}.{}", PARTITA_BINARY_DIR, test->test_suite_name(), test->name());
  std::filesystem::create_directories(folder);
  return folder + "/" + name;
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string put(const std::string& name, const std::string& bytes) {
  std::ofstream(scratch(name), std::ios::binary) << bytes;
  return scratch(name);
}

std::string data(const std::string& name) { return std::string(PARTITA_SOURCE_DIR) + "/tests/data/" + name; }

Child start(const Words& words) {
  static int number = 0;
  Child child{-1, scratch(fmt::format("out.{}", number)), scratch(fmt::format("err.{}", number))};
  ++number;
  const std::string program = std::string(PARTITA_BINARY_DIR) + "/partita";
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, child.out_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, child.err_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  EXPECT_EQ(posix_spawn(&child.pid, program.c_str(), &files, nullptr, argv.data(), environ), 0) << program;
  posix_spawn_file_actions_destroy(&files);
  return child;
}

Outcome finish(const Child& child) {
  int status = 0;
  EXPECT_EQ(waitpid(child.pid, &status, 0), child.pid);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(child.out_file),
          contents(child.err_file)};
}

Outcome partita(const Words& words) { return finish(start(words)); }

Outcome interrupted(const Words& words, const std::string& until, int signal) {
  const Child child = start(words);
  for (int i = 0; i < 1200 && !std::regex_search(contents(child.err_file), std::regex(until)); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(kill(child.pid, signal), 0);
  return finish(child);
}

Json json_of(Words words) {
  words.push_back("--json");
  const Outcome o = partita(words);
  EXPECT_EQ(o.code, 0) << fmt::format("{}: {}", fmt::join(words, " "), o.err);
  Json json = Json::parse(o.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << o.out;
  if (json.is_discarded()) return Json::object();
  EXPECT_EQ(json.value("schema_version", 0), 1);
  return json;
}

void expect_error(const Words& words, int code, const Words& parts) {
  SCOPED_TRACE(fmt::format("partita {}", fmt::join(words, " ")));
  Outcome o = partita(words);
  o.err = std::regex_replace(o.err, std::regex(" *[0-9]+\\.[0-9] s  [^\n]*\n"), "");
  EXPECT_EQ(o.code, code);
  EXPECT_EQ(o.out, "");
  EXPECT_TRUE(o.err.starts_with("partita: ")) << o.err;
  EXPECT_EQ(o.err.find("partita: ", 1), std::string::npos) << "more than one message: " << o.err;
  EXPECT_EQ(o.err.find("internal error"), std::string::npos) << o.err;
  for (const std::string& part : parts)
    EXPECT_NE(o.err.find(part), std::string::npos) << "'" << part << "' is not in: " << o.err;
}

}  // namespace partita
