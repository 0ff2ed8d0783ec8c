// Tabulates the costs of units and pairs of units. Layouts are numbers, so that equal lists of them share a table.
#include "partita/search/soap/unit_costs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "partita/base/error.h"
#include "partita/cost/isolated_costs.h"
#include "partita/plan/rule_planner.h"

namespace partita {

int64_t UnitCosts::of(const std::vector<int>& values) const {
  int64_t sum = 0;
  for (size_t u = 0; u < own.size(); ++u) sum += own[u][static_cast<size_t>(values[u])];
  for (const Pair& p : pairs) {
    const size_t a = static_cast<size_t>(p.a), b = static_cast<size_t>(p.b);
    sum += (*p.ns)[static_cast<size_t>(values[a]) * own[b].size() + static_cast<size_t>(values[b])];
  }
  return sum;
}

namespace {

using Table = std::shared_ptr<const std::vector<int64_t>>;

// Shortens axes of layouts without changing how conversions cut them, as shorten() (sharding/boxing.h) does for layouts
// of one mesh. Returns the factor for bytes. An axis becomes as long as there are positions, if that divides it and all
// boxes end at multiples. An axis that nothing cuts becomes 1, unless sums may be scattered along it.
int64_t shortened(std::vector<Layout>& layouts) {
  int64_t positions = 1, product = 1;
  bool partial = false;
  for (const Layout& l : layouts) {
    if (l.radices != layouts[0].radices) return 1;
    positions = std::lcm(positions, static_cast<int64_t>(l.mesh.positions()));
    partial |= l.is_partial();
  }
  const std::vector<Shape> radices = layouts[0].radices;
  size_t f = 0;
  for (size_t a = 0; a < radices.size(); ++a)
    for (size_t s = 0; s < radices[a].size(); ++s, ++f) {
      const int64_t extent = radices[a][s];
      int64_t part = extent > 0 && extent % positions == 0 ? extent / positions : 1;
      bool cut = false;
      for (const Layout& l : layouts)
        for (const Interval& i : l.boxes.along(f).intervals) {
          cut |= i != Interval{0, extent};
          if (i.lo % part != 0 || i.hi % part != 0) part = 1;
        }
      if (!cut && !partial) part = extent;
      if (part < 2) continue;
      product *= part;
      for (Layout& l : layouts) {
        l.radices[a][s] = extent / part;
        Along along = l.boxes.along(f);
        for (Interval& i : along.intervals) i = {i.lo / part, i.hi / part};
        l.boxes = l.boxes.with(f, std::move(along));
      }
    }
  return product;
}

// The layout of a tensor in each configuration of a unit, by number.
struct Side {
  int unit = -1;             // -1: the same in any configuration
  std::vector<int> layouts;  // one a configuration; -1: none is needed
};

class Tables {
 public:
  Tables(const Graph& graph, const Cluster& cluster, const std::vector<SoapUnit>& units,
         const std::vector<std::vector<SoapConfiguration>>& configurations, const Constraints& constraints,
         const Watch& watch, const std::function<void(const std::string&)>& tell)
      : graph_(graph),
        units_(units),
        configurations_(configurations),
        constraints_(constraints),
        watch_(watch),
        tell_(tell),
        cost_(cluster),
        times_(cluster),
        numbers_(cluster),
        read_by_(readers_by_tensor(graph)),
        unit_of_(units_of_ops(graph, units)),
        laid_(graph.ops.size()) {}

  UnitCosts make() {
    UnitChoices choices(graph_);
    for (size_t u = 0; u < units_.size(); ++u) {
      add_unit(choices, static_cast<int>(u));
      progress("kernels", u, units_.size());
    }
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      add_tensor(TensorId(t));
      progress("conversions", t, graph_.tensors.size());
    }
    for (auto& [ends, tables] : parts_) out_.pairs.push_back({ends.first, ends.second, sum_of(std::move(tables))});
    return std::move(out_);
  }

 private:
  // An op's layouts under a strategy on a mesh, by number.
  struct Laid {
    std::shared_ptr<const tdl::Derived> derived;
    std::vector<Layout> operands;  // as the op has them
    std::vector<int> reads, makes;
    std::map<std::pair<std::string, std::vector<DType>>, int64_t> kernels_ns;
  };

  void progress(const char* what, size_t done, size_t all) {
    watch_.poll("while the times of units were tabulated");
    const Watch::Clock::time_point now = Watch::Clock::now();
    if (!tell_ || now - told_ < std::chrono::seconds(2)) return;
    told_ = now;
    tell_(fmt::format("optcnn: tables of {}: {}%", what, 100 * done / all));
  }

  int number_of(const Layout& layout) {
    const Layout same = coarse(layout);
    const int number = numbers_.number(same);
    if (static_cast<size_t>(number) >= layouts_.size()) layouts_.push_back(same);
    return number;
  }

  // ---------------------------------------------------------------- units

  Laid& laid(const Op& op, const OpChoice& choice) {
    const auto [found, fresh] =
        all_laid_.try_emplace({op.bound.get(), choice.mesh.extents, choice.mesh.devices.list(), choice.strategies});
    Laid& laid = found->second;
    if (!fresh) return laid;
    laid.derived = derived_.get(op.bound, choice.mesh.extents, choice.strategies);
    if (!laid.derived) fail("plan: {}", why_not_derived(op, choice));
    OpLayouts layouts = layouts_of(*op.bound, *laid.derived, choice.mesh);
    for (const Layout& l : layouts.operands) laid.reads.push_back(number_of(l));
    for (const Layout& l : layouts.results) laid.makes.push_back(number_of(l));
    laid.operands = std::move(layouts.operands);
    return laid;
  }

  int64_t kernels(const Op& op, const Mesh& mesh, Laid& laid) {
    std::vector<DType> dtypes;
    for (const auto* tensors : {&op.operands, &op.results})
      for (const TensorId t : *tensors) dtypes.push_back(graph_.tensor(t).dtype);
    const auto [found, fresh] = laid.kernels_ns.try_emplace({op.definition, std::move(dtypes)});
    if (fresh)
      found->second = kernels_ns(cost_, graph_, op, *laid.derived, mesh) +
                      times_.inner_ns(*op.bound, *laid.derived, mesh, bytes_of(inner_dtype(graph_, op)));
    return graph_.firings(op) * found->second;
  }

  void add_unit(UnitChoices& choices, int u) {
    const SoapUnit& unit = units_[static_cast<size_t>(u)];
    std::vector<int64_t>& own = out_.own.emplace_back();
    for (const SoapConfiguration& c : configurations_[static_cast<size_t>(u)]) {
      watch_.poll("while the times of units were tabulated");
      std::vector<OpChoice> of_unit = choices.of(unit, c);
      own.push_back(0);
      for (size_t i = 0; i < unit.ops.size(); ++i) {
        const OpId id = unit.ops[i];
        const OpChoice& choice = constraints_.choice_or(id, of_unit[i]);
        laid_[id.index()].push_back(&laid(graph_.op(id), choice));
        own.back() += kernels(graph_.op(id), choice.mesh, *laid_[id.index()].back());
      }
    }
  }

  // ---------------------------------------------------------------- tensors

  Side side(OpId op, const std::function<int(const Laid&)>& layout) const {
    Side out{unit_of_[op.index()], {}};
    for (const Laid* in : laid_[op.index()]) out.layouts.push_back(layout(*in));
    return out;
  }

  Side made(TensorId t) const {
    const OpId producer = graph_.tensor(t).producer;
    const std::vector<TensorId>& results = graph_.op(producer).results;
    const size_t r = static_cast<size_t>(std::ranges::find(results, t) - results.begin());
    return side(producer, [&](const Laid& in) { return in.makes[r]; });
  }

  // The kept layout that soap_plan() gives it. Empty: nobody reads it, and no op makes it.
  std::optional<Side> kept_layout(TensorId t) {
    const Tensor& tensor = graph_.tensor(t);
    const TensorId keeper = tensor.replaces.valid() ? tensor.replaces : t;
    if (const Placement* fixed = constraints_.kept_of(keeper))
      return Side{-1, {number_of(layout_of(*fixed, tensor.shape))}};
    if (graph_.tensor(keeper).producer.valid()) return made(keeper);
    const std::vector<Reader>& read_by = read_by_[keeper.index()];
    if (read_by.empty()) return std::nullopt;
    const Reader first = read_by[0];
    return side(first.op, [&](const Laid& in) {
      const Layout& need = in.operands[static_cast<size_t>(first.operand)];
      return number_of(
          layout_of(kept_as_read(graph_, graph_.op(first.op), keeper, need, read_by.size() == 1), tensor.shape));
    });
  }

  void add_tensor(TensorId t) {
    const std::optional<Side> at = kept_layout(t);
    if (!at) return;
    const int64_t element_bytes = bytes_of(graph_.tensor(t).dtype);
    if (const OpId producer = graph_.tensor(t).producer; producer.valid())
      add(made(t), *at, element_bytes, graph_.firings(graph_.op(producer)));
    std::map<int, std::vector<Side>> needs;  // by unit, different ones
    for (const Reader& reader : read_by_[t.index()]) {
      Side need = side(reader.op, [&](const Laid& in) { return in.reads[static_cast<size_t>(reader.operand)]; });
      std::vector<Side>& before = needs[need.unit];
      for (size_t c = 0; c < need.layouts.size(); ++c)
        if (std::ranges::any_of(before, [&](const Side& other) { return other.layouts[c] == need.layouts[c]; }))
          need.layouts[c] = -1;
      if (std::ranges::any_of(need.layouts, [](int layout) { return layout >= 0; })) before.push_back(std::move(need));
    }
    for (const auto& [unit, sides] : needs)
      for (const Side& need : sides) add(*at, need, element_bytes, reads_a_step(graph_, t));
  }

  // A conversion from one side's layout to the other's, `firings` times a step.
  void add(const Side& from, const Side& to, int64_t element_bytes, int firings) {
    if (from.unit == to.unit || from.unit < 0 || to.unit < 0) {
      const int unit = std::max(from.unit, to.unit);
      if (unit < 0) return;
      std::vector<int64_t>& own = out_.own[static_cast<size_t>(unit)];
      for (size_t c = 0; c < own.size(); ++c)
        own[c] += firings * one(from.layouts[from.unit < 0 ? 0 : c], to.layouts[to.unit < 0 ? 0 : c], element_bytes);
      return;
    }
    const Table table = table_of(from.layouts, to.layouts, element_bytes, firings, from.unit > to.unit);
    if (!table) return;
    parts_[std::minmax(from.unit, to.unit)].push_back(table);
  }

  int64_t one(int from, int to, int64_t element_bytes) {
    if (from == to || from < 0 || to < 0) return 0;
    const auto [found, fresh] = ones_.try_emplace({from, to, element_bytes});
    if (!fresh) return found->second;
    std::vector<Layout> ends{layouts_[static_cast<size_t>(from)], layouts_[static_cast<size_t>(to)]};
    const int64_t times = shortened(ends);
    return found->second = times_.ns(ends[0], ends[1], times * element_bytes);
  }

  // Null if all is free.
  Table table_of(const std::vector<int>& from, const std::vector<int>& to, int64_t element_bytes, int firings,
                 bool transposed) {
    const auto [found, fresh] = tables_.try_emplace({from, to, element_bytes, firings, transposed});
    if (!fresh) return found->second;
    std::vector<int> places(layouts_.size(), -1);  // by number
    std::vector<Layout> layouts;
    auto different = [&](const std::vector<int>& some) {
      std::vector<int> out;
      for (const int number : some) {
        if (number < 0) continue;
        int& place = places[static_cast<size_t>(number)];
        if (place < 0) {
          place = static_cast<int>(layouts.size());
          layouts.push_back(layouts_[static_cast<size_t>(number)]);
        }
        if (std::ranges::find(out, place) == out.end()) out.push_back(place);
      }
      return out;
    };
    const std::vector<int> rows = different(from), columns = different(to);
    std::vector<std::vector<int64_t>> ns(layouts.size(), std::vector<int64_t>(layouts.size(), 0));
    const int64_t scale = shortened(layouts) * element_bytes;
    for (const int row : rows) {
      watch_.poll("while the times of conversions were tabulated");
      const std::vector<int64_t> of_row = times_.table(layouts, {row}, columns, scale);
      for (size_t k = 0; k < columns.size(); ++k)
        ns[static_cast<size_t>(row)][static_cast<size_t>(columns[k])] = firings * of_row[k];
    }
    std::vector<int64_t> table(from.size() * to.size(), 0);
    for (size_t f = 0; f < from.size(); ++f)
      for (size_t t = 0; t < to.size(); ++t)
        if (from[f] >= 0 && to[t] >= 0)
          table[transposed ? t * from.size() + f : f * to.size() + t] =
              ns[static_cast<size_t>(places[static_cast<size_t>(from[f])])]
                [static_cast<size_t>(places[static_cast<size_t>(to[t])])];
    if (std::ranges::any_of(table, [](int64_t x) { return x > 0; }))
      found->second = std::make_shared<const std::vector<int64_t>>(std::move(table));
    return found->second;
  }

  Table sum_of(std::vector<Table> tables) {
    std::ranges::sort(tables);
    const auto [found, fresh] = sums_.try_emplace(tables);
    if (!fresh) return found->second;
    std::vector<int64_t> sum(tables[0]->size(), 0);
    for (const Table& table : tables)
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += (*table)[i];
    return found->second = std::make_shared<const std::vector<int64_t>>(std::move(sum));
  }

  const Graph& graph_;
  const std::vector<SoapUnit>& units_;
  const std::vector<std::vector<SoapConfiguration>>& configurations_;
  const Constraints& constraints_;
  const Watch& watch_;
  const std::function<void(const std::string&)>& tell_;
  Watch::Clock::time_point told_ = Watch::Clock::now();
  const CostModel cost_;
  ConversionTimes times_;
  Converter numbers_;
  DerivationCache derived_;
  const std::vector<std::vector<Reader>> read_by_;
  std::vector<int> unit_of_;
  std::vector<std::vector<Laid*>> laid_;  // by op, configuration of its unit
  std::map<std::tuple<const tdl::Bound*, std::vector<int>, std::vector<DeviceId>, std::vector<tdl::AxisStrategy>>, Laid>
      all_laid_;
  std::vector<Layout> layouts_;  // by number
  std::map<std::tuple<int, int, int64_t>, int64_t> ones_;
  std::map<std::tuple<std::vector<int>, std::vector<int>, int64_t, int, bool>, Table> tables_;
  std::map<std::vector<Table>, Table> sums_;
  std::map<std::pair<int, int>, std::vector<Table>> parts_;  // by pair
  UnitCosts out_;
};

}  // namespace

UnitCosts unit_costs(const Graph& graph, const Cluster& cluster, const std::vector<SoapUnit>& units,
                     const std::vector<std::vector<SoapConfiguration>>& configurations, const Constraints& constraints,
                     const Watch& watch, const std::function<void(const std::string&)>& tell) {
  return Tables(graph, cluster, units, configurations, constraints, watch, tell).make();
}

}  // namespace partita
