// Finds a table's kind, predicts its rows that the cluster can, and summarises the errors.
#include "partita/predict/predict.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "partita/base/error.h"
#include "partita/predict/kinds.h"

namespace partita {

namespace {

constexpr double kMostCount = 1e9, kMostBytes = 1e18;  // beyond what anybody measures, and nothing overflows

using Predictor = std::vector<Prediction> (*)(const Table&, const Cluster&);

struct Kind {
  const char* name;
  std::vector<const char*> columns;  // by which it is known
  Predictor predict;
  bool kernels = true;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {{"collectives", {"collective", "bytes", "gpus"}, predict_collectives, false},
                                           {"products", {"m", "n", "k", "dtype"}, predict_products},
                                           {"attention", {"pass", "head_dim", "seq_q"}, predict_attention},
                                           {"memory-bound kernels", {"kernel", "bytes"}, predict_memory_bound}};
  return kKinds;
}

const Kind& kind_of(const Table& table) {
  std::vector<std::string> known;
  for (const Kind& kind : kinds()) {
    if (std::all_of(kind.columns.begin(), kind.columns.end(), [&](const char* c) { return table.column(c); }))
      return kind;
    known.push_back(fmt::format("{} ({})", kind.name, fmt::join(kind.columns, ", ")));
  }
  fail("{}: the columns {} are of no kind of table that is known; these are {}", table.origin,
       fmt::join(table.columns, ", "), fmt::join(known, ", "));
}

bool like(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') return like(text, pattern.substr(1)) || (!text.empty() && like(text.substr(1), pattern));
  return !text.empty() && text[0] == pattern[0] && like(text.substr(1), pattern.substr(1));
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(part * static_cast<double>(values.size())))];
}

// 0 or more; none if the cell is empty or the column missing.
std::optional<double> figure(const Table& table, size_t row, std::string_view column) {
  const std::string& text = table.cell(row, column);
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
    fail("{}:{}: {} is '{}', which is not a positive number", table.origin, table.lines[row], column, text);
  return value;
}

}  // namespace

std::optional<double> Prediction::error() const {
  if (!predicted_us || !measured_us) return std::nullopt;
  return *predicted_us / *measured_us - 1;
}

std::optional<double> measurement(const Table& table, size_t row, std::string_view column) {
  const std::optional<double> value = figure(table, row, column);
  return value == 0 ? std::nullopt : value;
}

std::optional<double> bytes_in(const Table& table, size_t row) {
  const std::optional<double> bytes = figure(table, row, "bytes");
  if (bytes == 0) leave_out("it has 0 bytes");
  if (bytes > kMostBytes) leave_out(fmt::format("of more than {:g} bytes", kMostBytes));
  return bytes;
}

std::optional<double> count_in(const Table& table, size_t row, std::string_view column) {
  const std::optional<double> value = figure(table, row, column);
  if (!value) return std::nullopt;
  if (*value != std::floor(*value))
    fail("{}:{}: {} is {}; it is a whole number", table.origin, table.lines[row], column, table.cell(row, column));
  if (*value == 0) leave_out(fmt::format("{} is 0", column));
  if (*value > kMostCount) leave_out(fmt::format("{} is above {:g}", column, kMostCount));
  return value;
}

double needed_count(const Table& table, size_t row, std::string_view column) {
  const std::optional<double> value = count_in(table, row, column);
  if (!value) leave_out(fmt::format("the row has no {}", column));
  return *value;
}

void leave_out(std::string why) { throw LeftOut{std::move(why)}; }

Prediction not_predicted(std::string why) {
  Prediction p;
  p.why_not = std::move(why);
  return p;
}

std::vector<Prediction> by_row(const Table& table, const std::function<Prediction(size_t row)>& of) {
  std::vector<Prediction> out;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    try {
      out.push_back(of(r));
    } catch (LeftOut& left_out) {
      out.push_back(not_predicted(std::move(left_out.why)));
    }
  }
  return out;
}

std::vector<Prediction> predict(const Table& table, const Cluster& cluster) {
  const Kind& kind = kind_of(table);
  const std::vector<std::string> why_not = of_other_devices(table, cluster, kind.kernels);
  Table own = table;
  own.rows.clear();
  own.lines.clear();
  for (size_t r = 0; r < table.rows.size(); ++r)
    if (why_not[r].empty()) own.rows.push_back(table.rows[r]), own.lines.push_back(table.lines[r]);
  std::vector<Prediction> found = kind.predict(own, cluster), out;
  for (size_t r = 0, next = 0; r < table.rows.size(); ++r)
    out.push_back(why_not[r].empty() ? std::move(found[next++]) : not_predicted(why_not[r]));
  return out;
}

void keep_rows(Table& table, const std::string& filter) {
  const size_t equals = filter.find('=');
  if (equals == std::string::npos) fail("--only '{}' is not COLUMN=TEXT, where * stands for any text", filter);
  const std::string name = filter.substr(0, equals), pattern = filter.substr(equals + 1);
  if (!table.column(name))
    fail("--only {}: {} has no column '{}'; it has {}", filter, table.origin, name, fmt::join(table.columns, ", "));
  Table kept = table;
  kept.rows.clear();
  kept.lines.clear();
  for (size_t r = 0; r < table.rows.size(); ++r)
    if (like(table.cell(r, name), pattern)) kept.rows.push_back(table.rows[r]), kept.lines.push_back(table.lines[r]);
  if (kept.rows.empty()) fail("--only {}: no row of {} is so", filter, table.origin);
  table = std::move(kept);
}

Table with_predictions(Table table, const std::vector<Prediction>& predictions) {
  for (const char* column : {"predicted_us", "algorithm", "error", "not_predicted"}) {
    if (table.column(column))
      fail("{}: it has a column '{}' already; remove it, or give the table that was predicted from", table.origin,
           column);
    table.columns.emplace_back(column);
  }
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const Prediction& p = predictions[r];
    table.rows[r].push_back(p.predicted_us ? fmt::format("{:.6g}", *p.predicted_us) : "");
    table.rows[r].push_back(p.algorithm);
    table.rows[r].push_back(p.error() ? fmt::format("{:.4f}", *p.error()) : "");
    table.rows[r].push_back(p.why_not);
  }
  return table;
}

std::vector<Summary> summed_up(const std::vector<Prediction>& predictions) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> errors;
  for (const Prediction& p : predictions)
    if (const auto error = p.error()) {
      errors[{p.kind, p.size}].push_back(*error);
      errors[{"all", p.size}].push_back(*error);
    }
  std::vector<Summary> out;
  for (const auto& [key, list] : errors) {
    std::vector<double> sizes, factors;
    for (double e : list) sizes.push_back(std::abs(e)), factors.push_back(std::max(1 + e, 1 / (1 + e)));
    out.push_back({key.first, key.second, static_cast<int>(list.size()), quantile(sizes, 0.5), quantile(list, 0.5),
                   quantile(sizes, 0.9), quantile(factors, 0.5)});
  }
  std::stable_partition(out.begin(), out.end(), [](const Summary& s) { return s.kind != "all"; });
  return out;
}

std::vector<size_t> worst_rows(const std::vector<Prediction>& predictions, size_t count) {
  std::vector<size_t> rows;
  for (size_t r = 0; r < predictions.size(); ++r)
    if (predictions[r].error()) rows.push_back(r);
  auto factor = [&](size_t r) { return std::abs(std::log(1 + *predictions[r].error())); };
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) { return factor(a) > factor(b); });
  rows.resize(std::min(rows.size(), count));
  return rows;
}

}  // namespace partita
