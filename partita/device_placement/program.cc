// Makes the rows and columns of the integer program.
#include "partita/device_placement/program.h"

#include <algorithm>
#include <limits>
#include <set>

#include "partita/base/error.h"
#include "partita/device_placement/units.h"

namespace partita {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Times are scaled to this horizon, if theirs is longer.
constexpr double kLongestHorizon = 1000;
// Thresholds of heads and tails, for the rows of the work of devices and links.
constexpr size_t kThresholds = 6;

void add(Affine& to, const Affine& what, double factor = 1) {
  to.constant += factor * what.constant;
  for (const ProgramTerm& t : what.terms) to.terms.push_back({t.column, factor * t.factor});
}
Affine sum(const Affine& a, const Affine& b, double factor = 1) {
  Affine result = a;
  add(result, b, factor);
  return result;
}
Affine number(double constant) { return {constant, {}}; }
Affine column(int c) { return {0, {{c, 1}}}; }
bool is(const Affine& a, double constant) { return a.terms.empty() && a.constant == constant; }

// The use of a device or link for a while. It takes `queue` if the slack is 0; otherwise that is 1 or more.
struct Use {
  int queue = 0;  // devices, then links
  Affine slack;
  double least = 0;  // time
};
struct Item {
  Affine start, end;
  double earliest = 0, latest_end = 0;
  int rule = 4, together = -1;  // items with equal numbers, if they meet at all, meet on any device
  std::vector<Use> uses;
};

class ProgramMaker {
 public:
  ProgramMaker(const PlacementProblem& problem, int64_t horizon_ns, bool congestion, const Watch& watch)
      : p_(problem), polling_(watch, "while the integer program was made") {
    watch.poll("before the integer program was made");
    out_.congestion = congestion;
    out_.unit_ns = std::max(1.0, static_cast<double>(horizon_ns) / kLongestHorizon);
    horizon_ = time(horizon_ns);
    c_ = add_column("C", 0, horizon_, false);
  }

  PlacementProgram make() {
    make_units();
    find_windows();
    make_ops();
    make_transfers();
    make_precedence();
    make_memory();
    find_paths();
    make_overlaps(op_items_, [&](size_t a, size_t b) { return reaches(a, b); });
    make_loads(op_items_);
    if (out_.congestion) {
      make_overlaps(transfer_items_, [&](size_t a, size_t b) { return comes_before(a, b); });
      make_loads(transfer_items_);
    }
    return std::move(out_);
  }
  size_t rows() const { return out_.rows.size(); }

 private:
  double time(int64_t ns) const { return static_cast<double>(ns) / out_.unit_ns; }
  int add_column(const std::string& name, double lower, double upper, bool whole) {
    out_.columns.push_back({name, lower, upper, whole});
    return static_cast<int>(out_.columns.size()) - 1;
  }
  // lower <= what <= upper
  void row(int rule, const Affine& what, double lower, double upper) {
    polling_.step();
    std::vector<ProgramTerm> terms = what.terms;
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.column < b.column; });
    ProgramRow r{rule, lower - what.constant, upper - what.constant, out_.terms.size(), 0};
    for (size_t i = 0; i < terms.size();) {
      ProgramTerm t = terms[i];
      for (++i; i < terms.size() && terms[i].column == t.column; ++i) t.factor += terms[i].factor;
      if (t.factor != 0) out_.terms.push_back(t);
    }
    r.terms_end = out_.terms.size();
    if (r.terms == r.terms_end && r.lower <= 0 && r.upper >= 0) return;
    out_.rows.push_back(r);
  }
  void at_least(int rule, const Affine& what, double lower) { row(rule, what, lower, kInfinity); }

  const PlacedOp& op(int o) const { return p_.ops[static_cast<size_t>(o)]; }
  const ProgramUnit& unit(int o) const {
    return out_.units[static_cast<size_t>(out_.unit_of_op[static_cast<size_t>(o)])];
  }
  bool one_unit(int a, int b) const {
    return out_.unit_of_op[static_cast<size_t>(a)] == out_.unit_of_op[static_cast<size_t>(b)];
  }
  const Affine& on(int o, int device) const { return unit(o).on[static_cast<size_t>(device)]; }
  bool may(int o, int device) const {
    const std::vector<int>& devices = unit(o).devices;
    return std::binary_search(devices.begin(), devices.end(), device);
  }
  int64_t least_ns(int o) const {
    int64_t least = INT64_MAX;
    for (int d : unit(o).devices) least = std::min(least, op(o).ns[static_cast<size_t>(d)]);
    return least;
  }
  const Route& route(int from, int to) const { return p_.routes[static_cast<size_t>(from)][static_cast<size_t>(to)]; }

  void make_units() {
    units_ = placement_units(p_);
    for (const PlacementUnit& unit : units_) unit_devices_.push_back(unit.devices);
    device_sets_ = {unit_devices_.begin(), unit_devices_.end()};
    break_device_symmetry(p_, units_);
    out_.unit_of_op = unit_of_op(p_, units_);
    for (size_t u = 0; u < units_.size(); ++u) {
      ProgramUnit unit{units_[u].devices, {}, std::vector<Affine>(p_.devices.size())};
      ensure(!unit.devices.empty(), "'{}' fits nowhere", op(units_[u].ops.front()).name);
      make_place(std::to_string(u), unit);
      out_.units.push_back(unit);
    }
  }
  void make_place(const std::string& name, ProgramUnit& u) {
    const auto set = [&](size_t i, const Affine& a) { u.on[static_cast<size_t>(u.devices[i])] = a; };
    if (u.devices.size() == 1) {
      set(0, number(1));
    } else if (u.devices.size() == 2) {
      const int x = add_column("x_" + name, 0, 1, true);
      u.bits = {x};
      set(0, {1, {{x, -1}}});
      set(1, column(x));
    } else if (u.devices.size() == 4) {
      const int x = add_column("x_" + name, 0, 1, true), y = add_column("y_" + name, 0, 1, true);
      const int w = add_column("w_" + name, 0, 1, false);
      u.bits = {x, y, w};
      row(9, {0, {{x, 1}, {w, -1}}}, 0, kInfinity);
      row(9, {0, {{y, 1}, {w, -1}}}, 0, kInfinity);
      row(9, {1, {{w, 1}, {x, -1}, {y, -1}}}, 0, kInfinity);
      set(0, {1, {{x, -1}, {y, -1}, {w, 1}}});
      set(1, {0, {{x, 1}, {w, -1}}});
      set(2, {0, {{y, 1}, {w, -1}}});
      set(3, column(w));
    } else {
      Affine all;
      for (size_t i = 0; i < u.devices.size(); ++i) {
        u.bits.push_back(add_column("x_" + name + "_" + std::to_string(u.devices[i]), 0, 1, true));
        set(i, column(u.bits.back()));
        add(all, column(u.bits.back()));
      }
      row(9, all, 1, 1);
    }
  }

  // The least time of a value from its producer to a reader on any devices: 0 if they can be together.
  int64_t least_way_ns(const PlacedValue& value, int reader) const {
    if (!value.moves() || one_unit(value.producer, reader)) return 0;
    int64_t least = INT64_MAX;
    for (int from : unit(value.producer).devices)
      for (int to : unit(reader).devices) {
        if (from == to) return 0;
        if (route(from, to).queue >= 0) least = std::min(least, p_.transfer_ns(route(from, to), value.bytes));
      }
    ensure(least < INT64_MAX, "no way leads from '{}' to '{}'", op(value.producer).name, op(reader).name);
    return least;
  }
  void find_windows() {
    const size_t n = p_.ops.size();
    head_ns_.assign(n, 0);
    tail_ns_.assign(n, 0);
    for (size_t o = 0; o < n; ++o)
      for (int v : p_.ops[o].reads) {
        const PlacedValue& value = p_.values[static_cast<size_t>(v)];
        const int64_t made = head_ns_[static_cast<size_t>(value.producer)] + least_ns(value.producer);
        head_ns_[o] = std::max(head_ns_[o], made + least_way_ns(value, static_cast<int>(o)));
      }
    int64_t longest = 0;
    for (size_t r = n; r-- > 0;) {
      const int64_t tail = tail_ns_[r] + least_ns(static_cast<int>(r));
      longest = std::max(longest, head_ns_[r] + tail);
      for (int v : p_.ops[r].reads) {
        const PlacedValue& value = p_.values[static_cast<size_t>(v)];
        int64_t& of = tail_ns_[static_cast<size_t>(value.producer)];
        of = std::max(of, tail + least_way_ns(value, static_cast<int>(r)));
      }
    }
    for (const std::vector<int>& devices : device_sets_) longest = std::max(longest, load_ns(devices));
    out_.columns[static_cast<size_t>(c_)].lower = std::min(horizon_, time(longest));
  }
  // The time that these devices need for the operations that no others can run, shared equally. It includes the time
  // before the first and after the last of them: the most of all windows.
  int64_t load_ns(const std::vector<int>& devices) const {
    std::vector<size_t> ops;  // late ones first
    for (size_t o = 0; o < p_.ops.size(); ++o) {
      const std::vector<int>& of = unit_devices_[static_cast<size_t>(out_.unit_of_op[o])];
      if (std::includes(devices.begin(), devices.end(), of.begin(), of.end())) ops.push_back(o);
    }
    std::sort(ops.begin(), ops.end(), [&](size_t a, size_t b) { return tail_ns_[a] > tail_ns_[b]; });
    const auto n = static_cast<int64_t>(devices.size());
    int64_t most = 0;
    for (size_t first : ops) {
      int64_t work = 0;
      for (size_t o : ops) {
        if (head_ns_[o] < head_ns_[first]) continue;
        work += least_ns(static_cast<int>(o));
        most = std::max(most, head_ns_[first] + (work + n - 1) / n + tail_ns_[o]);
      }
    }
    return most;
  }

  void make_ops() {
    std::vector<char> is_read(p_.ops.size(), false);
    for (const PlacedValue& value : p_.values)
      if (!value.readers.empty()) is_read[static_cast<size_t>(value.producer)] = true;
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const int o = static_cast<int>(i);
      Item item;
      item.earliest = time(head_ns_[i]);
      item.latest_end = horizon_ - time(tail_ns_[i]);
      const int64_t least = least_ns(o);
      const int start = add_column("S_" + std::to_string(o), item.earliest,
                                   std::max(item.earliest, item.latest_end - time(least)), false);
      out_.start_column.push_back(start);
      item.start = item.end = column(start);
      item.end.constant += time(least);
      for (int d : unit(o).devices) {
        const int64_t ns = op(o).ns[static_cast<size_t>(d)];
        if (ns > least) add(item.end, on(o, d), time(ns - least));
        item.uses.push_back({d, sum(number(1), on(o, d), -1), time(ns)});
      }
      item.rule = unit(o).devices.size() == 1 ? 4 : 10;
      item.together = out_.unit_of_op[i];
      if (!is_read[i]) at_least(3, sum(column(c_), item.end, -1), 0);
      op_items_.push_back(item);
    }
  }

  void make_transfers() {
    for (size_t v = 0; v < p_.values.size(); ++v) {
      const PlacedValue& value = p_.values[v];
      if (!value.moves()) continue;
      std::set<int> to;
      for (int r : value.readers)
        if (!one_unit(r, value.producer)) to.insert(unit(r).devices.begin(), unit(r).devices.end());
      for (int d : to) make_transfer(static_cast<int>(v), d);
    }
  }
  void make_transfer(int v, int to) {
    const PlacedValue& value = p_.values[static_cast<size_t>(v)];
    std::vector<int> origins;
    for (int from : unit(value.producer).devices)
      if (from != to && route(from, to).queue >= 0) origins.push_back(from);
    forbid_where_no_way_is(value, to);
    if (origins.empty()) return;
    const std::string name = std::to_string(v) + "_" + std::to_string(to);
    ProgramTransfer t{v, to, 0, -1, -1, {}, {}, {}};
    make_moves(value, to, name, t);
    Item item;
    int64_t tail = INT64_MAX;
    for (int r : value.readers)
      if (may(r, to) && !one_unit(r, value.producer))
        tail = std::min(tail, least_ns(r) + tail_ns_[static_cast<size_t>(r)]);
    item.earliest = time(head_ns_[static_cast<size_t>(value.producer)] + least_ns(value.producer));
    item.latest_end = horizon_ - time(tail);
    t.start_column = add_column("T_" + name, item.earliest, std::max(item.earliest, item.latest_end), false);
    t.start = column(t.start_column);
    make_end(value, name, origins, t);
    item.start = t.start;
    item.end = t.end;
    item.rule = 7;
    // If both come from one unit and go to one device, they share the link.
    item.together = out_.unit_of_op[static_cast<size_t>(value.producer)] * static_cast<int>(p_.devices.size()) + to;
    make_uses(value, origins, t, item);
    at_least(1, sum(t.start, op_items_[static_cast<size_t>(value.producer)].end, -1), 0);
    at_least(3, sum(column(c_), t.end, -1), time(tail));
    transfer_items_.push_back(item);
    out_.transfers.push_back(t);
  }
  void forbid_where_no_way_is(const PlacedValue& value, int to) {
    for (int from : unit(value.producer).devices)
      if (from != to && route(from, to).queue < 0)
        for (int r : value.readers)
          if (may(r, to) && !one_unit(r, value.producer))
            row(7, sum(on(value.producer, from), on(r, to)), -kInfinity, 1);
  }
  // (5): 1 if a reader is at `to` and the producer is not.
  void make_moves(const PlacedValue& value, int to, const std::string& name, ProgramTransfer& t) {
    std::set<int> readers;  // units
    for (int r : value.readers)
      if (may(r, to) && !one_unit(r, value.producer)) readers.insert(out_.unit_of_op[static_cast<size_t>(r)]);
    const auto reads = [&](int u) { return out_.units[static_cast<size_t>(u)].on[static_cast<size_t>(to)]; };
    const Affine& home = on(value.producer, to);
    if (is(home, 0) && std::any_of(readers.begin(), readers.end(), [&](int u) { return is(reads(u), 1); })) {
      t.moves = number(1);
    } else if (is(home, 0) && readers.size() == 1) {
      t.moves = reads(*readers.begin());
    } else {
      t.moves_column = add_column("z_" + name, 0, 1, false);
      t.moves = column(t.moves_column);
      for (int u : readers) at_least(5, sum(sum(t.moves, reads(u), -1), home), 0);
    }
  }
  // (6)
  void make_end(const PlacedValue& value, const std::string& name, const std::vector<int>& origins,
                ProgramTransfer& t) {
    int64_t least = INT64_MAX, most = 0;
    for (int from : origins) {
      const int64_t ns = p_.transfer_ns(route(from, t.to), value.bytes);
      least = std::min(least, ns);
      most = std::max(most, ns);
    }
    t.end = sum(t.start, t.moves, time(least));
    if (least == most) return;
    const Affine at_best = t.end;
    t.end_column = add_column("E_" + name, 0, horizon_, false);
    t.end = column(t.end_column);
    at_least(6, sum(t.end, at_best, -1), 0);
    for (int from : origins) {
      const int64_t more = p_.transfer_ns(route(from, t.to), value.bytes) - least;
      if (more == 0) continue;
      Affine a = sum(t.end, at_best, -1);
      add(a, sum(t.moves, sum(number(1), on(value.producer, from), -1), -1), -time(more));
      at_least(6, a, 0);
    }
  }
  void make_uses(const PlacedValue& value, const std::vector<int>& origins, const ProgramTransfer& t, Item& item) {
    std::set<int> queues;
    for (int from : origins) queues.insert(route(from, t.to).queue);
    for (int q : queues) {
      Use use{static_cast<int>(p_.devices.size()) + q, sum(number(1), t.moves, -1), kInfinity};
      Affine elsewhere = number(1);
      for (int from : origins) {
        if (route(from, t.to).queue != q) continue;
        add(elsewhere, on(value.producer, from), -1);
        use.least = std::min(use.least, time(p_.transfer_ns(route(from, t.to), value.bytes)));
      }
      if (queues.size() > 1) add(use.slack, elsewhere);
      item.uses.push_back(use);
    }
  }

  // (1)
  void make_precedence() {
    for (const PlacedValue& value : p_.values)
      for (int r : value.readers)
        at_least(
            1, sum(op_items_[static_cast<size_t>(r)].start, op_items_[static_cast<size_t>(value.producer)].end, -1), 0);
    for (size_t k = 0; k < out_.transfers.size(); ++k) {
      const ProgramTransfer& t = out_.transfers[k];
      const PlacedValue& value = p_.values[static_cast<size_t>(t.value)];
      for (int r : value.readers) {
        if (!may(r, t.to) || one_unit(r, value.producer)) continue;
        const Item& reader = op_items_[static_cast<size_t>(r)];
        const double m = std::max(0.0, transfer_items_[k].latest_end - reader.earliest);
        Affine a = sum(reader.start, t.end, -1);
        add(a, sum(number(1), on(r, t.to), -1), m);
        at_least(1, a, 0);
        double least = kInfinity;
        for (const Use& use : transfer_items_[k].uses) least = std::min(least, use.least);
        Affine edge = sum(reader.start, op_items_[static_cast<size_t>(value.producer)].end, -1);
        add(edge, sum(on(r, t.to), on(value.producer, t.to), -1), -least);
        at_least(0, edge, 0);
      }
    }
  }

  // (8)
  void make_memory() {
    for (size_t d = 0; d < p_.devices.size(); ++d) {
      Affine used;
      int64_t all = 0;
      const auto limit = static_cast<double>(p_.devices[d].memory_bytes);
      for (size_t u = 0; u < units_.size(); ++u) {
        if (!std::binary_search(units_[u].devices.begin(), units_[u].devices.end(), static_cast<int>(d))) continue;
        if (units_[u].bytes == 0) continue;
        add(used, out_.units[u].on[d], static_cast<double>(units_[u].bytes) / limit);
        all += units_[u].bytes;
      }
      if (all > p_.devices[d].memory_bytes) row(8, used, -kInfinity, 1);
    }
  }

  void find_paths() {
    const size_t n = p_.ops.size(), words = (n + 63) / 64;
    reach_.assign(n, std::vector<uint64_t>(words, 0));
    for (size_t o = n; o-- > 0;)
      for (int v : p_.ops[o].reads) {
        std::vector<uint64_t>& from = reach_[static_cast<size_t>(p_.values[static_cast<size_t>(v)].producer)];
        from[o / 64] |= uint64_t{1} << (o % 64);
        for (size_t w = 0; w < words; ++w) from[w] |= reach_[o][w];
      }
  }
  bool reaches(size_t a, size_t b) const { return (reach_[a][b / 64] >> (b % 64) & 1) != 0; }
  // An item that waits for a transfer is before the producer of the other.
  bool comes_before(size_t a, size_t b) const {
    const ProgramTransfer& t = out_.transfers[a];
    const PlacedValue& value = p_.values[static_cast<size_t>(t.value)];
    const int then = p_.values[static_cast<size_t>(out_.transfers[b].value)].producer;
    return std::all_of(value.readers.begin(), value.readers.end(), [&](int r) {
      return !may(r, t.to) || one_unit(r, value.producer) || r == then ||
             reaches(static_cast<size_t>(r), static_cast<size_t>(then));
    });
  }

  // (4), (7), (10)
  template <typename Before>
  void make_overlaps(const std::vector<Item>& items, const Before& before) {
    const int offset = &items == &op_items_ ? 0 : static_cast<int>(p_.ops.size());
    for (size_t i = 0; i < items.size(); ++i)
      for (size_t j = i + 1; j < items.size(); ++j) {
        polling_.step();
        if (!before(i, j) && !before(j, i))
          make_pair(items[i], items[j], static_cast<int>(i) + offset, static_cast<int>(j) + offset);
      }
  }
  void make_pair(const Item& a, const Item& b, int a_number, int b_number) {
    if (a.latest_end <= b.earliest || b.latest_end <= a.earliest) return;
    const int rule = std::max(a.rule, b.rule);
    int bit = -1;
    const auto meet = [&](const Affine& slack, double a_least, double b_least) {
      const double both = a_least + b_least - 1e-9 * horizon_;
      const bool a_first = a.earliest + both <= b.latest_end, b_first = b.earliest + both <= a.latest_end;
      if (!a_first && !b_first) return at_least(rule, slack, 1);
      if (a_first && b_first && bit < 0) {
        bit = add_column("d_" + std::to_string(a_number) + "_" + std::to_string(b_number), 0, 1, true);
        out_.orders.push_back({bit, a_number, b_number});
      }
      const Affine after = a_first && b_first ? column(bit) : number(0);  // 1: a is first
      const Affine before = a_first && b_first ? sum(number(1), after, -1) : number(0);
      if (b_first) wait(rule, a, b, sum(slack, after));
      if (a_first) wait(rule, b, a, sum(slack, before));
    };
    if (a.together == b.together) {
      Affine slack;  // for transfers: whether both are made
      if (a.rule == 7) slack = sum(a.uses.front().slack, b.uses.front().slack);
      if (a.rule == 7 && a.uses.size() > 1) slack = sum(number(2), sum(moves(a_number), moves(b_number)), -1);
      double a_least = kInfinity, b_least = kInfinity;
      for (const Use& use : a.uses) a_least = std::min(a_least, use.least);
      for (const Use& use : b.uses) b_least = std::min(b_least, use.least);
      return meet(slack, a_least, b_least);
    }
    for (const Use& x : a.uses)
      for (const Use& y : b.uses)
        if (x.queue == y.queue) meet(sum(x.slack, y.slack), x.least, y.least);
  }
  const Affine& moves(int item) const { return out_.transfers[static_cast<size_t>(item) - p_.ops.size()].moves; }
  // The later item starts after the earlier has ended, unless the slack is 1 or more.
  void wait(int rule, const Item& later, const Item& before, const Affine& slack) {
    Affine a = sum(later.start, before.end, -1);
    add(a, slack, std::max(0.0, before.latest_end - later.earliest));
    at_least(rule, a, 0);
  }

  // A device or link works one after another on items that start and end within a window.
  void make_loads(const std::vector<Item>& items) {
    struct Part {
      double head, tail;
      Affine work;
    };
    std::vector<std::vector<Part>> of(p_.devices.size() + static_cast<size_t>(p_.queues));
    for (const Item& item : items)
      for (const Use& use : item.uses) {
        if (item.rule == 7 && item.uses.size() > 1) continue;  // its slack goes to 2
        Affine work;
        add(work, sum(number(1), use.slack, -1), use.least);
        of[static_cast<size_t>(use.queue)].push_back({item.earliest, horizon_ - item.latest_end, work});
      }
    const auto thresholds = [](std::vector<double> all) {
      std::sort(all.begin(), all.end());
      std::set<double> some;
      for (size_t i = 0; i < kThresholds && !all.empty(); ++i) some.insert(all[i * (all.size() - 1) / kThresholds]);
      return some;
    };
    for (const std::vector<Part>& parts : of) {
      std::vector<double> heads, tails;
      for (const Part& part : parts) heads.push_back(part.head), tails.push_back(part.tail);
      for (double head : thresholds(heads))
        for (double tail : thresholds(tails)) {
          Affine end = number(head + tail);
          size_t members = 0;
          for (const Part& part : parts)
            if (part.head >= head && part.tail >= tail) add(end, part.work), ++members;
          if (members > 1) at_least(0, sum(column(c_), end, -1), 0);
        }
    }
  }

  const PlacementProblem& p_;
  Polling polling_;  // by row and by pair of items
  PlacementProgram out_;
  double horizon_ = 0;
  int c_ = 0;
  std::vector<PlacementUnit> units_;
  std::vector<std::vector<int>> unit_devices_;  // before devices were taken away
  std::set<std::vector<int>> device_sets_;
  std::vector<int64_t> head_ns_, tail_ns_;  // by operation: before its start, after its end
  std::vector<Item> op_items_, transfer_items_;
  std::vector<std::vector<uint64_t>> reach_;  // by operation: bits of those after it
};

}  // namespace

PlacementProgram make_program(const PlacementProblem& problem, int64_t horizon_ns, bool congestion, const Watch& watch,
                              size_t* rows) {
  validate(problem);
  ProgramMaker maker(problem, horizon_ns, congestion, watch);
  try {
    return maker.make();
  } catch (const Error&) {
    if (rows) *rows = maker.rows();
    throw;
  }
}

}  // namespace partita
