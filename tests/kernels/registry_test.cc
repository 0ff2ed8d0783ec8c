// Tests every definition of the registry, every example, every derived strategy on 1 to 4 workers: sharded kernels
// equal the unsharded formula, and kernels use no more scratch than they declare. It prints the list of covered
// definitions, and checks that all are there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/infer.h"
#include "partita/ops/ops.h"
#include "partita/tdl/testing/instances.h"
#include "tests/kernels/runner.h"

namespace partita::testing {
namespace {

using namespace tdl::testing;
using tdl::Array;

struct Instance {
  std::string name;
  std::shared_ptr<const tdl::Bound> bound;
  tdl::Attributes attributes;
  std::vector<DType> results;
  std::vector<Array> operands;
  bool registered = true;
  int64_t slice_bytes = kGenericSliceBytes;
};

// Operands have both signs, except where the formula needs positive values (a logarithm, a root, a divisor).
bool needs_positive(const tdl::Expr& e) {
  const bool here = (e.kind == tdl::ExprKind::kUnary && (e.function == "log" || e.function == "sqrt")) ||
                    (e.kind == tdl::ExprKind::kBinary && (e.function == "^" || e.function == "/") &&
                     e.args[1].kind != tdl::ExprKind::kNumber);
  return here || std::any_of(e.args.begin(), e.args.end(), needs_positive);
}

// Functions that have no value, or no bounded derivative, outside their declared domain.
constexpr const char* kBounded[] = {"asin", "acos", "acosh", "atanh"};

Instance instance_of(const OpDefinition& definition, const OpDefinition::Example& example, int number, uint64_t seed,
                     const std::shared_ptr<const OpRegistry>& registry) {
  GraphBuilder build("one", registry);
  std::vector<TensorId> ids;
  std::vector<DType> dtypes =
      example.dtypes.empty() ? std::vector<DType>(example.shapes.size(), DType::kFloat32) : example.dtypes;
  for (size_t k = 0; k < example.shapes.size(); ++k) {
    const bool replaced = std::find(definition.replaces.begin(), definition.replaces.end(), static_cast<int>(k)) !=
                          definition.replaces.end();
    const std::string name = fmt::format("a{}", k);
    ids.push_back(replaced ? build.parameter(name, example.shapes[k], 1, 0, dtypes[k])
                           : build.input(name, example.shapes[k], dtypes[k]));
  }
  const std::vector<TensorId> results = build.ops(definition.name, ids, example.attributes);
  const Op op = build.graph().ops.back();
  Instance instance{fmt::format("{} #{}", definition.name, number), op.bound, op.attributes, {}, {}};
  for (TensorId r : results) instance.results.push_back(build.graph().tensor(r).dtype);
  bool positive = false;
  const bool bounded =
      std::any_of(std::begin(kBounded), std::end(kBounded), [&](const char* name) { return definition.name == name; });
  for (const tdl::Stage& s : op.bound->stages) positive |= needs_positive(s.body);
  Rng rng(seed);
  const int64_t below = definition.name == "places"   ? example.integers_below
                        : definition.name == "gather" ? example.shapes[0][example.attributes.contains("axis") ? 1 : 0]
                        : definition.name == "max_pool_grad" ? 4
                        : example.shapes[0].empty()          ? 2
                                                             : example.shapes[0].back();
  for (size_t k = 0; k < example.shapes.size(); ++k) {
    Array a{is_float(dtypes[k]) ? DType::kFloat64 : dtypes[k], example.shapes[k], {}, {}, {}};
    for (int64_t i = 0; i < volume(a.shape); ++i) {
      if (is_float(dtypes[k]) && bounded)
        a.reals.push_back(definition.domain_lo + rng.uniform() * (definition.domain_hi - definition.domain_lo));
      else if (is_float(dtypes[k])) a.reals.push_back(positive ? 0.4 + rng.uniform() : rng.normal());
      else
        a.ints.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(dtypes[k] == DType::kBool ? 2 : below))));
    }
    instance.operands.push_back(std::move(a));
  }
  return instance;
}

std::vector<Instance> instances_of(const OpDefinition& definition, const std::shared_ptr<const OpRegistry>& registry) {
  std::vector<Instance> result;
  for (const auto& example : definition.examples) {
    const int number = static_cast<int>(result.size());
    result.push_back(instance_of(definition, example, number, static_cast<uint64_t>(6 + number), registry));
  }
  return result;
}

// With operands that a floating type holds.
Instance rounded(Instance instance, DType dtype) {
  for (Array& a : instance.operands)
    for (double& value : a.reals) value = rounded_to(dtype, value);
  return instance;
}

// float16 and bfloat16: computed in float32, and rounded when stored, so that a result is off by half a unit in its
// last place. A stage that is a result is read by later stages as it is stored; its error counts once more, and through
// a division by it or a root of it a few times.
constexpr double kLowUnits = 4;

std::string whole(Kernels& kernels, const Instance& instance, DType real, double tolerance, ScratchUse& use) {
  const KernelOp op{instance.bound.get(),
                    instance.name.substr(0, instance.name.find(' ')),
                    instance.attributes,
                    instance.results,
                    real,
                    kGenericBudgetBytes,
                    instance.registered,
                    instance.slice_bytes};
  const std::vector<Array> got = run_whole(kernels, op, instance.operands, &use);
  tdl::Evaluation options;
  options.with_terms = true;
  std::vector<Array> expected = tdl::evaluate(*instance.bound, instance.operands, options);
  for (size_t r = 0; r < got.size(); ++r) {
    for (double& value : expected[r].reals) value = rounded_to(real, value);
    if (std::string d = difference(got[r], expected[r], tolerance); !d.empty()) return d;
  }
  return use.above;
}

// The first strategy that goes wrong.
std::string sharded(Kernels& kernels, const Instance& instance, int workers, int& count, ScratchUse& use,
                    DType real = DType::kFloat64, double tolerance = 1e-11) {
  const KernelOp op{instance.bound.get(),
                    instance.name.substr(0, instance.name.find(' ')),
                    instance.attributes,
                    instance.results,
                    real,
                    kGenericBudgetBytes,
                    instance.registered,
                    instance.slice_bytes};
  for (const tdl::AxisStrategy& s : tdl::strategies(*instance.bound, workers)) {
    const auto derived = tdl::derive(*instance.bound, {workers}, {s});
    if (!derived) continue;
    ++count;
    const CheckResult result =
        check(*instance.bound, *derived, instance.operands, 3, tolerance, kernel_runner(kernels, op, &use));
    if (!result.wrong.empty()) return fmt::format("{} on {}: {}", to_string(s), workers, result.wrong);
  }
  return use.above;
}

void every_strategy(bool registered, bool print) {
  const auto registry = standard_ops();
  const auto kernels = make_aten_kernels({.registered = registered});
  int definitions = 0, strategies = 0;
  for (const OpDefinition* definition : registry->all()) {
    ++definitions;
    ASSERT_FALSE(definition->examples.empty()) << definition->name;
    for (Instance& instance : instances_of(*definition, registry)) {
      instance.registered = registered;
      ScratchUse use;
      int count = 0;
      EXPECT_EQ(whole(*kernels, instance, DType::kFloat64, 1e-11, use), "") << instance.name;
      EXPECT_EQ(whole(*kernels, instance, DType::kFloat32, 3e-5, use), "") << instance.name << ", float32";
      for (DType low : {DType::kBFloat16, DType::kFloat16})
        EXPECT_EQ(whole(*kernels, rounded(instance, low), low, kLowUnits * epsilon_of(low) / 2, use), "")
            << instance.name << ", " << name_of(low);
      for (int workers : {1, 2, 3, 4}) EXPECT_EQ(sharded(*kernels, instance, workers, count, use), "") << instance.name;
      EXPECT_GT(count, 0) << instance.name;
      if (registered && is_registered(definition->name)) {
        EXPECT_GT(3 * use.registered_calls, use.calls) << instance.name;
      }
      if (print)
        std::printf("  %-26s %4d strategies, %5d calls, %5d on a registered kernel\n", instance.name.c_str(), count,
                    use.calls, use.registered_calls);
      strategies += count;
    }
  }
  std::printf("%d definitions, %d strategies\n", definitions, strategies);
  EXPECT_EQ(definitions, static_cast<int>(registry->all().size()));
}

// In two bytes, for the operations in which networks spend their time. A partial value is rounded too, whatever its
// sum.
TEST(Registry, StrategiesInTwoBytes) {
  const auto registry = standard_ops();
  const auto kernels = make_aten_kernels();
  int count = 0;
  for (const char* name : {"matmul",
                           "linear",
                           "matmul_tn_sum",
                           "conv2d",
                           "conv2d_data_grad",
                           "conv2d_weight_grad",
                           "max_pool",
                           "max_pool_grad",
                           "add",
                           "gelu",
                           "cast",
                           "softmax",
                           "layer_norm",
                           "batch_norm",
                           "attention",
                           "embedding",
                           "embedding_grad",
                           "reshape",
                           "split",
                           "lstm_cell"}) {
    const OpDefinition* definition = registry->find(name);
    if (!definition) continue;
    for (const Instance& instance : instances_of(*definition, registry))
      for (DType low : {DType::kBFloat16, DType::kFloat16}) {
        ScratchUse use;
        EXPECT_EQ(sharded(*kernels, rounded(instance, low), 3, count, use, low, 4 * kLowUnits * epsilon_of(low)), "")
            << instance.name << ", " << name_of(low);
      }
  }
  std::printf("%d strategies in two bytes\n", count);
  EXPECT_GT(count, 200);
}

// The backward ops that a training graph has of one convolution.
std::vector<Instance> gradients_of_conv2d(const OpDefinition::Example& example,
                                          const std::shared_ptr<const OpRegistry>& registry) {
  GraphBuilder build("one", registry);
  std::vector<TensorId> operands;
  for (size_t k = 0; k < example.shapes.size(); ++k)
    operands.push_back(build.parameter(fmt::format("a{}", k), example.shapes[k], 1, 0, DType::kFloat64));
  const Graph training = add_backward(build.finish({build.op("conv2d", operands, example.attributes)}),
                                      {.kind = "elementwise"}, {"sgd", 0.01});
  std::vector<Instance> gradients;
  for (const Op& op : training.ops) {
    if (op.phase != Phase::kBackward) continue;
    gradients.push_back({op.definition, op.bound, op.attributes, {DType::kFloat64}, {}});
    for (TensorId t : op.operands)
      gradients.back().operands.push_back(
          normal_array(training.tensor(t).shape, static_cast<uint64_t>(10 * gradients.size() + t.value)));
  }
  return gradients;
}

// Gradients as a training graph has them: derived from the forward formula, with operands and indices of other names
// than those of the definition whose name they take.
TEST(Registry, DerivedConvolutionGradientsRunOnRegisteredKernels) {
  const auto registry = standard_ops();
  const auto kernels = make_aten_kernels();
  int gradients = 0, strategies = 0;
  for (const OpDefinition::Example& example : registry->find("conv2d")->examples)
    for (const Instance& instance : gradients_of_conv2d(example, registry)) {
      if (instance.operands.size() < 2) continue;  // that of a bias is a sum
      SCOPED_TRACE(fmt::format("{} #{}", instance.name, gradients++));
      ScratchUse use;
      EXPECT_EQ(whole(*kernels, instance, DType::kFloat64, 1e-11, use), "");
      EXPECT_EQ(use.registered_calls, use.calls);
      for (int workers : {2, 3}) EXPECT_EQ(sharded(*kernels, instance, workers, strategies, use), "");
      EXPECT_EQ(use.above, "");
    }
  std::printf("%d gradients, %d strategies\n", gradients, strategies);
  EXPECT_EQ(gradients, 2 * static_cast<int>(registry->find("conv2d")->examples.size()));
}

// Groups of one channel and of more, kernels, strides and paddings, images that a stride divides and others: each
// gradient is known by the name of its definition and runs on its kernel.
TEST(Registry, GradientsOfAGridOfGroupedConvolutionsRunOnRegisteredKernels) {
  const auto registry = standard_ops();
  const auto kernels = make_aten_kernels();
  int gradients = 0;
  struct Channels {
    int64_t groups, inputs, outputs;  // those of a group
  };
  for (const Channels c : {Channels{4, 1, 1}, {3, 1, 2}, {2, 1, 5}, {2, 2, 1}, {2, 3, 2}, {1, 2, 3}, {1, 1, 1}})
    for (const int64_t kernel : {3, 5, 7})
      for (const int64_t stride : {1, 2})
        for (const int64_t padding : {int64_t{0}, kernel / 2})
          for (const int64_t rows : {8, 9})
            for (const int64_t columns : {7, 8}) {
              const auto s = static_cast<double>(stride), p = static_cast<double>(padding);
              const OpDefinition::Example example{
                  {{2, c.groups * c.inputs, rows, columns}, {c.groups * c.outputs, c.inputs, kernel, kernel}},
                  {{"groups", static_cast<double>(c.groups)},
                   {"sh", s},
                   {"sw", s},
                   {"pt", p},
                   {"pl", p},
                   {"pb", p},
                   {"pr", p}}};
              for (const Instance& instance : gradients_of_conv2d(example, registry)) {
                ++gradients;
                SCOPED_TRACE(
                    fmt::format("{} of {} groups of {} -> {} channels, kernel {}, stride {}, padding {}, {}x{}",
                                instance.name, c.groups, c.inputs, c.outputs, kernel, stride, padding, rows, columns));
                EXPECT_TRUE(instance.name == "conv2d_data_grad" || instance.name == "conv2d_weight_grad");
                ScratchUse use;
                EXPECT_EQ(whole(*kernels, instance, DType::kFloat64, 1e-11, use), "");
                EXPECT_EQ(use.registered_calls, use.calls);
              }
            }
  std::printf("%d gradients\n", gradients);
  EXPECT_EQ(gradients, 7 * 3 * 2 * 2 * 2 * 2 * 2);
}

TEST(Registry, EveryStrategyOnRegisteredKernels) { every_strategy(true, true); }
TEST(Registry, EveryStrategyOnTheGenericKernel) { every_strategy(false, false); }

// In slices as small as possible: one element of an index, or of several.
TEST(Registry, EveryStrategyInSlices) {
  const auto registry = standard_ops();
  const auto kernels = make_aten_kernels({.registered = false, .slice_bytes = 1});
  int strategies = 0;
  std::vector<std::string> sliced;
  for (const OpDefinition* definition : registry->all()) {
    int calls = 0;
    std::vector<Instance> instances = instances_of(*definition, registry);
    // A loss has a number a label between its stages: too little to be cut for the few labels of its examples.
    if (definition->name.find("cross_entropy") != std::string::npos) {
      OpDefinition::Example more = definition->examples[0];
      for (Shape& shape : more.shapes)
        if (!shape.empty()) shape[0] = 40;
      instances.push_back(instance_of(*definition, more, 9, 1, registry));
    }
    for (Instance& instance : instances) {
      instance.registered = false;
      instance.slice_bytes = 1;
      ScratchUse use;
      EXPECT_EQ(whole(*kernels, instance, DType::kFloat64, 1e-11, use), "") << instance.name;
      EXPECT_EQ(whole(*kernels, instance, DType::kFloat32, 3e-5, use), "") << instance.name << ", float32";
      calls += use.sliced_calls;
      for (DType low : {DType::kBFloat16, DType::kFloat16})
        EXPECT_EQ(whole(*kernels, rounded(instance, low), low, kLowUnits * epsilon_of(low) / 2, use), "")
            << instance.name << ", " << name_of(low);
      for (int workers : {2, 3}) EXPECT_EQ(sharded(*kernels, instance, workers, strategies, use), "") << instance.name;
    }
    if (calls > 0) sliced.push_back(definition->name);
  }
  std::printf("%d strategies; in slices: %s\n", strategies, fmt::format("{}", fmt::join(sliced, " ")).c_str());
  for (const char* name : {"attention", "attention_grad", "softmax_grad", "cross_entropy", "masked_cross_entropy",
                           "layer_norm_grad", "rms_norm_grad"})
    EXPECT_NE(std::find(sliced.begin(), sliced.end(), name), sliced.end()) << name;
}

// The extents of the examples, each grown by 0 to 3 wherever it stands, so that equal ones stay equal; attributes stay.
// Examples that a formula does not take so (a reshape, a list of sizes) are left out, and named.
TEST(Registry, RandomShapes) {
  const char* text = std::getenv("PARTITA_SEED");
  const uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 1;
  std::printf("seed %llu (PARTITA_SEED)\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  const auto registry = standard_ops();
  const auto kernels = make_aten_kernels();
  int instances = 0, strategies = 0;
  std::vector<std::string> fixed;
  for (const OpDefinition* definition : registry->all()) {
    int varied = 0;
    for (const OpDefinition::Example& example : definition->examples)
      for (int attempt = 0; attempt < 2; ++attempt) {
        std::map<int64_t, int64_t> grown;
        OpDefinition::Example other = example;
        for (Shape& shape : other.shapes)
          for (int64_t& extent : shape)
            if (extent > 1) extent = grown.emplace(extent, extent + static_cast<int64_t>(rng.below(4))).first->second;
        const uint64_t values = rng.next();
        if (other.shapes == example.shapes) continue;
        Instance instance;
        try {
          instance = instance_of(*definition, other, varied, values, registry);
        } catch (const Error& error) {
          ASSERT_EQ(error.code(), ExitCode::kBadInput) << definition->name << ": " << error.what();
          continue;
        }
        ++varied;
        std::vector<std::string> shapes;
        for (const Shape& shape : other.shapes) shapes.push_back(fmt::format("[{}]", fmt::join(shape, "x")));
        SCOPED_TRACE(fmt::format("{} {}", definition->name, fmt::join(shapes, " ")));
        ScratchUse use;
        EXPECT_EQ(whole(*kernels, instance, DType::kFloat64, 1e-11, use), "");
        EXPECT_EQ(sharded(*kernels, instance, 2 + static_cast<int>(rng.below(3)), strategies, use), "");
      }
    instances += varied;
    if (varied == 0) fixed.push_back(definition->name);
  }
  std::printf("%d instances, %d strategies; as in the examples only: %s\n", instances, strategies,
              fmt::format("{}", fmt::join(fixed, " ")).c_str());
  EXPECT_LE(fixed.size(), 20u);
}

// Two mesh axes: pairs of strategies, on 2 x 3.
TEST(LongRegistry, PairsOfStrategies) {
  const auto registry = standard_ops();
  const auto kernels = make_aten_kernels();
  int count = 0;
  for (const OpDefinition* definition : registry->all())
    for (const Instance& instance : instances_of(*definition, registry)) {
      const KernelOp op{instance.bound.get(), definition->name, instance.attributes, instance.results, DType::kFloat64};
      for (const tdl::AxisStrategy& a : tdl::strategies(*instance.bound, 2))
        for (const tdl::AxisStrategy& b : tdl::strategies(*instance.bound, 3)) {
          const auto derived = tdl::derive(*instance.bound, {2, 3}, {a, b});
          if (!derived) continue;
          ++count;
          SCOPED_TRACE(fmt::format("{}: {}, {}", instance.name, to_string(a), to_string(b)));
          ScratchUse use;
          const CheckResult result =
              check(*instance.bound, *derived, instance.operands, 3, 1e-11, kernel_runner(*kernels, op, &use));
          EXPECT_EQ(result.wrong, "") << instance.name << ": " << to_string(a) << ", " << to_string(b);
          EXPECT_EQ(use.above, "") << instance.name;
        }
    }
  std::printf("%d pairs\n", count);
  EXPECT_GT(count, 1000);
}

}  // namespace
}  // namespace partita::testing
