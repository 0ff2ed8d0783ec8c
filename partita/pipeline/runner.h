// Runs the pipeline's steps: names, times, verifies and dumps each.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace partita {

// A representation as a file: its text, and the ending of its name ("txt", "json", "yaml").
struct Printed {
  const char* ending;
  std::string text;
};

// Runs each step under its name: times it, writes its result into a folder if there is one, and verifies it.
//
//   Graph graph = runner.step("factor", [&] { return carry_factors(forward, may_factor); },  // the step
//                             [](const Graph& g) { verify(g); },                               // throws if g is broken
//                             [](const Graph& g) { return Printed{"txt", print(g)}; });        // for the folder
class Runner {
 public:
  struct Timing {
    std::string name;
    double seconds = 0, verify_seconds = 0;
  };
  // `verify`: whether results are verified. `dump_folder`: where they are written, as 00-load.txt, 01-autodiff.txt, ..;
  // made if it is not there; empty: nowhere. Bad input if it cannot be written.
  explicit Runner(bool verify = true, std::string dump_folder = "");

  template <typename Make, typename Verify, typename Print>
  auto step(const char* name, Make make, Verify verify, Print print) {
    const auto start = Clock::now();
    auto result = make();
    const double made = seconds_since(start);
    if (!dump_folder_.empty()) dump(name, print(result));  // before it is verified: a broken one is worth a look
    const auto verified = Clock::now();
    if (verify_) verify(result);
    timings_.push_back({name, made, seconds_since(verified)});
    return result;
  }
  // A step whose result has no invariants of its own.
  template <typename Make, typename Print>
  auto step(const char* name, Make make, Print print) {
    return step(
        name, make, [](const auto&) {}, print);
  }
  const std::vector<Timing>& timings() const { return timings_; }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  void dump(const std::string& name, const Printed& printed) const;

  bool verify_;
  std::string dump_folder_;
  std::vector<Timing> timings_;
};

}  // namespace partita
