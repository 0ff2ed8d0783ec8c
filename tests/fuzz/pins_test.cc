// Tests pins of every kind through every search: a wrong one is refused before a search sees it. A right one is kept,
// or refused by the search that cannot express it.
#include <gtest/gtest.h>

#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/prime_factors.h"
#include "partita/base/rng.h"
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/plan/constraints.h"
#include "partita/plan/pin_error.h"
#include "partita/plan/pins_kept.h"
#include "partita/search/all/search_text.h"
#include "partita/search/cuts/one_cut.h"

namespace partita {
namespace {

// Draws pins, most of them nearly right.
struct Drawn {
  const Graph& graph;
  const Cluster& cluster;
  Rng& rng;

  bool one_in(uint64_t n) { return rng.below(n) == 0; }

  Mesh mesh() {
    const std::vector<DeviceId> devices = slowest_link_first(cluster);
    const int count = static_cast<int>(devices.size());
    std::vector<Mesh> all = {
        {prime_factors(count), devices}, {{count}, devices},   {{1}, {devices[0]}}, {{}, {devices[0]}},
        {{2}, {devices[1], devices[0]}}, {{1, count}, devices}};
    if (one_in(2)) return all[0];
    if (one_in(8)) return {{count + 1}, devices};  // wrong from here on
    if (one_in(8)) return {{}, devices};
    if (one_in(8)) return {{2}, {devices[0], devices[0]}};
    if (one_in(8)) return {{-1, -count}, devices};
    return all[rng.below(all.size())];
  }

  size_t axes_of(const Mesh& mesh) {
    return mesh.extents.size() + (one_in(10) ? 1 : 0) - (mesh.extents.empty() ? 0 : one_in(10));
  }

  OpChoice choice(const Op& op) {
    OpChoice out{mesh(), {}};
    const auto offered = tdl::strategies(*op.bound, 2);
    for (size_t a = axes_of(out.mesh); a > 0; --a) {
      out.strategies.push_back(offered[rng.below(offered.size())]);
      if (one_in(10)) out.strategies.back() = {.names = {"no"}};
      if (one_in(10)) out.strategies.back() = {.partial = {"x"}};
    }
    return out;
  }

  Placement placement(const Tensor& tensor) {
    Placement out{mesh(), {}, {}};
    for (size_t a = axes_of(out.mesh); a > 0; --a) {
      const int axes = static_cast<int>(tensor.shape.size());
      const int axis = static_cast<int>(rng.below(static_cast<uint64_t>(axes + (one_in(8) || axes == 0 ? 3 : 0))));
      out.sbp.push_back(one_in(4) ? Sbp::broadcast() : Sbp::split(axis, one_in(10) ? 1 : 0));
      if (one_in(6)) out.sbp.back() = Sbp::partial(one_in(4) ? tdl::Reducer::kMax : tdl::Reducer::kSum);
    }
    if (one_in(8))
      for (const int64_t extent : tensor.shape)
        out.radices.push_back(extent % 2 == 0 ? Shape{2, extent / 2} : Shape{extent});
    return out;
  }

  Constraints pins() {
    Constraints out;
    for (int n = static_cast<int>(rng.between(0, 2)); n > 0; --n) {
      const OpId op(rng.below(graph.ops.size()));
      out.ops[op] = choice(graph.op(op));
    }
    for (int n = static_cast<int>(rng.between(out.ops.empty() ? 1 : 0, 2)); n > 0; --n) {
      const TensorId tensor(rng.below(graph.tensors.size()));
      out.kept[tensor] = placement(graph.tensor(tensor));
    }
    return out;
  }
};

std::string text_of(const Constraints& pins, const Graph& graph) {
  std::string text;
  for (const auto& [op, choice] : pins.ops) {
    text += fmt::format("\nop {} on {}:", graph.op(op).name, to_string(choice.mesh));
    for (const tdl::AxisStrategy& s : choice.strategies) text += fmt::format(" [{}]", tdl::to_string(s));
  }
  for (const auto& [tensor, placement] : pins.kept)
    text += fmt::format("\ntensor {} on {}: {}", graph.tensor(tensor).name, to_string(placement.mesh),
                        to_string(placement.sbp));
  return text;
}

// Returns "" if a plan keeps the pins, else the message that refuses them.
std::string refusal(const SearchEntry& entry, const Graph& graph, const Cluster& cluster, const Constraints& pins) {
  Rng rng(1);
  try {
    const SearchResult found =
        entry.search({.graph = graph, .cluster = cluster, .constraints = pins, .options = default_options(entry)},
                     {.steps = 20}, rng);
    if (!found.plan) return found.estimate ? "estimated in spite of the pins: internal error" : found.reason;
    check_choices(graph, *found.plan, cluster);
    const Resolved resolved = resolve(graph, *found.plan, cluster);
    check(graph, *found.plan, resolved, cluster);
    for (const auto& [op, choice] : pins.ops) EXPECT_EQ(found.plan->ops[op.index()], choice) << entry.name;
    for (const auto& [tensor, pin] : pins.kept)
      EXPECT_TRUE(same_placement(resolved.kept_layouts[tensor.index()], layout_of(pin, graph.tensor(tensor).shape)))
          << entry.name << text_of(pins, graph);
    EXPECT_EQ(first_pin_not_kept(graph, resolved, pins), "") << entry.name << text_of(pins, graph);
    return "";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ExitCode::kBadInput || error.code() == ExitCode::kInfeasible) << error.what();
    return error.what();
  }
}

TEST(Pins, OfEveryKindAreKeptOrRefused) {
  int wrong = 0, kept = 0, refused = 0;
  for (const auto& [model, devices] :
       {std::pair{"mlp?layers=1,width=8,batch=8", 4},
        {"mlp?layers=2,width=6,batch=6", 2},
        {"transformer?layers=1,hidden=8,heads=2,inner=8,batch=4,steps=4,vocabulary=8", 4}}) {
    const Graph graph = training(model);
    const Cluster cluster = load_cluster(fmt::format("local:{}", devices));
    for (uint64_t seed = 1; seed <= 24; ++seed) {
      SCOPED_TRACE(fmt::format("{} on {} devices, seed {}", model, devices, seed));
      Rng rng(seed);
      const Constraints pins = Drawn{graph, cluster, rng}.pins();
      try {
        check_constraints(graph, pins, cluster);
      } catch (const PinError& error) {
        EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
        EXPECT_TRUE(std::string(error.what()).starts_with("pins: ")) << error.what();
        ++wrong;
        continue;
      }
      for (const SearchEntry& entry : searches()) {
        if (entry.seconds > 0) continue;
        const std::string why = refusal(entry, graph, cluster, pins);
        EXPECT_EQ(why.find("internal error"), std::string::npos) << entry.name << ": " << why;
        ++(why.empty() ? kept : refused);
      }
    }
  }
  EXPECT_GT(wrong, 20);
  EXPECT_GT(kept, 50);
  EXPECT_GT(refused, 50);
  std::printf("%d wrong; of the others %d times kept, %d refused by a search\n", wrong, kept, refused);
}

}  // namespace
}  // namespace partita
