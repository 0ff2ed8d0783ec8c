// Runs the program as a process, for tests of whole commands.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

using Json = nlohmann::ordered_json;

// The words of a command. Made from views: hundreds of lists of literals compile in a third of the time that strings
// take.
struct Words : std::vector<std::string> {
  Words() = default;
  Words(std::initializer_list<std::string_view> words);
  Words(std::vector<std::string> words);
  template <typename Iterator>
  Words(Iterator begin, Iterator end) : std::vector<std::string>(begin, end) {}
};

Words with(Words words, const Words& more);

// A file in a folder of this test case's own, since cases run at the same time.
std::string scratch(const std::string& name);
std::string contents(const std::string& path);
// Writes scratch(name), and returns its path.
std::string put(const std::string& name, const std::string& bytes);
// A file of tests/data.
std::string data(const std::string& name);

struct Child {
  pid_t pid = -1;
  std::string out_file, err_file;
};
struct Outcome {
  int code = -1;  // 128 + signal if one ended it
  std::string out, err;
};

Child start(const Words& words);
Outcome finish(const Child& child);
Outcome partita(const Words& words);

// Runs the program, and interrupts it once its standard error matches `until`, a regular expression.
Outcome interrupted(const Words& words, const std::string& until, int signal = SIGINT);

// Returns the JSON of a command that succeeds.
Json json_of(Words words);

// Expects one message, only on standard error, that holds all of `parts`. A search's progress, " 1.0 s ..", may come
// before it.
void expect_error(const Words& words, int code, const Words& parts);

}  // namespace partita
