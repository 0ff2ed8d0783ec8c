// Tests the reader of sharding problems, and packed files.
#include "partita/network/problem.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "partita/base/error.h"

namespace partita::solver {
namespace {

const char* kExample =
    R"({"problem": {"usage_limit": 50, "edges": {"costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], [70, 60]],
  "nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]]}, "more": {"nodes": [[1.5, "x"], {"a": [null]}]},
  "nodes": {"usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]], "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
  "intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]]}, "name": "example"}, "also": [1, 2]})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kExample;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Prints all of a network.
std::string print_of(const Network& n) {
  std::string text = fmt::format("{} {}", n.limit.value_or(-1), n.costs);
  for (const Network::Edge& e : n.edges) text += fmt::format(" {} {}", e.variables, *e.table);
  for (const Network::Use& u : n.uses) text += fmt::format(" {} {} {} {}", u.variable, u.lower, u.upper, u.amounts);
  return text;
}

std::string error_of(const std::string& json) {
  try {
    parse_problem(json, "p.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput);
    return e.what();
  }
  return "none";
}

TEST(Problem, KeysInAnyOrderAndUnknownOnes) {
  const Network n = parse_problem(kExample, "p.json");
  const BruteForce best = brute_force(n);
  EXPECT_EQ(best.solution, (Assignment{0, 0, 2, 1, 0}));
  EXPECT_EQ(best.cost, 445);
  EXPECT_FALSE(parse_problem(with("\"usage_limit\": 50, ", ""), "p.json").limit);
  EXPECT_FALSE(parse_problem(with("\"usage_limit\": 50, ", "\"usage_limit\": null, "), "p.json").limit);
}

// Files without fractions take a path of their own; broken ones go back to the library's.
TEST(Problem, PlainFiles) {
  const std::string plain = with("1.5", "-1");
  const Network n = parse_problem(plain, "p.json");
  EXPECT_EQ(brute_force(n).cost, 445);
  EXPECT_EQ(n.limit, 50);
  for (size_t length = 0; length < plain.size(); ++length)
    EXPECT_THROW(parse_problem(plain.substr(0, length), "p.json"), Error) << length;
  for (size_t at = 0; at < plain.size(); ++at)
    for (char c : {',', ']', '}', '"', '-', '0'}) {
      std::string broken = plain;
      broken[at] = c;
      auto checked = [&](const std::string& text) {
        try {
          return print_of(parse_problem(text, "p.json"));
        } catch (const Error&) {
          return std::string("refused");
        }
      };
      const std::string slow =
          broken.find("\"also\": [1, 2]") == std::string::npos
              ? ""
              : std::string(broken).replace(broken.find("\"also\": [1, 2]"), 14, "\"also\": [1.5]");
      if (!slow.empty()) {
        EXPECT_EQ(checked(broken), checked(slow)) << at << c;
      }
    }
}

TEST(Problem, EdgesOverAnyNumberOfNodes) {
  std::string text = with("[0, 1], [0, 2]", "[0, 1, 2], [0]");
  text.replace(text.find("[30, 40], [50, 10, 40]"), 22, "[1, 2, 3, 4, 5, 6], [7]");
  const Network n = parse_problem(text, "p.json");
  EXPECT_EQ(n.edges[0].variables, (std::vector<int>{0, 1, 2}));
  const Assignment x{0, 1, 2, 0, 0};  // 15 + 65 + 35 + 85 + 95, edges 6 + 7 + 20 + 30 + 70
  EXPECT_EQ(evaluate(n, x).cost, 428);
}

TEST(Problem, OneClearError) {
  EXPECT_EQ(error_of(with("[15], [55, 65]", "[15], [55, 65.5]")),
            "p.json: problem.nodes.costs[1][1] is 65.5, not an integer; an integer belongs there");
  EXPECT_EQ(error_of(with("[10], [25", "[-10], [25")), "p.json: problem.nodes.usages[0][0] is negative: -10");
  EXPECT_EQ(error_of(with("[10], [25, 25]", "[10], [25]")),
            "p.json: problem.nodes.usages[1] has 1 values, problem.nodes.costs[1] has 2");
  EXPECT_EQ(error_of(with("[3, 4]", "[3, 5]")), "p.json: problem.edges.nodes[4] names node 5; there are 5");
  EXPECT_EQ(error_of(with("[70, 60]", "[70]")),
            "p.json: problem.edges.costs[4] has 1 costs; its nodes' strategies make 2");
  EXPECT_EQ(error_of(with("\"intervals\"", "\"interval\"")), "p.json: the key problem.nodes.intervals is missing");
  EXPECT_EQ(error_of(with("[30, 70]", "[30]")), "p.json: problem.nodes.intervals[0] has 1 numbers, not 2");
  EXPECT_EQ(error_of(with(", [110, 150]", "")), "p.json: problem.nodes.intervals has 4 rows for 5 nodes");
  EXPECT_EQ(error_of(with("[30, 40]", "[30, 9223372036854775808]")),
            "p.json: problem.edges.costs[0][1] is 9223372036854775808, which does not fit into 64 bits; an integer "
            "belongs there");
  EXPECT_EQ(error_of(with("[[30, 40]", "[30, [40]")), "p.json: problem.edges.costs[0] is 30; a list belongs there");
  EXPECT_EQ(error_of(with("[30, 40]", "[30, [40]]")),
            "p.json: problem.edges.costs[0][1] is a list; an integer belongs there");
  EXPECT_EQ(error_of(with("\"usage_limit\": 50", "\"usage_limit\": \"50\"")),
            "p.json: problem.usage_limit is a string; an integer belongs there");
  EXPECT_NE(error_of(std::string(kExample).substr(0, 300)).find("is not JSON: byte 301"), std::string::npos);
  EXPECT_NE(error_of("[]").find("the key problem.edges.costs is missing"), std::string::npos);
}

TEST(Problem, FilesAreToldApartByContent) {
  const std::string folder = std::string(PARTITA_BINARY_DIR) + "/problem_test";
  std::filesystem::create_directories(folder);
  const std::string packed = folder + "/packed.json.gz", cut = folder + "/cut.json.gz";
  write_text(packed, kExample);
  EXPECT_EQ(read_text(packed), kExample);
  EXPECT_LT(std::filesystem::file_size(packed), std::string(kExample).size());
  std::filesystem::copy_file(packed, cut, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(cut, std::filesystem::file_size(packed) - 9);
  EXPECT_THROW(read_problem(cut), Error);
  EXPECT_THROW(read_problem(folder + "/absent.json"), Error);
  EXPECT_THROW(read_problem(folder), Error);
  std::string large;  // packed in pieces
  while (large.size() < 40'000'000) large += std::to_string(large.size()) + ",";
  for (const std::string& text : {large, std::string()}) {
    write_text(packed, text);
    EXPECT_TRUE(read_text(packed) == text);
  }
  write_text(folder + "/plain.json", kExample);
  EXPECT_EQ(read_problem(folder + "/plain.json").variables(), 5);
}

}  // namespace
}  // namespace partita::solver
