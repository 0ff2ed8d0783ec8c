// Parses the words of the command line, for the benchmarks of this folder.
//
// Worked example: `partita_soap_bench nmt sixteen 20000` ends with exit code 2 and
//
//   'sixteen' is not a whole number from 1 to 1000000000
//   usage: partita_soap_bench [MODEL DEVICES PROPOSALS]..
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "partita/base/error.h"

namespace partita {

// A benchmark's usage, and the function that runs it.
struct Benchmark {
  const char* usage;
  void (*run)(int argc, char** argv);
};

[[noreturn]] inline void bad_word(const std::string& what) { throw Error(ExitCode::kUsage, what); }

inline int64_t count_of(const std::string& word, int64_t most = 1'000'000'000) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  if (error != std::errc() || end != word.data() + word.size() || count < 1 || count > most)
    bad_word(fmt::format("'{}' is not a whole number from 1 to {}", word, most));
  return count;
}
inline int int_of(const std::string& word) { return static_cast<int>(count_of(word)); }

inline double positive_of(const std::string& word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || !(number > 0) || !std::isfinite(number))
    bad_word(fmt::format("'{}' is not a positive number", word));
  return number;
}

// Returns the exit code: 0 with the usage if `--help` is among the words, else that of the error that ends it, if one
// does.
inline int exit_code_of(const Benchmark& benchmark, int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (const std::string word = argv[i]; word == "--help" || word == "-h") {
      fmt::print("{}", benchmark.usage);
      return 0;
    }
  try {
    benchmark.run(argc, argv);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    if (error.code() == ExitCode::kUsage) fmt::print(stderr, "{}", benchmark.usage);
    return static_cast<int>(error.code());
  }
  return 0;
}

}  // namespace partita
