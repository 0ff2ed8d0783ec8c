// Converts schedules to values of the program's columns, and back.

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "partita/base/error.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/program.h"
#include "partita/device_placement/units.h"

namespace partita {

namespace {

constexpr double kNothing = 1e-9;  // rounding, for numbers below about 1000

int64_t op_ns(const PlacementProblem& p, const PlacedSchedule& s, size_t op) {
  return p.ops[op].ns[static_cast<size_t>(s.device[op])];
}
int64_t way_ns(const PlacementProblem& p, const PlacedSchedule& s, int value, int to) {
  const PlacedValue& v = p.values[static_cast<size_t>(value)];
  const int from = s.device[static_cast<size_t>(v.producer)];
  return p.transfer_ns(p.routes[static_cast<size_t>(from)][static_cast<size_t>(to)], v.bytes);
}

double value_of(const Affine& a, const std::vector<double>& values) {
  double sum = a.constant;
  for (const ProgramTerm& t : a.terms) sum += t.factor * values[static_cast<size_t>(t.column)];
  return sum;
}

// Devices keep their order; a transfer starts when its value is made.
PlacedSchedule timed_without_congestion(const PlacementProblem& p, const PlacedSchedule& given) {
  PlacedSchedule s = given;
  std::vector<size_t> order(p.ops.size());
  for (size_t o = 0; o < order.size(); ++o) order[o] = o;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return given.start[a] < given.start[b]; });
  std::vector<int64_t> free(p.devices.size(), 0);
  s.end = 0;
  const auto made = [&](int value) {
    const auto producer = static_cast<size_t>(p.values[static_cast<size_t>(value)].producer);
    return s.start[producer] + op_ns(p, s, producer);
  };
  for (size_t o : order) {
    int64_t start = free[static_cast<size_t>(s.device[o])];
    for (int v : p.ops[o].reads) {
      const PlacedValue& value = p.values[static_cast<size_t>(v)];
      const bool crosses = value.moves() && s.device[static_cast<size_t>(value.producer)] != s.device[o];
      start = std::max(start, made(v) + (crosses ? way_ns(p, s, v, s.device[o]) : 0));
    }
    s.start[o] = start;
    free[static_cast<size_t>(s.device[o])] = start + op_ns(p, s, o);
    s.end = std::max(s.end, start + op_ns(p, s, o));
  }
  for (PlacedTransfer& t : s.transfers) {
    t.start = made(t.value);
    s.end = std::max(s.end, t.start + way_ns(p, s, t.value, t.to));
  }
  sort_by_start(s.transfers);
  return s;
}

}  // namespace

PlacedSchedule earliest_schedule(const PlacementProblem& problem, const PlacedSchedule& schedule, bool congestion) {
  return congestion ? pushed_left(problem, schedule) : timed_without_congestion(problem, schedule);
}

std::vector<double> program_values(const PlacementProblem& p, const PlacementProgram& program,
                                   const PlacedSchedule& s) {
  std::vector<double> values(program.columns.size(), 0);
  const auto set = [&](int column, double to) { values[static_cast<size_t>(column)] = to; };
  const auto time = [&](int64_t ns) { return static_cast<double>(ns) / program.unit_ns; };
  set(0, time(s.end));
  std::vector<int64_t> start(p.ops.size() + program.transfers.size());  // by item, in ns
  for (size_t o = 0; o < p.ops.size(); ++o) {
    start[o] = s.start[o];
    set(program.start_column[o], time(s.start[o]));
    const ProgramUnit& unit = program.units[static_cast<size_t>(program.unit_of_op[o])];
    const auto at = std::find(unit.devices.begin(), unit.devices.end(), s.device[o]);
    ensure(at != unit.devices.end(), "the program does not know of '{}' on device {}", p.ops[o].name, s.device[o]);
    const auto place = static_cast<size_t>(at - unit.devices.begin());
    if (unit.bits.size() == 1) set(unit.bits[0], static_cast<double>(place));
    else if (unit.devices.size() == 4)
      for (size_t bit = 0; bit < 3; ++bit)
        set(unit.bits[bit], static_cast<double>(bit < 2 ? place >> bit & 1 : (place & place >> 1 & 1)));
    else if (!unit.bits.empty()) set(unit.bits[place], 1);
  }
  std::map<std::pair<int, int>, int64_t> sent;
  for (const PlacedTransfer& t : s.transfers) sent[{t.value, t.to}] = t.start;
  for (size_t k = 0; k < program.transfers.size(); ++k) {
    const ProgramTransfer& t = program.transfers[k];
    const auto producer = static_cast<size_t>(p.values[static_cast<size_t>(t.value)].producer);
    const auto found = sent.find({t.value, t.to});
    const bool moves = found != sent.end();
    const int64_t at = moves ? found->second : s.start[producer] + op_ns(p, s, producer);
    start[p.ops.size() + k] = at;
    set(t.start_column, time(at));
    if (t.moves_column >= 0) set(t.moves_column, moves ? 1 : 0);
    if (t.end_column >= 0) set(t.end_column, time(at + (moves ? way_ns(p, s, t.value, t.to) : 0)));
  }
  for (const ProgramOrder& o : program.orders)
    set(o.column, start[static_cast<size_t>(o.first)] < start[static_cast<size_t>(o.second)] ? 1 : 0);
  return values;
}

PlacedSchedule schedule_of(const PlacementProblem& p, const PlacementProgram& program,
                           const std::vector<double>& values) {
  PlacedSchedule s;
  s.start.assign(p.ops.size(), 0);
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const ProgramUnit& unit = program.units[static_cast<size_t>(program.unit_of_op[o])];
    s.device.push_back(*std::max_element(unit.devices.begin(), unit.devices.end(), [&](int a, int b) {
      return value_of(unit.on[static_cast<size_t>(a)], values) < value_of(unit.on[static_cast<size_t>(b)], values);
    }));
  }
  // Operations and transfers in the order of their starts, each after all that it waits for, despite rounding.
  std::vector<std::vector<int>> then(p.ops.size() + program.transfers.size());
  std::vector<int> missing(then.size(), 0);
  std::map<std::pair<int, int>, int> sent;  // value, device: transfer
  for (size_t k = 0; k < program.transfers.size(); ++k)
    sent[{program.transfers[k].value, program.transfers[k].to}] = static_cast<int>(k);
  const auto follows = [&](int before, int after) {
    then[static_cast<size_t>(before)].push_back(after);
    ++missing[static_cast<size_t>(after)];
  };
  std::vector<char> used(then.size(), true);
  std::fill(used.begin() + static_cast<std::ptrdiff_t>(p.ops.size()), used.end(), false);
  for (size_t r = 0; r < p.ops.size(); ++r)
    for (int v : p.ops[r].reads) {
      const PlacedValue& value = p.values[static_cast<size_t>(v)];
      const int to = s.device[r];
      if (!value.moves() || s.device[static_cast<size_t>(value.producer)] == to) {
        follows(value.producer, static_cast<int>(r));
        continue;
      }
      const auto known = sent.find({v, to});
      ensure(known != sent.end(), "the program does not know of value {} on its way to device {}", v, to);
      const int transfer = static_cast<int>(p.ops.size()) + known->second;
      if (!used[static_cast<size_t>(transfer)]) follows(value.producer, transfer);
      used[static_cast<size_t>(transfer)] = true;
      follows(transfer, static_cast<int>(r));
    }
  const auto at = [&](int item) {
    const auto i = static_cast<size_t>(item);
    return i < p.ops.size() ? values[static_cast<size_t>(program.start_column[i])]
                            : values[static_cast<size_t>(program.transfers[i - p.ops.size()].start_column)];
  };
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> ready;
  for (size_t i = 0; i < then.size(); ++i)
    if (used[i] && missing[i] == 0) ready.emplace(at(static_cast<int>(i)), static_cast<int>(i));
  for (int64_t position = 0; !ready.empty(); ++position) {
    const int item = ready.top().second;
    ready.pop();
    if (const auto i = static_cast<size_t>(item); i < p.ops.size()) s.start[i] = position;
    else
      s.transfers.push_back(
          {program.transfers[i - p.ops.size()].value, program.transfers[i - p.ops.size()].to, position});
    for (int next : then[static_cast<size_t>(item)])
      if (--missing[static_cast<size_t>(next)] == 0) ready.emplace(at(next), next);
  }
  return pushed_left(p, s);
}

PresolvedProgram presolve(const PlacementProgram& whole, const Watch& watch) {
  Polling polling(watch, "while the integer program was reduced");
  PresolvedProgram result;
  PlacementProgram& out = result.program;
  out.unit_ns = whole.unit_ns;
  std::vector<int> becomes(whole.columns.size(), -1);
  for (size_t c = 0; c < whole.columns.size(); ++c) {
    if (c > 0 && whole.columns[c].lower == whole.columns[c].upper) continue;
    becomes[c] = static_cast<int>(out.columns.size());
    out.columns.push_back(whole.columns[c]);
    result.column.push_back(static_cast<int>(c));
  }
  for (ProgramRow row : whole.rows) {
    polling.step();
    double fixed = 0, least = 0, most = 0;
    const size_t begin = out.terms.size();
    for (size_t i = row.terms; i < row.terms_end; ++i) {
      ProgramTerm t = whole.terms[i];
      const ProgramColumn& c = whole.columns[static_cast<size_t>(t.column)];
      t.column = becomes[static_cast<size_t>(t.column)];
      if (t.column < 0) {
        fixed += t.factor * c.lower;
        continue;
      }
      out.terms.push_back(t);
      least += t.factor * (t.factor > 0 ? c.lower : c.upper);
      most += t.factor * (t.factor > 0 ? c.upper : c.lower);
    }
    row.lower -= fixed;
    row.upper -= fixed;
    row.terms = begin;
    row.terms_end = out.terms.size();
    if (least >= row.lower - kNothing && most <= row.upper + kNothing) out.terms.resize(begin);
    else out.rows.push_back(row);
  }
  return result;
}

PlacementProblem with_balanced_memory(const PlacementProblem& problem) {
  PlacementProblem p = problem;
  std::vector<int> runs(p.devices.size(), 0);
  const std::vector<PlacementUnit> units = placement_units(p);
  for (const PlacementUnit& unit : units)
    for (int d : unit.devices) runs[static_cast<size_t>(d)] += static_cast<int>(unit.ops.size());
  const int most = *std::max_element(runs.begin(), runs.end());
  int64_t all = 0, largest = 0, among = 0;
  for (int r : runs) among += r == most;
  for (const PlacementUnit& unit : units)
    if (std::any_of(unit.devices.begin(), unit.devices.end(),
                    [&](int d) { return runs[static_cast<size_t>(d)] == most; })) {
      all += unit.bytes;
      largest = std::max(largest, unit.bytes);
    }
  const int64_t share = (all + (among - 1) * largest + among - 1) / among;
  for (size_t d = 0; d < runs.size(); ++d)
    if (runs[d] == most) p.devices[d].memory_bytes = std::min(p.devices[d].memory_bytes, share);
  return p;
}

}  // namespace partita
