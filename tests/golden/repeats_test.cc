// Tests repeated layers of real models, from the modules that their files name, and from structure.
#include "partita/graph/repeats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/builder.h"
#include "partita/models/models.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

std::vector<std::string> texts(const Graph& graph) {
  std::vector<std::string> out;
  for (const Repeat& r : repeated_layers(graph)) out.push_back(fmt::format("{} x {} of {}", r.copies, r.name, r.ops));
  return out;
}
std::vector<std::string> of_file(const std::string& name) {
  return texts(import_onnx(fmt::format("{}/tests/data/{}.onnx", PARTITA_SOURCE_DIR, name), {.load_weights = false},
                           standard_ops()));
}
std::vector<std::string> of_zoo(const std::string& name) {
  return texts(build_model("zoo:" + name, {}, standard_ops()).graph);
}

using Texts = std::vector<std::string>;

TEST(Repeats, LayersOfExportedModels) {
  EXPECT_EQ(of_file("gpt2"), (Texts{"2 x model.transformer.h.* of 43"}));
  EXPECT_EQ(of_file("bert"), (Texts{"2 x model.bert.encoder.layer.* of 33"}));
  EXPECT_EQ(of_file("llama"), (Texts{"2 x model.model.layers.* of 63"}));
  EXPECT_EQ(of_file("vit"), (Texts{"2 x model.vit.layers.* of 33"}));
}

TEST(Repeats, LayersOfTheZoo) {
  EXPECT_EQ(of_zoo("gpt2"), (Texts{"12 x transformer.h.* of 19"}));
  EXPECT_EQ(of_zoo("llama-3-8b"), (Texts{"32 x model.layers.* of 24"}));
  const Texts resnet = of_zoo("resnet-152");  // 3, 8, 36 and 3 blocks, the first of each with a projection
  ASSERT_FALSE(resnet.empty());
  EXPECT_NE(
      std::find_if(resnet.begin(), resnet.end(), [](const std::string& t) { return t.starts_with("35 x layer3.*"); }),
      resnet.end())
      << fmt::format("{}", fmt::join(resnet, "; "));
}

// Without names: tanh(x w + m) four times, m from outside. The first copy reads a tensor that is not next to it.
TEST(Repeats, FromStructureAlone) {
  GraphBuilder b("plain", standard_ops());
  const TensorId x = b.input("x", {4, 6}), start = b.op("exp", {x}), mask = b.op("sin", {x});
  TensorId y = start;
  for (int i = 0; i < 4; ++i) {
    const std::string w(1, static_cast<char>('a' + i));
    y = b.op("add", {b.op("matmul", {y, b.parameter(w, {6, 6})}, {}, "m_" + w), mask}, {}, "s_" + w);
    y = b.op("tanh", {y}, {}, "t_" + w);
  }
  const Graph graph = b.finish({b.op("cos", {y})});
  EXPECT_EQ(texts(graph), (Texts{"4 x m_a .. t_a of 3"}));
  EXPECT_EQ(repeated_layers(graph)[0].first, graph.find_op("m_a"));
}

TEST(Repeats, NothingWithoutAParameter) {
  GraphBuilder b("plain", standard_ops());
  TensorId x = b.input("x", {4, 6});
  for (int i = 0; i < 6; ++i) x = b.op("tanh", {x});
  EXPECT_TRUE(repeated_layers(b.finish({b.op("matmul", {x, b.parameter("w", {6, 6})})})).empty());
}

// ---------------------------------------------------------------- against the definition, tried everywhere

bool same_operation(const Graph& g, int a, int b) {
  const Op &x = g.ops[a], &y = g.ops[b];
  if (x.definition != y.definition || x.attributes != y.attributes || x.operands.size() != y.operands.size())
    return false;
  for (std::size_t k = 0; k < x.operands.size(); ++k)
    if (g.tensor(x.operands[k]).shape != g.tensor(y.operands[k]).shape) return false;
  return true;
}

// Op i of a copy and op i + period read alike. `first`: where the first copy begins, if op i is in it; else -1.
bool reads_alike(const Graph& g, int i, int period, int first) {
  if (!same_operation(g, i, i + period)) return false;
  for (std::size_t k = 0; k < g.ops[i].operands.size(); ++k) {
    const TensorId a = g.ops[i].operands[k], b = g.ops[i + period].operands[k];
    const int from = g.tensor(a).producer.value, to = g.tensor(b).producer.value;
    const bool outside = a == b, own = from < 0 && to < 0 && g.tensor(a).role == g.tensor(b).role,
               further = from >= 0 && to == from + period;
    const bool before_all = first >= 0 && from < first && first <= to && to < first + period;
    if (!outside && !own && !further && !before_all) return false;
  }
  return true;
}

struct Found {
  int first = 0, ops = 0, copies = 0;
  auto operator<=>(const Found&) const = default;
};

std::optional<Found> best_by_trying(const Graph& g, const std::vector<bool>& taken) {
  std::optional<Found> best;
  const int n = static_cast<int>(g.ops.size());
  for (int period = 1; 2 * period <= n; ++period)
    for (int first = 0; first + 2 * period <= n; ++first) {
      auto repeats = [&](int copy) {
        for (int i = first + (copy - 1) * period; i < first + copy * period; ++i)
          if (i + period >= n || taken[i] || taken[i + period] || !reads_alike(g, i, period, copy == 1 ? first : -1))
            return false;
        return true;
      };
      bool parameter = false;
      for (int i = first; i < first + period; ++i)
        for (TensorId id : g.ops[i].operands) parameter = parameter || g.tensor(id).role == Role::kParameter;
      int copies = 1;
      while (repeats(copies)) ++copies;
      if (copies < 2 || !parameter) continue;
      if (!best || (copies - 1) * period > (best->copies - 1) * best->ops) best = Found{first, period, copies};
    }
  return best;
}

std::vector<Found> by_trying(const Graph& g) {
  std::vector<bool> taken(g.ops.size());
  std::vector<Found> all;
  while (const auto best = best_by_trying(g, taken)) {
    std::fill(taken.begin() + best->first, taken.begin() + best->first + best->ops * best->copies, true);
    all.push_back(*best);
  }
  std::sort(all.begin(), all.end());
  return all;
}

// A chain of blocks, drawn from a few; some read earlier blocks. Names say nothing.
Graph random_chain(Rng& rng) {
  GraphBuilder b("chain", standard_ops());
  std::vector<TensorId> all{b.input("x", {4, 4})};
  int parameters = 0;
  for (uint64_t block = 2 + rng.below(8); block > 0; --block) {
    const uint64_t kind = rng.below(3), length = 1 + rng.below(3);
    for (uint64_t copies = 1 + rng.below(4); copies > 0; --copies)
      for (uint64_t i = 0; i < length; ++i) {
        const TensorId x = all.back(), far = all[all.size() - 1 - rng.below(std::min<std::size_t>(all.size(), 3))];
        const uint64_t op = (kind + i) % 3;
        all.push_back(op == 0   ? b.op("matmul", {x, b.parameter(fmt::format("w{}", parameters++), {4, 4})}, {}, "m")
                      : op == 1 ? b.op("tanh", {x}, {}, "t")
                                : b.op("add", {x, far}, {}, "a"));
      }
  }
  return b.finish({all.back()});
}

TEST(Repeats, AsByTryingEverywhere) {
  constexpr uint64_t kSeed = 21;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Rng rng(kSeed);
  std::size_t repeats = 0;
  for (int round = 0; round < 300; ++round) {
    const Graph graph = random_chain(rng);
    std::vector<Found> found;
    for (const Repeat& r : repeated_layers(graph)) found.push_back({r.first.value, r.ops, r.copies});
    EXPECT_EQ(found, by_trying(graph)) << "round " << round << "\n" << print(graph);
    repeats += found.size();
  }
  EXPECT_GT(repeats, 200u);
}

// A weight that all layers read is theirs as well.
TEST(Repeats, TiedLayersAreRepeats) {
  GraphBuilder b("tied", standard_ops());
  TensorId x = b.input("x", {4, 6});
  const TensorId w = b.parameter("w", {6, 6});
  for (int i = 0; i < 3; ++i) x = b.op("tanh", {b.op("matmul", {x, w})});
  const std::vector<Repeat> found = repeated_layers(b.finish({x}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].copies, 3);
}

}  // namespace
}  // namespace partita
