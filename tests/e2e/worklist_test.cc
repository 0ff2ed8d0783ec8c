// Tests `partita profile --worklist` and tools/profile_torch.py, which times it with PyTorch: the kernels of plans are
// in the list, formulas are computed as the reference evaluator does, and a plan takes the times.
#include "partita/measure/worklist.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "partita/ops/examples.h"
#include "partita/ops/ops.h"
#include "program.h"

namespace partita {
namespace {

constexpr const char* kCluster = "dgx-h100";

// Runs a Python script that sees only this build's packages, PyTorch among them.
Outcome python(const std::string& script, const Words& words) {
  const std::string out = scratch("python.out"), err = scratch("python.err");
  std::string command = fmt::format("OMP_NUM_THREADS=1 '{1}' '{0}/tools/isolated.py' '{0}/{2}'", PARTITA_SOURCE_DIR,
                                    PARTITA_PYTHON, script);
  for (const std::string& word : words) command += fmt::format(" '{}'", word);
  const int status = std::system(fmt::format("{} >'{}' 2>'{}'", command, out, err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(out), contents(err)};
}
bool has_torch(const Outcome& o) { return !std::string(PARTITA_PYTHON).empty() && o.code != 77; }

// Makes the work list a profile in which every kernel takes a microsecond.
std::string profile_of(const Json& worklist) {
  Json profile = {{"schema_version", 1},
                  {"device", worklist["device"]},
                  {"machine", {{"name", "none"}, {"engine", "none"}}},
                  {"kernels", Json::array()}};
  for (Json kernel : worklist["kernels"]) {
    for (const char* key : {"formula", "ranges", "reads", "writes"}) EXPECT_EQ(kernel.erase(key), 1u);
    kernel["us"] = 1;
    kernel["how"] = "not at all";
    profile["kernels"].push_back(kernel);
  }
  return put("profile.json", profile.dump());
}

void expect_all_measured(const Words& model, const std::string& profile) {
  for (const std::string search : {"data-parallel", "model-parallel", "zero", "soybean", "tofu"}) {
    Words words = model;
    words.insert(words.begin(), "plan");
    for (const std::string& word :
         {std::string("--cluster"), std::string(kCluster), std::string("--devices"), std::string("2"),
          std::string("--search"), search, std::string("--profile"), profile})
      words.push_back(word);
    const Json figures = json_of(words);
    EXPECT_EQ(figures["estimated_kernels"], 0) << search << ": " << figures.dump();
  }
}

TEST(Worklists, HaveTheKernelsOfPlans) {
  for (const std::string model : {"zoo:mlp", "zoo:transformer"}) {
    SCOPED_TRACE(model);
    const std::string list = scratch("work.json");
    const Json said = json_of({"profile", model, "--cluster", kCluster, "--devices", "2", "--worklist", list});
    const Json work = Json::parse(contents(list));
    EXPECT_EQ(said["kernels"], work["kernels"].size());
    EXPECT_EQ(work["device"], "H100");
    expect_all_measured({model}, profile_of(work));
  }
}

TEST(Worklists, AreOfAPlanAndItsCluster) {
  const std::string plan = scratch("plan.json"), list = scratch("work.json");
  json_of({"plan", "zoo:mlp", "--cluster", "p2.8xlarge", "--devices", "2", "--search", "data-parallel", "--dtype",
           "fp16", "-o", plan});
  EXPECT_EQ(json_of({"profile", plan, "--worklist", list})["device"], "K80");
  const std::string text = contents(list);
  EXPECT_NE(text.find("float16"), std::string::npos);
  const Outcome o = partita({"simulate", plan, "--profile", profile_of(Json::parse(text))});
  EXPECT_NE(o.out.find("kernels measured"), std::string::npos) << o.out << o.err;
}

TEST(Worklists, OptionsThatDoNotFitAreRefused) {
  const std::string list = scratch("work.json");
  expect_error({"profile", "zoo:mlp"}, 2, {"-o", "--worklist"});
  expect_error({"profile", "zoo:mlp", "--worklist", list}, 2, {"--cluster"});
  expect_error({"profile", "zoo:mlp", "--worklist", list, "--cluster", kCluster, "-o", scratch("p.json")}, 2, {"-o"});
  expect_error({"profile", "zoo:mlp", "-o", scratch("p.json"), "--cluster", kCluster}, 2, {"--worklist"});
}

TEST(ProfileTorch, TimesWhatPlansAskFor) {
  const std::string list = scratch("work.json"), profile = scratch("profile.json");
  std::filesystem::remove(profile);
  const Words models = {"zoo:mlp", "zoo:transformer", "zoo:lenet"};
  const auto with = [](std::string first, Words words, const Words& more) {
    words.insert(words.begin(), std::move(first));
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  json_of(with("profile", models, {"--batch", "4", "--cluster", kCluster, "--devices", "2", "--worklist", list}));
  const Outcome checked = python("tools/profile_torch.py", {list, "--check", "--device", "cpu"});
  if (!has_torch(checked)) GTEST_SKIP() << "no Python with PyTorch: " << checked.err;
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
  EXPECT_NE(checked.out.find(", 0 that are large"), std::string::npos) << checked.out;
  EXPECT_EQ(checked.out.find("left out"), std::string::npos) << checked.out;
  EXPECT_EQ(checked.err.find("stage by stage"), std::string::npos) << checked.err;

  // Without an option, the CPU does not time a list for GPUs.
  const Outcome unasked = python("tools/profile_torch.py", {list, "-o", profile});
  if (unasked.code != 0) {
    EXPECT_EQ(unasked.code, 3);
    EXPECT_NE(unasked.err.find("--device cpu"), std::string::npos) << unasked.err;
    EXPECT_FALSE(std::filesystem::exists(profile));
  }
  const Words timing = {list, "-o", profile, "--device", "cpu", "--seconds", "0"};
  const Outcome part =
      python("tools/profile_torch.py", with(timing[0], {timing.begin() + 1, timing.end()}, {"--only", "matmul"}));
  EXPECT_EQ(part.code, 0) << part.err;
  const std::string first = contents(profile).substr(0, 2000);
  const Outcome all = python("tools/profile_torch.py", timing);
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(all.out.find(" now, 0 before"), std::string::npos) << all.out;
  EXPECT_EQ(contents(profile).substr(0, 2000), first) << "what was there was timed again";
  for (const std::string how : {"einsum", "linear", "scaled_dot_product_attention", "layer_norm backward", "conv2d",
                                "conv2d data gradient", "cross_entropy backward", "gather", "index_add", "gelu"})
    EXPECT_NE(contents(profile).find(fmt::format("\"how\": \"{}\"", how)), std::string::npos) << how;
  for (const std::string& model : models) expect_all_measured({model, "--batch", "4"}, profile);
  expect_error({"plan", "zoo:mlp", "--cluster", "p2.8xlarge", "--profile", profile}, 3, {"H100", "K80"});
}

TEST(ProfileTorch, RefusesWhatCannotBeKept) {
  const std::string list = scratch("work.json");
  json_of({"profile", "zoo:mlp?width=16,layers=1", "--batch", "4", "--cluster", kCluster, "--devices", "1",
           "--worklist", list});
  const auto refused = [&](const Words& more, int code, const std::string& message) {
    Words words = {list};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = python("tools/profile_torch.py", words);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_NE(o.err.find(message), std::string::npos) << o.err;
    EXPECT_EQ(o.err.find("Traceback"), std::string::npos) << o.err;
  };
  const std::string file = scratch("profile.json");
  if (!has_torch(python("tools/profile_torch.py", {list, "--check", "--device", "cpu"}))) GTEST_SKIP() << "no PyTorch";
  refused({"-o", "/nodir/p.json", "--device", "cpu"}, 3, "/nodir/p.json: cannot be written");
  refused({"-o", file, "--device", "foo"}, 3, "--device foo");
  refused({"-o", file, "--device", "cuda:77"}, 3, "--device cuda:77");
  refused({"-o", file, "--device", "cpu", "--seconds", "-1"}, 2, "--seconds");
  refused({"-o", file, "--device", "cpu", "--seconds", "nan"}, 2, "--seconds");
  refused({"-o", put("list.json", "[1]"), "--device", "cpu"}, 3, "no profile of schema_version 1");
  refused({"-o", put("two.json", R"({"schema_version": 2})"), "--device", "cpu"}, 3, "no profile of schema_version 1");
  refused({"-o", file, "--device", "cpu", "--only", "no such"}, 3, "--only no such");
  Json damaged = Json::parse(contents(list));
  damaged["kernels"][1].erase("flops");
  const Outcome o =
      python("tools/profile_torch.py", {put("damaged.json", damaged.dump()), "--check", "--device", "cpu"});
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_NE(o.err.find("kernel 2: KeyError: 'flops'"), std::string::npos) << o.err;
  const std::string empty = put("empty.json", "");
  EXPECT_EQ(python("tools/profile_torch.py", {list, "-o", empty, "--device", "cpu", "--seconds", "0"}).code, 0);
  Json broken = Json::parse(contents(empty));
  broken["kernels"][0]["us"] = -5;
  refused({"-o", put("broken.json", broken.dump()), "--device", "cpu"}, 3, "kernel 1: partita refuses it");
}

// ---------------------------------------------------------------- against the reference evaluator

Json numbers_json(const tdl::Array& array) {
  Json json = Json::array();
  const int64_t n = volume(full_box(array.shape));
  for (int64_t i = 0; i < n; ++i) {
    const double x = array.at(i);
    json.push_back(std::isfinite(x) ? Json(x) : Json(std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"));
  }
  return json;
}

PlacedShard placed(const tdl::Bound& bound, int tensor, const tdl::Piece& piece) {
  return {tensor, {piece.data.dtype, piece.box, dense_strides(extents(piece.box))}, bound.tensors[tensor].factored};
}

// A kernel of all stages at the last position of a split in two, and the numbers that it reads and writes.
struct Computed {
  KernelToTime kernel;
  Json values = {{"reads", Json::array()}, {"writes", Json::array()}};
};
Computed computed(const OpDefinition& definition, const tdl::Attributes& attributes,
                  const std::shared_ptr<const tdl::Bound>& bound, const tdl::Derived& derived,
                  const std::vector<tdl::Array>& operands) {
  Computed out;
  const int p = derived.positions() - 1;
  const int stages = static_cast<int>(bound->stages.size());
  out.kernel.work = {definition.name, attributes, bound, 0, stages, {derived.ranges[p]}, 0};
  std::vector<tdl::Piece> pieces(bound->tensors.size());
  std::vector<const tdl::Piece*> held(pieces.size(), nullptr);
  const auto note = [&](int t, bool written) {
    (written ? out.kernel.writes : out.kernel.reads).push_back(placed(*bound, t, pieces[t]));
    out.values[written ? "writes" : "reads"].push_back(numbers_json(pieces[t].data));
  };
  for (int t = 0; t < bound->operand_count; ++t) {
    tdl::Array whole = operands[t];
    if (is_float(whole.dtype)) whole.dtype = DType::kFloat64;
    pieces[t] = tdl::piece_of(whole, bound->tensors[t].factored, derived.boxes[t][p]);
    held[t] = &pieces[t];
    note(t, false);
  }
  for (int s = 0; s < stages; ++s) {
    const int t = bound->stages[s].tensor;
    pieces[t] = tdl::evaluate_stage(*bound, s, derived.ranges[p], held);
    held[t] = &pieces[t];
  }
  for (const int t : bound->results) note(t, true);
  out.kernel.kernel.id.definition = definition.name;
  for (const auto& [name, value] : attributes)
    out.kernel.kernel.id.attributes +=
        fmt::format("{}{}={}", out.kernel.kernel.id.attributes.empty() ? "" : ", ", name, value);
  out.kernel.kernel.id.last_stage = stages;
  for (size_t i = 0; i < bound->indices.size(); ++i)
    out.kernel.kernel.id.indices.emplace_back(bound->indices[i].name, derived.ranges[p][i].size());
  return out;
}

// All definitions, in the ways of splitting them without steps between stages.
TEST(ProfileTorch, ComputesFormulasAsTheReferenceDoes) {
  const auto registry = standard_ops();
  KernelsToTime kernels;
  Json values = Json::array();
  Rng rng(7);
  for (const OpDefinition* definition : registry->all())
    for (const OpDefinition::Example& example : definition->examples) {
      tdl::Attributes attributes = example.attributes;
      const auto bound = bind_instance(*definition, attributes, example.shapes, operand_dtypes(example));
      if (tdl::to_text(*bound).find("rng(") != std::string::npos) continue;  // draws its own
      const std::vector<tdl::Array> operands = random_operands(*definition, example, rng);
      for (const tdl::AxisStrategy& strategy : tdl::strategies(*bound, 2)) {
        const auto derived = tdl::derive(*bound, {2}, {strategy});
        if (!derived || !derived->inner.empty() || !strategy.partial.empty()) continue;
        Computed one = computed(*definition, attributes, bound, *derived, operands);
        kernels.emplace(fmt::format("{:06}", values.size()), std::move(one.kernel));
        values.push_back(std::move(one.values));
        if (&example != &definition->examples.front()) break;  // one of them
      }
    }
  EXPECT_GT(kernels.size(), 300u);
  const Outcome o =
      python("tests/data/check_profile_torch.py",
             {put("work.json", print_worklist(kernels, "none", DeviceKind::kCpu)), put("values.json", values.dump())});
  if (!has_torch(o)) GTEST_SKIP() << "no Python with PyTorch: " << o.err;
  EXPECT_EQ(o.code, 0) << o.out << o.err;
}

}  // namespace
}  // namespace partita
