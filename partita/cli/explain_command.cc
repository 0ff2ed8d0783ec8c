// explain.
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/nearest.h"
#include "partita/cli/commands.h"
#include "partita/physical/lower.h"
#include "partita/plan/explain.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kDearest = 12;          // conversions that a summary shows
constexpr int kMemoryPlans = 8;          // of the cheapest alternatives, it is looked at whether they fit
constexpr int64_t kTasksOfAll = 10'000;  // about; of more, the memory of typical devices is planned

std::string text_of(const std::vector<tdl::AxisStrategy>& strategies) {
  std::vector<std::string> names;
  for (const tdl::AxisStrategy& s : strategies) names.push_back(tdl::to_string(s));
  return fmt::format("[{}]", fmt::join(names, ", "));
}

std::string text_of(const Layout& layout) {
  const auto name = name_of(layout);
  return name ? to_string(*name) : "boxes without a name";
}

std::string signed_bytes(int64_t bytes) {
  return fmt::format("{}{}", bytes < 0 ? "-" : "+", megabytes(static_cast<double>(std::abs(bytes))));
}

// What one mesh axis does, in words.
std::string in_words(const tdl::AxisStrategy& s, const tdl::Bound& bound, int parts) {
  std::string out;
  for (const std::string& name : s.names)
    out += fmt::format("{}index {} (extent {})", out.empty() ? fmt::format("{} parts along ", parts) : " and ", name,
                       bound.indices[bound.find_index(name)].extent);
  if (out.empty()) out = s.partial.empty() ? "replicated" : "not split";
  if (!s.partial.empty())
    out += fmt::format("; {} come{} in as partial values ({})", fmt::join(s.partial, ", "),
                       s.partial.size() == 1 ? "s" : "", tdl::name_of(s.reducer));
  return out;
}

class Explanation {
 public:
  explicit Explanation(const Planned& p) : p_(p), graph_(p.training), explainer_(p.training, p.plan, p.cluster) {}

  Json op_json(OpId id) {
    const OpExplanation e = explainer_.op(id);
    const Op& op = graph_.op(id);
    Json json = {{"name", op.name},
                 {"definition", op.definition},
                 {"mesh", p_.plan.ops[id.index()].mesh.extents},
                 {"strategy", names(p_.plan.ops[id.index()].strategies)},
                 {"inner_bytes", e.inner_bytes}};
    json["conversions"] = moved_json(e.moved);
    json["alternatives"] = Json::array();
    for (const OpAlternative& other : e.alternatives) {
      Json j = difference_json({{"strategy", names(other.strategies)}}, other.difference);
      if (other.difference.bytes < 0) add_missing(j, [&] { return with(p_.plan, id, other.strategies); });
      json["alternatives"].push_back(std::move(j));
    }
    json["impossible"] = Json::array();
    for (const auto& [why, all] : e.impossible)
      for (const auto& strategies : all) json["impossible"].push_back({{"strategy", names(strategies)}, {"why", why}});
    return json;
  }

  void print_op(OpId id) {
    const OpExplanation e = explainer_.op(id);
    const Op& op = graph_.op(id);
    const OpChoice& choice = p_.plan.ops[id.index()];
    fmt::print("op {} ({}, {})\n", op.name, op.definition, name_of(op.phase));
    fmt::print("  strategy {} on mesh {}\n", text_of(choice.strategies), to_string(choice.mesh));
    for (size_t a = 0; a < choice.strategies.size(); ++a)
      fmt::print("    axis {}: {}\n", a, in_words(choice.strategies[a], *op.bound, choice.mesh.extents[a]));
    for (size_t k = 0; k < op.operands.size(); ++k)
      fmt::print("  reads {} as {}\n", graph_.tensor(op.operands[k]).name, text_of(e.layouts.operands[k]));
    for (size_t r = 0; r < op.results.size(); ++r)
      fmt::print("  makes {} as {}\n", graph_.tensor(op.results[r]).name, text_of(e.layouts.results[r]));
    fmt::print("  moves {} inside\n", megabytes(static_cast<double>(e.inner_bytes)));
    print_moved(e.moved);
    fmt::print("  {}, and what the plan would move more if only this op changed:\n",
               count_of(e.alternatives.size(), e.others, "alternatives"));
    for (const OpAlternative& other : e.alternatives)
      fmt::print("  {:>12}  {}  {}\n", signed_bytes(other.difference.bytes), text_of(other.strategies),
                 reason(other.difference, [&] { return with(p_.plan, id, other.strategies); }));
    for (const auto& [why, all] : e.impossible) {
      std::vector<std::string> texts;
      for (const auto& strategies : all) texts.push_back(text_of(strategies));
      fmt::print("     cannot be  {}: {}\n", fmt::join(texts, " "), why);
    }
  }

  Json tensor_json(TensorId id) {
    const TensorExplanation e = explainer_.tensor(id);
    Json json = {{"name", graph_.tensor(id).name},
                 {"kept_with", graph_.tensor(e.keeper).name},
                 {"mesh", e.home.mesh.extents},
                 {"home", text_of(e.home)}};
    if (e.made) json["made"] = text_of(*e.made), json["producer"] = graph_.op(graph_.tensor(id).producer).name;
    json["conversions"] = moved_json(e.moved);
    json["alternatives"] = Json::array();
    for (const TensorAlternative& other : e.alternatives) {
      Json j = difference_json({{"home", home_text(other)}}, other.difference);
      if (other.difference.bytes < 0) add_missing(j, [&] { return with(p_.plan, e.keeper, other.kept); });
      json["alternatives"].push_back(std::move(j));
    }
    return json;
  }

  void print_tensor(TensorId id) {
    const TensorExplanation e = explainer_.tensor(id);
    const Tensor& tensor = graph_.tensor(id);
    fmt::print("tensor {} ({}, {} [{}], {})\n", tensor.name, name_of(tensor.role), name_of(tensor.dtype),
               fmt::join(tensor.shape, ", "), megabytes(static_cast<double>(tensor.bytes())));
    if (e.made) fmt::print("  made by {} as {}\n", graph_.op(tensor.producer).name, text_of(*e.made));
    fmt::print("  kept as {} on mesh {}{}\n", text_of(e.home), to_string(e.home.mesh),
               e.keeper == id ? "" : fmt::format(", where {} is, which it replaces", graph_.tensor(e.keeper).name));
    print_moved(e.moved);
    fmt::print("  {}, and what the plan would move more with it:\n",
               count_of(e.alternatives.size(), e.others, "other homes"));
    for (const TensorAlternative& other : e.alternatives)
      fmt::print("  {:>12}  {}  {}\n", signed_bytes(other.difference.bytes), home_text(other),
                 reason(other.difference, [&] { return with(p_.plan, e.keeper, other.kept); }));
  }

  Json summary_json() {
    std::vector<Moved> moved = explainer_.conversions();
    return {{"comm_bytes", p_.report.comm_bytes},
            {"inner_bytes", p_.report.inner_bytes},
            {"bytes_by_step", explainer_.bytes_by_step()},
            {"conversions", moved_json(moved)}};
  }

  void print_summary() {
    std::vector<Moved> moved = explainer_.conversions();
    fmt::print("the plan of {} moves {} a step, {} of it inside operations\n", p_.plan.search,
               megabytes(static_cast<double>(p_.report.comm_bytes)),
               megabytes(static_cast<double>(p_.report.inner_bytes)));
    for (const auto& [step, bytes] : explainer_.bytes_by_step())
      fmt::print("  {:<16}{:>12}\n", step, megabytes(static_cast<double>(bytes)));
    fmt::print("the dearest of {} conversions that move something:\n", moved.size());
    if (moved.size() > kDearest) moved.resize(kDearest);
    print_moved(moved);
    fmt::print("`partita explain PLAN OP|TENSOR` has the alternatives to one of them\n");
  }

 private:
  static Json names(const std::vector<tdl::AxisStrategy>& strategies) {
    Json json = Json::array();
    for (const tdl::AxisStrategy& s : strategies) json.push_back(tdl::to_string(s));
    return json;
  }

  static std::string home_text(const TensorAlternative& other) {
    return other.kept ? to_string(other.kept->sbp) : "as it is made";
  }

  std::vector<std::string> readers_of(const Moved& m) const {
    std::vector<std::string> names;
    for (const Reader& r : m.readers)
      if (const std::string& name = graph_.op(r.op).name; names.empty() || names.back() != name) names.push_back(name);
    return names;
  }

  Json moved_json(const std::vector<Moved>& moved) {
    Json json = Json::array();
    for (const Moved& m : moved)
      json.push_back({{"tensor", graph_.tensor(m.tensor).name},
                      {"from", text_of(m.from)},
                      {"to", text_of(m.to)},
                      {"steps", explainer_.steps_of(m)},
                      {"bytes", m.bytes},
                      {"readers", readers_of(m)}});
    return json;
  }

  Json difference_json(Json json, const Difference& d) {
    json["change_bytes"] = d.bytes;
    json["inner_change_bytes"] = d.inner_bytes;
    json["more"] = moved_json(d.more);
    json["less"] = moved_json(d.less);
    return json;
  }

  void print_moved(const std::vector<Moved>& moved) {
    for (const Moved& m : moved)
      fmt::print("  {:>12}  {}: {} from {} to {}{}\n", megabytes(static_cast<double>(m.bytes)),
                 graph_.tensor(m.tensor).name, explainer_.steps_of(m), text_of(m.from), text_of(m.to),
                 m.readers.empty() ? ", where it is kept" : fmt::format(", for {}", fmt::join(readers_of(m), ", ")));
  }

  // By how many bytes the plan of a cheaper alternative is over the memory; none where enough have been looked at.
  template <typename MakePlan>
  std::optional<int64_t> missing_of(const MakePlan& plan) {
    if (memory_plans_++ >= kMemoryPlans) return std::nullopt;
    if (static_cast<int64_t>(graph_.ops.size()) * p_.cluster.compute_count <= kTasksOfAll)
      return missing_bytes(graph_, plan(), p_.cluster);
    const std::vector<DeviceId> devices = typical_devices(p_.cluster);
    const std::vector<int64_t> peaks = planned_peak_bytes(graph_, plan(), p_.cluster, devices);
    int64_t missing = std::numeric_limits<int64_t>::min();
    for (DeviceId d : devices) missing = std::max(missing, peaks[d.index()] - p_.cluster.device(d).memory_bytes);
    return missing;
  }

  template <typename MakePlan>
  void add_missing(Json& json, const MakePlan& plan) {
    const std::optional<int64_t> missing = missing_of(plan);
    if (!missing) return;
    json["fits"] = *missing <= 0;
    if (*missing > 0) json["missing_memory_bytes"] = *missing;
  }

  // "66 alternatives", and where they are not all of them, which.
  static std::string count_of(size_t listed, double others, const char* what) {
    if (others <= kMostListed) return fmt::format("{} {}", listed, what);
    return fmt::format(
        "{} of {:.0f} {} (that differ on one or two mesh axes, or have one choice on the first axes and one on the "
        "rest)",
        listed, others, what);
  }

  // Why the alternative is not there.
  template <typename MakePlan>
  std::string reason(const Difference& d, const MakePlan& plan) {
    std::vector<std::string> parts;
    if (d.inner_bytes > 0) parts.push_back(fmt::format("{} inside", signed_bytes(d.inner_bytes)));
    constexpr size_t kShown = 3;
    for (size_t i = 0; i < std::min(kShown, d.more.size()); ++i)
      parts.push_back(fmt::format("{}: {} of {}", graph_.tensor(d.more[i].tensor).name, explainer_.steps_of(d.more[i]),
                                  megabytes(static_cast<double>(d.more[i].bytes))));
    if (d.more.size() > kShown) parts.push_back(fmt::format("{} more", d.more.size() - kShown));
    std::string text = d.bytes == 0 ? "a tie" : "";
    if (d.bytes < 0) {
      const std::optional<int64_t> missing = missing_of(plan);
      text = !missing       ? "cheaper"
             : *missing > 0 ? fmt::format("does not fit: it needs {} more than a device has",
                                          megabytes(static_cast<double>(*missing)))
                            : "cheaper: it fits, and the search did not take it";
    }
    if (parts.empty()) return text;
    return fmt::format("{}{}{}", text, text.empty() ? "" : "; ", fmt::join(parts, ", "));
  }

  const Planned& p_;
  const Graph& graph_;
  Explainer explainer_;
  int memory_plans_ = 0;
};

}  // namespace

int explain_command(const Arguments& a) {
  Runner runner;
  const Planned p = open_plan(a.target, runner, Follow::kCheck);
  Explanation explanation(p);
  if (a.name.empty()) {
    if (a.json) print_json(explanation.summary_json());
    else explanation.print_summary();
    return 0;
  }
  const OpId op = p.training.find_op(a.name);
  const TensorId tensor = p.training.find_tensor(a.name);
  if (!op.valid() && !tensor.valid()) {
    std::vector<std::string> known;
    for (const Op& o : p.training.ops) known.push_back(o.name);
    for (const Tensor& t : p.training.tensors) known.push_back(t.name);
    fail("{}: the model has no op or tensor '{}'; near it are: {}", a.target, a.name,
         fmt::join(nearest_names(a.name, known), ", "));
  }
  // An op's result often has its name.
  Json json;
  if (op.valid()) {
    if (a.json) json["op"] = explanation.op_json(op);
    else explanation.print_op(op);
  }
  if (tensor.valid()) {
    if (a.json) json["tensor"] = explanation.tensor_json(tensor);
    else explanation.print_tensor(tensor);
  }
  if (a.json) print_json(std::move(json));
  return 0;
}

}  // namespace partita
