// Adds gradient clipping, the schedule of the learning rate and the updates of parameters to a graph.
#include "partita/graph/optimizer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "partita/base/error.h"
#include "partita/graph/elementary.h"
#include "partita/graph/kept_gradients.h"
#include "partita/graph/optimizer_checks.h"

namespace partita {
namespace {

// "NAME?option=value,option=value".
struct Choice {
  std::string name;
  tdl::Attributes options;
};

Choice parse_choice(const std::string& text) {
  const std::size_t question = std::min(text.find('?'), text.size());
  Choice choice{text.substr(0, question), {}};
  for (std::size_t from = question + 1; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string item = text.substr(from, comma - from);
    const std::size_t equals = std::min(item.find('='), item.size());
    double value = 0;
    const char* end = item.data() + item.size();
    const auto read = equals < item.size() ? std::from_chars(item.data() + equals + 1, end, value)
                                           : std::from_chars_result{nullptr, std::errc::invalid_argument};
    if (equals == 0 || read.ec != std::errc() || read.ptr != end) fail("{}: '{}' is not option=number", text, item);
    if (!choice.options.emplace(item.substr(0, equals), value).second)
      fail("{}: '{}' is given twice", text, item.substr(0, equals));
    from = comma + 1;
  }
  return choice;
}

std::vector<std::string> option_names(const OpDefinition& definition) {
  std::vector<std::string> names = definition.required;
  for (const auto& [name, value] : definition.defaults) names.push_back(name);
  return names;
}

bool knows(const OpDefinition& definition, const tdl::Attributes& options) {
  const std::vector<std::string> names = option_names(definition);
  return std::all_of(options.begin(), options.end(), [&](const auto& option) {
    return std::find(names.begin(), names.end(), option.first) != names.end();
  });
}

// One definition and its attributes.
struct Chosen {
  const OpDefinition* definition = nullptr;
  tdl::Attributes options;
  bool fine = false, keeps = false;  // of an update: in elementary operations; its gradient is kept
};

// The first of `candidates` that knows all options and is given those it requires. For messages: `what`, such as
// "optimizer", and `shared`, options that belong to none of them.
Chosen choose(const char* what, const Choice& choice, const std::vector<const OpDefinition*>& candidates,
              const std::vector<std::string>& names, const std::vector<std::string>& shared = {}) {
  if (candidates.empty()) fail("unknown {} '{}'; there are: {}", what, choice.name, fmt::join(names, ", "));
  std::vector<std::string> known;
  for (const OpDefinition* candidate : candidates) {
    for (const std::string& name : option_names(*candidate))
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    if (!knows(*candidate, choice.options)) continue;
    for (const std::string& name : candidate->required)
      if (!choice.options.contains(name))
        fail("{} '{}' needs `{}`: {}?{}=..", what, choice.name, name, choice.name, name);
    return {candidate, choice.options};
  }
  known.insert(known.end(), shared.begin(), shared.end());
  std::vector<std::string> given;
  for (const auto& [name, value] : choice.options) given.push_back(fmt::format("{}={}", name, value));
  fail("{} '{}' has no such options together: {}; it has: {}", what, choice.name, fmt::join(given, ", "),
       fmt::join(known, ", "));
}

Chosen chosen_update(const Optimizer& optimizer, const OpRegistry& registry) {
  Choice choice = parse_choice(optimizer.kind);
  for (const auto& [name, value] :
       {std::pair{"momentum", optimizer.momentum}, {"weight_decay", optimizer.weight_decay}})
    if (value != 0 && !choice.options.emplace(name, value).second)
      fail("optimizer '{}': {} is given twice", optimizer.kind, name);
  std::vector<const OpDefinition*> candidates;
  for (const OpDefinition* definition : registry.all())
    if (definition->update && definition->update->optimizer == choice.name) candidates.push_back(definition);
  std::stable_sort(candidates.begin(), candidates.end(), [](const OpDefinition* a, const OpDefinition* b) {
    return a->update->states.size() < b->update->states.size();
  });
  // Options that all optimizers have.
  const auto taken = [&](const std::string& name) {
    const auto option = choice.options.extract(name);
    if (option && option.mapped() != 0 && option.mapped() != 1)
      fail("optimizer '{}': {} is 0 or 1, not {}", optimizer.kind, name, option.mapped());
    return option && option.mapped() == 1;
  };
  const bool fine = taken("fine"), keeps = taken(kKeepGradients);
  if (fine && keeps)
    fail(
        "optimizer '{}': {} says how long what updates read is kept, and with fine=1 no operation is an update; "
        "leave one of them out",
        optimizer.kind, kKeepGradients);
  Chosen chosen = choose("optimizer", choice, candidates, optimizer_names(registry), {"fine", kKeepGradients});
  chosen.fine = fine, chosen.keeps = keeps;
  if (keeps) chosen.options[kKeptGradient] = 1;
  return chosen;
}

// No definition: the rate stays as it is.
Chosen chosen_schedule(const Optimizer& optimizer, const OpRegistry& registry) {
  if (optimizer.schedule == "constant") return {};
  const Choice choice = parse_choice(optimizer.schedule);
  std::vector<const OpDefinition*> candidates;
  for (const OpDefinition* definition : registry.all())
    if (!definition->schedule.empty() && definition->schedule == choice.name) candidates.push_back(definition);
  return choose("schedule", choice, candidates, schedule_names(registry));
}

constexpr double kMost = 3.4e38;  // float32 has no larger ones

// The range of a number: from `least` on, and less than `below`.
struct Range {
  const char* name;
  double least = 0, below = kMost;
  const char* flag = "";  // its own flag on the command line
};
constexpr Range kLr{.name = "lr", .flag = " (--lr)"};
constexpr Range kOfOptimizer[] = {{.name = "momentum", .flag = " (--momentum)"},
                                  {.name = "weight_decay", .flag = " (--weight-decay)"},
                                  {.name = "beta1", .below = 1},
                                  {.name = "beta2", .below = 1},
                                  {.name = "eps"}};
constexpr Range kOfSchedule[] = {{.name = "warmup"}, {.name = "steps", .least = 1}};

// `whose`: "optimizer 'adamw?eps=-1'".
void validate_range(const std::string& whose, const Range& range, double value) {
  if (value >= range.least && value < range.below) return;
  fail("{}: {}{} is a number from {} to below {}, not {}", whose, range.name, range.flag, range.least, range.below,
       value);
}

void validate_ranges(const std::string& whose, const tdl::Attributes& options, std::span<const Range> ranges) {
  for (const Range& range : ranges)
    if (const auto found = options.find(range.name); found != options.end())
      validate_range(whose, range, found->second);
}

// PyTorch refuses Nesterov's momentum without momentum.
void validate_nesterov(const std::string& whose, const tdl::Attributes& options) {
  const auto nesterov = options.find("nesterov");
  if (nesterov == options.end()) return;
  if (nesterov->second != 0 && nesterov->second != 1) fail("{}: nesterov is 0 or 1, not {}", whose, nesterov->second);
  if (nesterov->second == 1 && !(options.at("momentum") > 0))
    fail("{}: nesterov=1 needs a momentum above 0, not {}", whose, options.at("momentum"));
}

std::vector<std::string> names_of(const OpRegistry& registry, std::string (*name)(const OpDefinition&)) {
  std::vector<std::string> names;
  for (const OpDefinition* definition : registry.all())
    if (const std::string n = name(*definition); !n.empty() && std::find(names.begin(), names.end(), n) == names.end())
      names.push_back(n);
  std::sort(names.begin(), names.end());
  return names;
}

// Tensors that all updates share, made once a dtype if dtypes differ.
class Updates {
 public:
  Updates(GraphBuilder& build, const Optimizer& optimizer)
      : build_(build),
        optimizer_(optimizer),
        update_(chosen_update(optimizer, *build.graph().registry)),
        schedule_(chosen_schedule(optimizer, *build.graph().registry)),
        elementary_(build) {}

  TensorId add(const std::vector<std::pair<TensorId, TensorId>>& gradients, bool wanted) {
    const bool clips = optimizer_.clip_norm > 0;
    const TensorId sum = clips || wanted ? square_sum(gradients) : TensorId();
    const TensorId scale =
        clips ? build_.op("clip_scale", {sum}, {{"max_norm", optimizer_.clip_norm}}, "clip.scale") : TensorId();
    for (const auto& [parameter, gradient] : gradients) {
      const Tensor w = build_.graph().tensor(parameter);
      TensorId g = gradient;
      if (scale.valid()) g = build_.op("mul", {g, as(scale, w.dtype)}, {}, w.name + ".grad.clipped");
      const TensorId rate = lr(w.dtype);
      std::vector<TensorId> operands{parameter, g};
      for (const std::string& state : update_.definition->update->states)
        operands.push_back(build_.state(w.name + "." + state, w.shape, 0, w.dtype));
      operands.push_back(rate);
      if (update_.definition->update->steps) operands.push_back(steps());
      if (update_.fine) elementary_.add(*update_.definition, operands, update_.options, w.name + ".update");
      else build_.ops(update_.definition->name, operands, update_.options, w.name + ".update");
    }
    if (steps_.valid()) build_.op("count_step", {steps_}, {}, "optimizer.step.update");
    return sum;
  }

 private:
  // The number of steps done before this one.
  TensorId steps() {
    if (!steps_.valid()) steps_ = build_.state("optimizer.step", {}, 0, DType::kInt64);
    return steps_;
  }

  TensorId lr(DType dtype) {
    TensorId& lr = lr_[dtype];
    if (lr.valid()) return lr;
    lr = build_.scalar("lr", optimizer_.lr, dtype);
    if (schedule_.definition)
      lr = build_.op(schedule_.definition->name, {lr, steps()}, schedule_.options, "lr.scheduled");
    return lr;
  }

  TensorId square_sum(const std::vector<std::pair<TensorId, TensorId>>& gradients) {
    TensorId sum;
    for (const auto& [parameter, gradient] : gradients) {
      const std::string name = build_.graph().tensor(parameter).name;
      const TensorId square = build_.op("square_sum", {gradient}, {}, name + ".grad.square_sum");
      sum = sum.valid() ? build_.op("add", {sum, square}, {}, "clip.square_sum") : square;
    }
    return sum;
  }

  TensorId as(TensorId scalar, DType dtype) {
    if (build_.graph().tensor(scalar).dtype == dtype) return scalar;
    TensorId& cast = cast_[dtype];
    if (!cast.valid()) cast = build_.op("cast", {scalar}, {{"to", static_cast<double>(dtype)}}, "clip.scale");
    return cast;
  }

  GraphBuilder& build_;
  const Optimizer& optimizer_;
  Chosen update_, schedule_;
  ElementaryUpdates elementary_;
  std::map<DType, TensorId> lr_, cast_;
  TensorId steps_;
};

}  // namespace

std::vector<std::string> optimizer_names(const OpRegistry& registry) {
  return names_of(registry, [](const OpDefinition& d) { return d.update ? d.update->optimizer : std::string(); });
}

std::vector<std::string> schedule_names(const OpRegistry& registry) {
  return names_of(registry, [](const OpDefinition& d) { return d.schedule; });
}

void check_optimizer_names(const Optimizer& optimizer, const OpRegistry& registry) {
  chosen_update(optimizer, registry);
  chosen_schedule(optimizer, registry);
}

void check_optimizer(const Optimizer& optimizer, const OpRegistry& registry) {
  const Chosen update = chosen_update(optimizer, registry), schedule = chosen_schedule(optimizer, registry);
  const std::string whose = fmt::format("optimizer '{}'", optimizer.kind);
  validate_range(whose, kLr, optimizer.lr);
  validate_ranges(whose, update.options, kOfOptimizer);
  validate_nesterov(whose, update.options);
  validate_ranges(fmt::format("schedule '{}'", optimizer.schedule), schedule.options, kOfSchedule);
  if (!(optimizer.clip_norm >= 0 && optimizer.clip_norm < kMost))
    fail("the gradients' norm is clipped to a number above 0 and below {}, not {}", kMost, optimizer.clip_norm);
}

std::string optimizer_warning(const Optimizer& optimizer, const OpRegistry& registry) {
  const tdl::Attributes options = chosen_update(optimizer, registry).options;
  const auto momentum = options.find("momentum");
  if (momentum == options.end() || momentum->second < 1) return "";
  return fmt::format("optimizer '{}': with a momentum of {} what a gradient adds never fades; below 1 it does",
                     optimizer.kind, momentum->second);
}

Optimizer with_steps(Optimizer optimizer, int64_t steps, const OpRegistry& registry) {
  const Choice choice = parse_choice(optimizer.schedule);
  if (choice.options.contains("steps")) return optimizer;
  for (const OpDefinition* definition : registry.all()) {
    if (definition->schedule != choice.name || choice.name.empty()) continue;
    const auto& required = definition->required;
    if (std::find(required.begin(), required.end(), "steps") != required.end())
      optimizer.schedule += fmt::format("{}steps={}", choice.options.empty() ? "?" : ",", steps);
  }
  return optimizer;
}

TensorId add_updates(GraphBuilder& build, const Optimizer& optimizer,
                     const std::vector<std::pair<TensorId, TensorId>>& gradients, bool wanted) {
  check_optimizer(optimizer, *build.graph().registry);
  return Updates(build, optimizer).add(gradients, wanted);
}

}  // namespace partita
