// Tests of the zoo: sizes, losses and repeats of every model.
#include "partita/models/models.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/reference.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

int64_t parameters(const Graph& graph) {
  int64_t count = 0;
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::kParameter) count += volume(t.shape);
  return count;
}

int count(const Graph& graph, std::string_view definition, Phase phase) {
  int n = 0;
  for (const Op& op : graph.ops) n += op.definition == definition && op.phase == phase;
  return n;
}

Graph training(const std::string& reference, double momentum = 0.9) {
  const Model model = build_model(reference, {}, standard_ops());
  return add_backward(model.graph, model.loss, {.lr = 0.01, .momentum = momentum});
}

// Between a contribution to a gradient and its addition stand at most other backward ops of the same forward op.
void expect_sums_beside_contributions(const Graph& graph) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& sum = graph.ops[i];
    if (sum.phase != Phase::kBackward || sum.definition != "add") continue;
    for (std::size_t j = graph.tensor(sum.operands[1]).producer.index(); j < i; ++j)
      ASSERT_EQ(graph.ops[j].forward, sum.forward) << sum.name << " waits for " << graph.ops[j].name;
  }
}

// A block of a stage is the part behind its first: three convolutions without a shortcut's.
TEST(Models, ResNetsTakeFewerBlocks) {
  const auto registry = standard_ops();
  auto convolutions = [&](const std::string& options) {
    return count(build_model("zoo:" + options, {}, registry).graph, "conv2d", Phase::kForward);
  };
  EXPECT_EQ(convolutions("resnet-50?batch=2,blocks=1"), 1 + 4 * (3 + 1));
  EXPECT_EQ(convolutions("resnet-50?batch=2,blocks=3"), 1 + 4 * (3 + 1) + 2 * 4 * 3);
  EXPECT_EQ(convolutions("wresnet-152-4?batch=2,blocks=1"), convolutions("resnet-50?batch=2,blocks=1"));
  EXPECT_EQ(convolutions("insightface?batch=2,blocks=1"), convolutions("resnet-50?batch=2,blocks=1"));
  EXPECT_EQ(convolutions("resnet-34?batch=2,blocks=99"), convolutions("resnet-34?batch=2"));
  EXPECT_THROW(build_model("zoo:resnet-18?blocks=0", {}, registry), Error);
}

TEST(Models, ParameterCounts) {
  const auto registry = standard_ops();
  EXPECT_EQ(parameters(build_model("zoo:mlp?layers=5,width=300,batch=400,bias=0,loss=elementwise", {}, registry).graph),
            5 * 300 * 300);
  EXPECT_EQ(
      parameters(
          build_model("mlp", {{"layers", "2"}, {"width", "8"}, {"input", "3"}, {"classes", "5"}}, registry).graph),
      3 * 8 + 8 + 8 * 5 + 5);
  EXPECT_EQ(parameters(build_model("zoo:lenet", {}, registry).graph), 61'706);
  EXPECT_EQ(parameters(build_model("zoo:resnet-18?batch=2", {}, registry).graph), 11'689'512);
  EXPECT_EQ(parameters(build_model("zoo:resnet-18?image=32,classes=10,batch=24", {}, registry).graph),
            11'689'512 - 990 * 513);
  // GPT-2's sizes without the bias of the head, which is not tied here: 124,439,808 and another 50257 x 768.
  EXPECT_EQ(
      parameters(
          build_model("zoo:transformer?layers=12,heads=12,hidden=768,steps=1024,vocabulary=50257", {}, registry).graph),
      124'439'808 + 50'257 * 768);
}

// torchvision's and Hugging Face's counts.
TEST(Models, PublishedParameterCounts) {
  const auto registry = standard_ops();
  for (const auto& [reference, count] : {std::pair<const char*, int64_t>{"zoo:alexnet?batch=2", 61'100'840},
                                         {"zoo:vgg-16?batch=2", 138'357'544},
                                         {"zoo:resnet-18?batch=2", 11'689'512},
                                         {"zoo:resnet-34?batch=2", 21'797'672},
                                         {"zoo:resnet-50?batch=2", 25'557'032},
                                         {"zoo:resnet-101?batch=2", 44'549'160},
                                         {"zoo:resnet-152?batch=2", 60'192'808},
                                         {"zoo:inception-v3?batch=2", 27'161'264},
                                         {"zoo:inception-v3?batch=2,auxiliary=0", 23'834'568},
                                         {"zoo:vit-b16?batch=2", 86'567'656},
                                         {"zoo:bert-base?batch=2", 109'482'240},
                                         {"zoo:gpt2?batch=2", 124'439'808},
                                         {"zoo:gpt2-xl?batch=2", 1'557'611'200},
                                         {"zoo:llama-3-8b", 8'030'261'248},
                                         {"zoo:llama-3-70b", 70'553'706'496},
                                         {"zoo:llama-3-405b", 405'853'388'800},
                                         {"zoo:mixtral-8x7b", 46'702'792'704}})
    EXPECT_EQ(parameters(build_model(reference, {}, registry).graph), count) << reference;
}

// Keras counts the running statistics too, PyTorch does not: 88,753,150 and 5,289,978 are the trained numbers.
TEST(Models, NasNetsParameterCounts) {
  const auto registry = standard_ops();
  for (const auto& [reference, trained, all] :
       {std::tuple<const char*, int64_t, int64_t>{"zoo:nasnet?batch=2", 88'753'150, 88'949'818},
        {"zoo:nasnet-mobile?batch=2", 5'289'978, 5'326'716},
        {"zoo:nasnet?batch=2,cells=4,filters=1056,image=224,stem=32,skip=0", 5'289'978, 5'326'716}}) {
    const Graph graph = build_model(reference, {}, registry).graph;
    int64_t states = 0;
    for (const Tensor& t : graph.tensors)
      if (t.role == Role::kState && !t.producer.valid()) states += volume(t.shape);
    EXPECT_EQ(parameters(graph), trained) << reference;
    EXPECT_EQ(parameters(graph) + states, all) << reference;
  }
}

// Tofu, table 2: weight, gradient and history in float32, in units of 2^30 bytes.
TEST(Models, TofusTable2) {
  const auto registry = standard_ops();
  const double published[3][4] = {{4.2, 9.6, 17.1, 26.7}, {7.8, 17.1, 30.6, 47.7}, {10.5, 23.4, 41.7, 65.1}};
  const int layers[] = {50, 101, 152}, widen[] = {4, 6, 8, 10};
  for (int l = 0; l < 3; ++l)
    for (int w = 0; w < 4; ++w) {
      const std::string reference = fmt::format("zoo:wresnet-{}-{}?batch=2", layers[l], widen[w]);
      const double bytes = 3.0 * 4 * static_cast<double>(parameters(build_model(reference, {}, registry).graph));
      EXPECT_NEAR(bytes / (1 << 30), published[l][w], 0.03 * published[l][w]) << reference;
    }
}

// The same for the recurrent networks: weights without biases; 28.5 for eight layers of 6K is a misprint of 25.5.
TEST(Models, TofusTable2Recurrent) {
  const auto registry = standard_ops();
  const double published[3][3] = {{8.4, 11.4, 14.4}, {18.6, 25.5, 32.1}, {33.0, 45.3, 57.0}};
  for (int h = 0; h < 3; ++h)
    for (int l = 0; l < 3; ++l) {
      const std::string reference = fmt::format("zoo:rnn-{}-{}K?batch=2,steps=1", 6 + 2 * l, 4 + 2 * h);
      const double bytes = 3.0 * 4 * static_cast<double>(parameters(build_model(reference, {}, registry).graph));
      EXPECT_NEAR(bytes / (1 << 30), published[h][l], 0.03 * published[h][l]) << reference;
    }
}

// Every op of a cell knows its time step and its cell, in the backward pass too.
TEST(Models, TimeStepsAndCellsAreRecorded) {
  const Graph graph = training("zoo:rnnlm?batch=2,steps=3,hidden=4,vocabulary=5");
  std::map<std::pair<int, int>, int> cells;
  for (const Op& op : graph.ops)
    if (op.definition.starts_with("lstm_cell")) ++cells[{op.time_step, op.cell}];
  ASSERT_EQ(cells.size(), 6u);
  for (const auto& [cell, ops] : cells) {
    EXPECT_GE(cell.first, 0);
    EXPECT_LT(cell.first, 3);
    EXPECT_GE(cell.second, 0);
    EXPECT_LT(cell.second, 2);
    EXPECT_GE(ops, 2);
  }
}

// The auxiliary head's loss counts 0.4, against the same labels.
TEST(Models, InceptionsAuxiliaryHeadIsPartOfTheLoss) {
  const Graph graph = training("zoo:inception-v3?batch=2,classes=3");
  EXPECT_EQ(count(graph, "cross_entropy", Phase::kForward), 2);
  const Op& sum = graph.op(graph.tensor(graph.loss).producer);
  EXPECT_EQ(sum.definition, "add");
  const Op& scaled = graph.op(graph.tensor(sum.operands[1]).producer);
  EXPECT_EQ(graph.tensor(scaled.operands[1]).values->real, std::vector<double>{0.4});
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::kParameter) {
      EXPECT_TRUE(graph.find_tensor(t.name + ".momentum").valid()) << t.name;
    }
}

// Experts can be split like any axis: the expert's index is called e, or n.1 in a product over [groups, experts, ..].
TEST(Models, ExpertsAreOneMoreSplit) {
  const Graph graph = training("zoo:moe?layers=1,groups=4");
  std::map<std::string, int> split;
  for (const Op& op : graph.ops) {
    const bool product = op.name.find(".product") != std::string::npos;
    if (!product && !op.definition.starts_with("expert_dispatch") && !op.definition.starts_with("expert_combine"))
      continue;
    const std::vector<tdl::AxisStrategy> all = tdl::strategies(*op.bound, 2);
    for (const char* index : {"e", "n.1"})
      split[op.definition] += std::count(all.begin(), all.end(), tdl::AxisStrategy{.names = {index}});
  }
  const std::map<std::string, int> expected{
      {"expert_dispatch", 1},       {"expert_combine", 1},        {"matmul_nt", 2}, {"expert_dispatch.grad.x", 1},
      {"expert_combine.grad.y", 1}, {"expert_combine.grad.w", 1}, {"matmul", 2}};
  for (const auto& [definition, count] : expected) EXPECT_EQ(split[definition], count) << definition;
}

// The sum of the layers' load-balancing losses is weighed and added, and evaluation is without it.
TEST(Models, BalanceOfExpertsIsPartOfTheLoss) {
  const Model model = build_model("zoo:moe?balance=0.25,layers=4,every=2", {}, standard_ops());
  EXPECT_EQ(count(model.graph, "load_balance", Phase::kForward), 2);
  EXPECT_EQ(count(evaluation_graph(model.graph), "load_balance", Phase::kForward), 0);
  const Graph graph = add_backward(model.graph, model.loss, {.lr = 0.01});
  const Op& sum = graph.op(graph.tensor(graph.loss).producer);
  const Op& scaled = graph.op(graph.tensor(sum.operands[1]).producer);
  EXPECT_EQ(graph.op(graph.tensor(scaled.operands[0]).producer).definition, "add");
  EXPECT_EQ(graph.tensor(scaled.operands[1]).values->real, std::vector<double>{0.25});
  Loss other = model.loss;
  other.kind = "elementwise";
  EXPECT_THROW(add_backward(model.graph, other, {}), Error);
}

// SoyBean section 2.2 counts the conversions of forward, weight-gradient and data-gradient products, and of nothing
// else.
TEST(Models, SoyBeansMlpHasItsProductsAlone) {
  const Graph graph = training("zoo:mlp?layers=5,width=300,batch=400,bias=0,loss=elementwise");
  EXPECT_EQ(count(graph, "matmul", Phase::kForward), 5);
  EXPECT_EQ(count(graph, "matmul_tn", Phase::kBackward), 5);
  EXPECT_EQ(count(graph, "matmul_nt", Phase::kBackward), 4);
  EXPECT_EQ(count(graph, "sgd_momentum", Phase::kUpdate), 5);
  int others = 0;
  for (const Op& op : graph.ops) {
    if (op.definition.starts_with("matmul") || op.definition == "half_mean_square") continue;
    EXPECT_TRUE(tdl::is_elementwise(*op.bound)) << op.name;
    ++others;
  }
  EXPECT_EQ(others, 4 + 4 + 5);
}

// Forward, backward and update, at the granularity of the papers.
TEST(Models, AFineTransformerIsElementary) {
  const Graph coarse = training("zoo:transformer"), fine = training("zoo:transformer?layers=6,fine=true");
  EXPECT_EQ(count(coarse, "attention", Phase::kForward), 2);
  EXPECT_EQ(count(coarse, "attention_grad", Phase::kBackward), 2);
  EXPECT_EQ(count(coarse, "layer_norm_grad", Phase::kBackward), 5);
  EXPECT_EQ(count(fine, "attention", Phase::kForward) + count(fine, "layer_norm", Phase::kForward), 0);
  EXPECT_GT(fine.ops.size(), 800u);
}

TEST(Models, TextRoundTripsAndBackwardOpsAreLinked) {
  const auto registry = standard_ops();
  for (const char* reference :
       {"zoo:mlp",
        "zoo:mlp?bias=0,activation=relu,loss=mse",
        "zoo:lenet",
        "zoo:resnet-18?image=32,batch=4,classes=10",
        "zoo:cnn?filters=4,batch=2",
        "zoo:alexnet?batch=2,hidden=8",
        "zoo:vgg-16?batch=2,image=32,hidden=8",
        "zoo:resnet-50?batch=2,image=32,width=2",
        "zoo:inception-v3?batch=2",
        "zoo:nasnet?batch=2,cells=1,filters=96,image=32,stem=2,classes=3",
        "zoo:rnn-4-4K?batch=2,steps=2",
        "zoo:rnnlm?batch=2,steps=2,hidden=4,vocabulary=5,cell=gru",
        "zoo:rnntc?batch=2,steps=2,hidden=4,vocabulary=5",
        "zoo:nmt?batch=2,steps=2,hidden=4,vocabulary=5",
        "zoo:gpt2?batch=2,steps=3,layers=1,hidden=8,heads=2,vocabulary=5,positions=4",
        "zoo:bert-base?batch=2,steps=3,layers=1,hidden=8,heads=2,vocabulary=5,positions=4",
        "zoo:llama-3-8b?batch=2,steps=3,layers=1,hidden=8,heads=4,key_heads=2,inner=6,vocabulary=5",
        ("zoo:mixtral-8x7b?batch=2,steps=3,layers=1,hidden=8,heads=4,key_heads=2,inner=6,vocabulary=5,"
         "experts=3,balance=0.1"),
        "zoo:moe?batch=2,steps=4,hidden=8,heads=2,vocabulary=5,experts=3,groups=1,every=2",
        "zoo:vit-b16?batch=2,image=32,layers=1,hidden=8,heads=2,classes=3",
        "zoo:wide-deep?batch=2,vocabulary=5,width=4",
        "zoo:insightface?batch=2,image=32,classes=5,width=2",
        "zoo:transformer",
        "zoo:transformer?fine=true,dropout=0.1,layers=1",
        "zoo:nasnet?batch=2,cells=1,filters=96,image=32,stem=2,classes=3,fine=true",
        "zoo:rnnlm?batch=2,steps=2,hidden=4,vocabulary=5,fine=true",
        "zoo:nmt?batch=2,steps=2,hidden=4,vocabulary=5,cell=gru,fine=true",
        "zoo:encoder-decoder?batch=2,steps=3,layers=1,hidden=8,heads=2,vocabulary=5",
        "zoo:encoder-decoder?batch=2,steps=3,layers=1,hidden=8,heads=2,vocabulary=5,fine=true"}) {
    SCOPED_TRACE(reference);
    const Model model = build_model(reference, {}, registry);
    EXPECT_EQ(print(parse_graph(print(model.graph), registry)), print(model.graph));
    const Graph graph = training(reference);
    const std::string text = print(graph);
    const Graph again = parse_graph(text, registry);
    EXPECT_EQ(print(again), text);
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      EXPECT_EQ(again.tensors[i].replaces, graph.tensors[i].replaces);
      EXPECT_EQ(again.tensors[i].producer, graph.tensors[i].producer);
    }
    for (const Op& op : graph.ops) EXPECT_EQ(op.forward.valid(), op.phase == Phase::kBackward) << op.name;
    expect_sums_beside_contributions(graph);
    verify(evaluation_graph(model.graph));
  }
}

TEST(Models, GradientsHaveKernelBackedDefinitions) {
  const Graph graph = training("zoo:resnet-18?image=32,batch=4,classes=10");
  EXPECT_EQ(count(graph, "conv2d", Phase::kForward), 20);
  EXPECT_EQ(count(graph, "conv2d_weight_grad", Phase::kBackward), 20);
  EXPECT_EQ(count(graph, "conv2d_data_grad", Phase::kBackward), 19);
  EXPECT_EQ(count(graph, "batch_norm_grad", Phase::kBackward), 20);
  EXPECT_EQ(count(graph, "max_pool_grad", Phase::kBackward), 1);
  EXPECT_EQ(count(graph, "running_average", Phase::kUpdate), 40);
  EXPECT_EQ(count(graph, "sgd_momentum", Phase::kUpdate), 62);
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kBackward) continue;
    EXPECT_TRUE(graph.registry->find(op.definition)) << op.name << " is " << op.definition << ": " << op.formula;
  }
}

// The gradient that each update reads, against central differences of the loss, in float64 throughout.
TEST(Models, GradientsEqualNumericOnes) {
  for (const char* reference :
       {"zoo:mlp?layers=3,width=5,batch=4", "zoo:lenet?batch=2,image=16,classes=3",
        "zoo:resnet-18?batch=4,image=32,width=1,classes=3", "zoo:rnnlm?batch=2,steps=2,hidden=3,vocabulary=3",
        "zoo:nmt?batch=2,steps=3,hidden=3,vocabulary=3,cell=gru",
        "zoo:gpt2?batch=2,steps=3,layers=1,hidden=4,heads=2,vocabulary=3,positions=4",
        "zoo:llama-3-8b?batch=2,steps=3,layers=1,hidden=8,heads=4,key_heads=2,inner=3,vocabulary=3",
        ("zoo:moe?batch=2,steps=4,layers=1,heads=1,hidden=4,inner=3,vocabulary=3,experts=3,groups=2,capacity=0.8,"
         "balance=0.3"),
        ("zoo:mixtral-8x7b?batch=2,steps=3,layers=1,hidden=8,heads=4,key_heads=2,inner=3,vocabulary=3,"
         "experts=3,balance=0.2"),
        "zoo:wide-deep?batch=3,vocabulary=3,width=3,layers=2,fields=2,dense=2,embedding=2",
        "zoo:transformer?batch=2,steps=3,layers=1,heads=2,hidden=4,inner=6,vocabulary=3,dropout=0.2",
        "zoo:transformer?batch=1,steps=3,layers=1,heads=2,hidden=4,inner=4,vocabulary=3,fine=true",
        "zoo:encoder-decoder?batch=1,steps=3,layers=1,heads=2,hidden=4,inner=4,vocabulary=3,dropout=0.2"}) {
    SCOPED_TRACE(reference);
    const Graph graph = training(reference, 0);
    Rng rng(5);
    std::map<TensorId, tdl::Array> values;
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor& t = graph.tensors[i];
      if (t.producer.valid() || t.values) continue;
      if (is_float(t.dtype)) {
        std::vector<double> numbers(static_cast<std::size_t>(volume(t.shape)));
        const double bound = t.role == Role::kInput ? 1 : std::max(t.initial_bound, 0.1);
        for (double& v : numbers) v = t.initial_fill + bound * (2 * rng.uniform() - 1);
        values[TensorId(i)] = tdl::real_array(t.shape, numbers);
      } else {
        std::vector<int64_t> labels(static_cast<std::size_t>(volume(t.shape)));
        for (int64_t& v : labels) v = static_cast<int64_t>(rng.below(3));
        values[TensorId(i)] = tdl::int_array(t.shape, labels);
      }
    }
    std::map<TensorId, tdl::Array> all = values;
    reference_run(graph, all);
    Graph forward = graph;
    forward.ops.resize(graph.tensor(graph.loss).producer.index() + 1);
    auto loss = [&] {
      std::map<TensorId, tdl::Array> run = values;
      reference_run(forward, run);
      return run.at(graph.loss).reals[0];
    };
    int checked = 0;
    for (const Op& op : graph.ops) {
      if (op.definition != "sgd" || (checked > 10 && rng.below(4) > 0)) continue;
      std::vector<double>& w = values.at(op.operands[0]).reals;
      const std::size_t i = rng.below(w.size());  // one element of each parameter, drawn from the seed
      const double h = 1e-5, x = w[i];
      w[i] = x + h;
      const double above = loss();
      w[i] = x - h;
      const double below = loss();
      w[i] = x;
      EXPECT_NEAR(all.at(op.operands[1]).reals[i], (above - below) / (2 * h), 1e-6)
          << graph.tensor(op.operands[0]).name;
      ++checked;
    }
    EXPECT_GE(checked, 6);
  }
}

// tests/golden/mlp_training.txt, rewritten if PARTITA_UPDATE_GOLDEN is set.
TEST(Models, AnMlpsTrainingGraphIsGolden) {
  const std::string text = print(training("zoo:mlp?layers=2,width=6,batch=4,classes=3"));
  const std::string path = PARTITA_SOURCE_DIR "/tests/golden/mlp_training.txt";
  if (std::getenv("PARTITA_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << "PARTITA_UPDATE_GOLDEN=1 writes " << path << " anew";
}

TEST(Models, BadReferencesNameWhatThereIs) {
  auto message = [](const std::string& reference) {
    try {
      build_model(reference, {}, standard_ops());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("zoo:lenot"),
            "unknown model 'zoo:lenot'; nearest: zoo:lenet, zoo:alexnet, zoo:nmt (`partita models` lists all)");
  EXPECT_NE(message("zoo:mlp?depth=3").find("zoo:mlp has no option 'depth'; it has: layers=4"), std::string::npos);
  EXPECT_EQ(message("zoo:mlp?layers=x"), "zoo:mlp: layers=x is not an integer");
  EXPECT_EQ(message("zoo:mlp?layers=0"), "zoo:mlp: layers=0 must be at least 1");
  EXPECT_EQ(message("zoo:mlp?activation=cube"), "zoo:mlp: activation=cube is none of tanh, relu, sigmoid");
}

}  // namespace
}  // namespace partita
