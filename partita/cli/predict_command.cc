// predict: what the cost model says of a table of measurements.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/output_file.h"
#include "partita/cli/commands.h"
#include "partita/network/problem.h"
#include "partita/predict/predict.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kWorst = 10;

Table read_measurements(const Arguments& a) {
  const std::string text = solver::read_text(a.target);
  const bool log = is_nccl_tests(text);
  if (!log && !a.collective.empty())
    fail("--collective is for the output of nccl-tests; {} is a table, whose column says it", a.target);
  Table table = log ? parse_nccl_tests(text, a.target, a.collective) : parse_csv(text, a.target);
  for (const std::string& filter : a.only) keep_rows(table, filter);
  return table;
}

std::string percent(double part) { return fmt::format("{:.1f}%", 100 * part); }

// A row as a person finds it again: its line, and the first columns that are not empty.
std::string shown(const Table& table, size_t row) {
  std::string text = fmt::format("line {}:", table.lines[row]);
  for (size_t c = 0, words = 0; c < table.columns.size() && words < 6; ++c)
    if (!table.rows[row][c].empty() && table.rows[row][c].size() < 40) {
      text += " " + table.rows[row][c];
      ++words;
    }
  return text;
}

void print_summary(const Table& table, const std::vector<Prediction>& predictions) {
  fmt::print("{:<40} {:<18} {:>5} {:>14} {:>14} {:>7}\n", "kind", "size", "rows", "median error", "90% within",
             "factor");
  for (const Summary& s : summed_up(predictions))
    fmt::print("{:<40} {:<18} {:>5} {:>14} {:>14} {:>7.2f}\n", s.kind, s.size, s.rows, percent(s.median),
               percent(s.most), s.factor);
  const std::vector<size_t> worst = worst_rows(predictions, kWorst);
  if (!worst.empty()) fmt::print("\nfarthest off:\n");
  for (size_t r : worst) {
    const Prediction& p = predictions[r];
    const std::string by = p.algorithm.empty() ? "" : fmt::format(" ({})", p.algorithm);
    fmt::print("  {}: {:.4g} us predicted{}, {:.4g} us measured\n", shown(table, r), *p.predicted_us, by,
               *p.measured_us);
  }
}

void print_left_out(const std::vector<Prediction>& predictions) {
  std::vector<std::pair<std::string, int>> reasons;
  for (const Prediction& p : predictions) {
    if (p.why_not.empty()) continue;
    auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == p.why_not; });
    if (known == reasons.end()) reasons.emplace_back(p.why_not, 1);
    else ++known->second;
  }
  for (const auto& [why, rows] : reasons) fmt::print("not predicted: {} row{}: {}\n", rows, rows > 1 ? "s" : "", why);
}

Json summary_json(const Table& table, const std::vector<Prediction>& predictions) {
  Json summaries = Json::array(), worst = Json::array();
  for (const Summary& s : summed_up(predictions))
    summaries.push_back({{"kind", s.kind},
                         {"size", s.size},
                         {"rows", s.rows},
                         {"median_error", s.median},
                         {"error_of_90_percent", s.most},
                         {"median_factor", s.factor}});
  for (size_t r : worst_rows(predictions, kWorst))
    worst.push_back({{"line", table.lines[r]},
                     {"predicted_us", *predictions[r].predicted_us},
                     {"measured_us", *predictions[r].measured_us},
                     {"algorithm", predictions[r].algorithm}});
  const auto left_out = std::count_if(predictions.begin(), predictions.end(),
                                      [](const Prediction& p) { return !p.predicted_us.has_value(); });
  return {{"rows", predictions.size()}, {"not_predicted", left_out}, {"summary", summaries}, {"worst", worst}};
}

}  // namespace

int predict_command(const Arguments& a) {
  const Cluster cluster = load_cluster(a.request.cluster, a.request.devices);
  const Table table = read_measurements(a);
  const std::vector<Prediction> predictions = predict(table, cluster);
  if (std::none_of(predictions.begin(), predictions.end(), [](const Prediction& p) { return p.predicted_us; }))
    fail("{}: nothing is predicted: {}", a.target,
         predictions.empty() ? "it has no rows" : "the first row is " + predictions[0].why_not);
  if (!a.output.empty()) write_file(a.output, print_csv(with_predictions(table, predictions)));
  if (a.json) {
    print_json(summary_json(table, predictions));
    return 0;
  }
  print_summary(table, predictions);
  print_left_out(predictions);
  if (!a.output.empty()) fmt::print("wrote {}\n", a.output);
  return 0;
}

}  // namespace partita
