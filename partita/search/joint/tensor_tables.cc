// Makes the values of tensors' variables, and the tables between them and the ops around them.
#include "partita/search/joint/tensor_tables.h"

#include <algorithm>
#include <functional>
#include <set>

#include "partita/base/radices.h"
#include "partita/plan/resolve.h"

namespace partita {

namespace {

using solver::kForbidden;
using solver::Table;

using Needs = std::vector<std::vector<int>>;          // per value of a reader: layouts, ascending
using WantedBy = std::map<int, std::vector<size_t>>;  // layout -> readers

// Returns the position of a layout in a list, which grows if it is new.
int place(const Layout& layout, std::vector<Layout>& list) {
  for (size_t i = 0; i < list.size(); ++i)
    if (same_placement(list[i], layout)) return static_cast<int>(i);
  list.push_back(layout);
  return static_cast<int>(list.size()) - 1;
}

// Per value of an op, the different layouts that it needs for these operands.
Needs needs_of(const ReadingSpace& reader, std::vector<Layout>& layouts) {
  Needs needs;
  for (const OpLayouts& l : reader.op->layouts) {
    std::set<int> mine;
    for (int k : reader.operands) mine.insert(place(l.operands[k], layouts));
    needs.emplace_back(mine.begin(), mine.end());
  }
  return needs;
}

std::vector<int> joined(const Needs& lists) {
  std::vector<int> all;
  for (const std::vector<int>& l : lists) all.insert(all.end(), l.begin(), l.end());
  return all;
}

std::vector<int> results_of(const OpSpace* op, int result, std::vector<Layout>& layouts) {
  std::vector<int> places;
  if (op)
    for (const OpLayouts& l : op->layouts) places.push_back(place(l.results[result], layouts));
  return places;
}

int last_position(const TableMaking& making) { return making.mesh.positions() - 1; }

// A tensor's space in the making, with the inputs of its tables.
struct Draft {
  const TableMaking& making;
  const TensorKind& kind;
  JointCosts& costs_by;
  TensorSpace space = {};
  std::vector<int> made = {}, remade = {};  // per value of these ops: in space.layouts
  std::vector<Needs> needs = {};            // [reader][its value]
  std::vector<int> kept_layouts = {};
  std::vector<int64_t> arrivals = {};  // by kept layout: the cost of an input from its hosts, or of an output to its
                                       // own
};

// The kept layouts of the tensor: as its producer leaves it, or under the name of a layout that someone makes or needs.
// Partial values are kept only as they were made.
std::vector<int> homes_of(Draft& draft) {
  std::vector<Layout>& layouts = draft.space.layouts;
  const Mesh& mesh = draft.making.mesh;
  if (!draft.kind.made)
    place(make_layout(mesh, NdSbp(mesh.extents.size(), Sbp::broadcast()), unfactored(draft.kind.shape)), layouts);
  const std::set<int> made(draft.made.begin(), draft.made.end());
  std::vector<int> kept_layouts;
  for (size_t l = 0; l < layouts.size(); ++l)
    if (made.contains(static_cast<int>(l)) || can_be_kept(layouts[l])) kept_layouts.push_back(static_cast<int>(l));
  return kept_layouts;
}

// The layouts that at least two readers may need, and those readers.
WantedBy wanted_together(const std::vector<Needs>& needs) {
  WantedBy wanted;
  for (size_t r = 0; r < needs.size(); ++r) {
    std::set<int> mine;
    for (const std::vector<int>& need : needs[r]) mine.insert(need.begin(), need.end());
    for (int n : mine) wanted[n].push_back(r);
  }
  std::erase_if(wanted, [](const auto& by) { return by.second.size() < 2; });
  return wanted;
}

// ------------------------------------------------------------------ values

using NeverShared = std::function<bool(int kept_layout, int layout)>;

// If the objective is time: the pairs of kept layout and layout for which the straight way to the layout takes no
// longer than by the kept one, from any value of the producer.
std::set<std::pair<int, int>> never_faster(const Draft& draft, const std::vector<int>& shared,
                                           const std::vector<bool>& named, const ConversionCosts& costs) {
  const ConversionCosts from_made(draft.costs_by, draft.space.layouts, draft.made, draft.kept_layouts,
                                  draft.kind.element_bytes, draft.kind.firings.made);
  std::set<std::pair<int, int>> never;
  for (int h : draft.kept_layouts)
    for (int s : shared) {
      if (s == h) continue;
      bool needed = costs(h, s) > 0;
      if (needed && std::binary_search(draft.kept_layouts.begin(), draft.kept_layouts.end(), s) && named[s]) {
        auto longer = [&](int64_t straight, int64_t to_home) {
          return draft.arrivals[s] + straight > draft.arrivals[h] + to_home + costs(h, s);
        };
        needed = draft.made.empty() && longer(0, 0);
        for (int m : draft.made)
          if (m == h || named[h]) needed = needed || longer(m == s ? 0 : from_made(m, s), m == h ? 0 : from_made(m, h));
      }
      if (!needed) never.insert({h, s});
    }
  return never;
}

// Whether two readers should never share a layout, because keeping the tensor in it is as good. In bytes that is so if
// any producer's tensor can be kept in it, since no detour is shorter; unless the way to the kept layout is taken more
// often.
NeverShared never_shared(const Draft& draft, const std::vector<int>& shared, const ConversionCosts& costs) {
  const TensorKind& kind = draft.kind;
  if (kind.read.size() > 2 || kind.remade || kind.pinned || kind.firings.made > kind.firings.read)
    return [](int, int) { return false; };
  std::vector<bool> named;
  for (const Layout& l : draft.space.layouts) named.push_back(can_be_kept(l));
  if (!draft.costs_by.in_time())
    return [&kept_layouts = draft.kept_layouts, named](int, int layout) {
      return named[layout] && std::binary_search(kept_layouts.begin(), kept_layouts.end(), layout);
    };
  return [never = never_faster(draft, shared, named, costs)](int kept_layout, int layout) {
    return never.contains({kept_layout, layout});
  };
}

// Lists kept layouts, each with every set of layouts that readers may share. Returns false, and lists the kept layouts
// alone, if these or their tables of so many columns exceed the limits.
bool list_values(Draft& draft, const std::vector<int>& shared, const NeverShared& never, size_t columns) {
  std::vector<TensorSpace::Value>& values = draft.space.values;
  const JointLimits& limits = draft.making.keeper.limits();
  const size_t most = draft.kind.read.size() / 2;
  for (int h : draft.kept_layouts) values.push_back({h, {}});
  size_t before = 0;
  for (size_t size = 1; size <= std::min(most, shared.size()); ++size) {
    std::vector<TensorSpace::Value> larger;
    for (size_t v = before; v < values.size(); ++v)
      for (int s : shared) {
        const TensorSpace::Value& smaller = values[v];
        if (s == smaller.kept_layout || (!smaller.also.empty() && s <= smaller.also.back()) ||
            never(smaller.kept_layout, s))
          continue;
        larger.push_back(smaller);
        larger.back().also.push_back(s);
      }
    const auto count = static_cast<int64_t>(values.size() + larger.size());
    if (count > limits.tensor_values || count * static_cast<int64_t>(columns) > limits.tensor_entries) {
      values.resize(draft.kept_layouts.size());
      return false;
    }
    before = values.size();
    values.insert(values.end(), larger.begin(), larger.end());
  }
  return true;
}

// ------------------------------------------------------------------ tables

Table cost_table(const Draft& draft, const ConversionCosts& costs) {
  Table cost;
  for (const TensorSpace::Value& v : draft.space.values) {
    int64_t sum = draft.arrivals[v.kept_layout];
    for (int a : v.also) sum += costs(v.kept_layout, a);
    cost.push_back(sum);
  }
  return cost;
}

// The costs from each value of the op that makes it to each kept layout. A kept layout without a name is only the
// producer's own.
TablePointer arrival_table(const Draft& draft, const std::vector<int>& made, int firings) {
  const TensorSpace& space = draft.space;
  std::vector<bool> named;
  for (const Layout& l : space.layouts) named.push_back(can_be_kept(l));
  std::vector<int> kept_layouts;
  for (const TensorSpace::Value& v : space.values)
    if (named[v.kept_layout]) kept_layouts.push_back(v.kept_layout);
  const ConversionCosts costs(draft.costs_by, space.layouts, made, kept_layouts, draft.kind.element_bytes, firings);
  std::vector<Table> of_home(space.layouts.size());
  Table table;
  table.reserve(space.values.size() * made.size());
  for (const TensorSpace::Value& v : space.values) {
    Table& row = of_home[v.kept_layout];
    if (row.empty())
      for (int m : made)
        row.push_back(m == v.kept_layout ? 0 : named[v.kept_layout] ? costs(m, v.kept_layout) : kForbidden);
    table.insert(table.end(), row.begin(), row.end());
  }
  return draft.making.tables.one(std::move(table));
}

// The costs of a reader's values beside each value of the tensor. Layouts with variables of their own are left out.
TablePointer reader_table(const Draft& draft, const Needs& needs, const std::vector<bool>& has_variable,
                          const ConversionCosts& costs) {
  const LimitKeeper& keeper = draft.making.keeper;
  const TensorSpace& space = draft.space;
  keeper.check_time();
  std::vector<std::vector<size_t>> wanting(space.layouts.size());  // [layout]: the reader's values that need it
  for (size_t y = 0; y < needs.size(); ++y)
    for (int n : needs[y])
      if (!has_variable[n]) wanting[n].push_back(y);
  std::vector<Table> of_home(space.layouts.size());  // the costs of its values beside a kept layout alone
  for (int h : draft.kept_layouts) {
    of_home[h].assign(needs.size(), 0);
    for (size_t n = 0; n < space.layouts.size(); ++n)
      for (size_t y : wanting[n]) of_home[h][y] += costs(h, static_cast<int>(n));
  }
  Table table;
  table.reserve(space.values.size() * needs.size());
  size_t rows = 0;
  for (const TensorSpace::Value& v : space.values) {
    if (++rows % 1024 == 0) keeper.check_time();
    const size_t row = table.size();
    table.insert(table.end(), of_home[v.kept_layout].begin(), of_home[v.kept_layout].end());
    for (int a : v.also)
      for (size_t y : wanting[a]) table[row + y] -= costs(v.kept_layout, a);
  }
  return draft.making.tables.one(std::move(table));
}

// ------------------------------------------------------------------ layouts with variables of their own

constexpr int64_t kNoCopy = -1;

// The ways in which a layout may be brought. If copies are counted, `elements` becomes the copy's elements beside each
// kept layout, by layout; kNoCopy: the kept layout counts whole until the backward pass.
std::vector<TensorSpace::ReshardChoice> choices_of(const Draft& draft, int layout, bool for_others, bool for_backward,
                                                   std::vector<int64_t>& elements) {
  using ReshardChoice = TensorSpace::ReshardChoice;
  if (!draft.making.keeper.limits().counts_copies) return {{}, {true, true, true}};
  std::vector<ReshardChoice> choices = {{}};
  if (for_others) choices.push_back({.others = true});
  if (for_backward) choices.push_back({.backward = true});
  if (!for_others || !for_backward) return choices;
  if (!draft.kind.once_for_parts) choices.push_back({true, true});
  const int last = last_position(draft.making);
  const bool made = draft.kind.made != nullptr;
  std::set<int64_t> different;
  for (const TensorSpace::Value& v : draft.space.values) {
    const Layout &kept_layout = draft.space.layouts[v.kept_layout], &copy = draft.space.layouts[layout];
    elements[v.kept_layout] = elements_beside(kept_layout, copy, last, made);
    if (made && copy.elements(last) < kept_layout.elements(last) && !is_view(kept_layout, copy, last))
      elements[v.kept_layout] = kNoCopy;
    else different.insert(elements[v.kept_layout]);
  }
  for (int64_t e : different) choices.push_back({true, true, true, e});
  return choices;
}

TensorTables::Shared brought_to(Draft& draft, int layout, const std::vector<size_t>& readers,
                                const ConversionCosts& costs) {
  using ReshardChoice = TensorSpace::ReshardChoice;
  const TensorKind& kind = draft.kind;
  std::vector<size_t> others, backward;
  for (size_t r : readers) (kind.read[r].backward ? backward : others).push_back(r);
  std::vector<int64_t> elements(draft.space.layouts.size(), 0);  // by kept layout
  std::vector<ReshardChoice> choices = choices_of(draft, layout, !others.empty(), !backward.empty(), elements);
  TensorTables::Shared out;
  Table from_home;
  for (const TensorSpace::Value& v : draft.space.values)
    for (const ReshardChoice& choice : choices)
      from_home.push_back(choice.once && choice.elements != elements[v.kept_layout]
                              ? kForbidden
                              : costs(v.kept_layout, layout) * (choice.once ? 1 : choice.others + choice.backward));
  out.from_home = draft.making.tables.one(std::move(from_home));
  for (size_t r : readers) {
    Table table;
    for (const ReshardChoice& choice : choices)
      for (const std::vector<int>& need : draft.needs[r]) {
        const bool is_brought = kind.read[r].backward ? choice.backward : choice.others;
        const bool wants = std::binary_search(need.begin(), need.end(), layout);
        table.push_back(is_brought || !wants ? 0 : kForbidden);
      }
    out.readers.push_back({r, draft.making.tables.one(std::move(table))});
  }
  // Readers are in the graph's order.
  if (!others.empty() && !backward.empty() && others.back() < backward.front())
    out.between = {others.back(), backward.front()};
  draft.space.resharded.push_back({layout, std::move(choices)});
  return out;
}

// Adds copies for several readers: a variable of its own for each such layout, or, if the values list them, the copies
// that lie between two readers.
void add_shared(Draft& draft, const WantedBy& wanted_by, bool listed, size_t entries, const ConversionCosts& costs,
                TensorTables& tables) {
  const TensorKind& kind = draft.kind;
  const bool copies_lie = !kind.made || kind.read.size() > 2;  // beside the kept layout
  // A limit may then count too little: its layouts could have variables that count more, or have them and do not.
  const bool counts_less = listed ? copies_lie && static_cast<int64_t>(entries) > JointLimits::kEntries
                                  : !draft.making.keeper.limits().counts_copies;
  for (const auto& [layout, readers] : wanted_by) {
    if (!listed) tables.shared.push_back(brought_to(draft, layout, readers, costs));
    else if (copies_lie && readers.size() == 2) tables.between[{readers[0], readers[1]}].push_back(layout);
    const auto backward =
        std::count_if(readers.begin(), readers.end(), [&](size_t r) { return kind.read[r].backward; });
    tables.leaves_copies_out |= counts_less && backward > 0 && backward < static_cast<std::ptrdiff_t>(readers.size());
  }
}

}  // namespace

TablePointer SharedTables::one(Table table) {
  size_t hash = table.size();
  for (int64_t x : table) hash = (hash ^ static_cast<size_t>(x)) * 0x9E3779B97F4A7C15u;
  const std::lock_guard lock(lock_);
  for (const auto& same : tables_[hash])
    if (*same == table) return same;
  return tables_[hash].emplace_back(std::make_shared<const Table>(std::move(table)));
}

StraightTable straight_table(const TableMaking& making, const StraightKind& kind, JointCosts& by) {
  StraightSpace space;
  std::vector<Layout>& layouts = space.layouts;
  const std::vector<int> from = results_of(kind.made, kind.result, layouts);
  const Needs needs = needs_of(kind.read, layouts);
  std::vector<int> starts = from, kept_layouts;
  if (by.in_time() && !kind.given)
    for (size_t l = 0; l < layouts.size(); ++l)
      if (can_be_kept(layouts[l])) kept_layouts.push_back(static_cast<int>(l));
  starts.insert(starts.end(), kept_layouts.begin(), kept_layouts.end());
  std::vector<int> ends = joined(needs);
  ends.insert(ends.end(), kept_layouts.begin(), kept_layouts.end());
  const ConversionCosts to_home(by, layouts, from, kept_layouts, kind.element_bytes, kind.firings.made);
  const ConversionCosts costs(by, layouts, starts, ends, kind.element_bytes, kind.firings.read);
  auto to_all = [&](int at, const std::vector<int>& need) {
    int64_t sum = 0;
    for (int n : need) sum += costs(at, n);
    return sum;
  };
  Table table;
  std::map<std::pair<int, std::vector<int>>, std::pair<int64_t, int>> known;  // cost, and kept layout
  bool kept = false;
  for (int f : from) {
    making.keeper.check_time();
    for (const std::vector<int>& need : needs) {
      const auto [best, fresh] = known.try_emplace({f, need}, to_all(f, need), -1);
      if (fresh)
        for (int h : kept_layouts)
          if (const int64_t cost = to_home(f, h) + to_all(h, need); h != f && cost < best->second.first)
            best->second = {cost, h}, kept = true;
      table.push_back(best->second.first);
      space.kept_layouts.push_back(best->second.second);
    }
  }
  return {making.tables.one(std::move(table)),
          kept ? std::make_shared<const StraightSpace>(std::move(space)) : nullptr};
}

void fill_tensor_tables(const TableMaking& making, const TensorKind& kind, const Placement* pin, JointCosts& by,
                        TensorTables& tables) {
  Draft draft{making, kind, by};
  std::vector<Layout>& layouts = draft.space.layouts;
  draft.made = results_of(kind.made, kind.result, layouts);
  draft.remade = results_of(kind.remade, kind.remade_result, layouts);
  for (const ReadingSpace& r : kind.read) draft.needs.push_back(needs_of(r, layouts));
  draft.kept_layouts = pin ? std::vector<int>{place(layout_of(*pin, kind.shape), layouts)} : homes_of(draft);
  std::vector<int> wanted;
  for (const Needs& needs : draft.needs)
    for (int n : joined(needs)) wanted.push_back(n);
  const ConversionCosts costs(by, layouts, draft.kept_layouts, wanted, kind.element_bytes, kind.firings.read);
  draft.arrivals.assign(layouts.size(), 0);
  for (int h : draft.kept_layouts) {
    if (kind.loaded) draft.arrivals[h] += kind.firings.read * by.times().load_ns(layouts[h], kind.element_bytes);
    if (kind.given) draft.arrivals[h] += kind.firings.read * by.times().give_ns(layouts[h], kind.element_bytes);
  }
  const WantedBy wanted_by = wanted_together(draft.needs);
  std::vector<int> together;
  for (const auto& [layout, readers] : wanted_by) together.push_back(layout);
  size_t columns = draft.made.size() + draft.remade.size();
  for (const Needs& needs : draft.needs) columns += needs.size();
  const bool listed = list_values(draft, together, never_shared(draft, together, costs), columns);
  const size_t entries = draft.space.values.size() * columns;
  making.keeper.count_entries(entries * tables.tensors);

  tables.cost = std::make_shared<const Table>(cost_table(draft, costs));
  if (kind.made) tables.from_made = arrival_table(draft, draft.made, kind.firings.made);
  if (kind.remade) tables.from_remade = arrival_table(draft, draft.remade, 1);
  std::vector<bool> has_variable(layouts.size(), false);
  if (!listed)
    for (int layout : together) has_variable[layout] = true;
  for (const Needs& needs : draft.needs) tables.to_reader.push_back(reader_table(draft, needs, has_variable, costs));
  making.keeper.check_time();
  add_shared(draft, wanted_by, listed, entries, costs, tables);
  tables.space = std::make_shared<const TensorSpace>(std::move(draft.space));
}

}  // namespace partita
