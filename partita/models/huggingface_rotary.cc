// Reads rotary positions of Hugging Face's configurations: frequencies by theta, and the ways to stretch them.
#include <cmath>
#include <numbers>

#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {
namespace {

const char* const kKnown[] = {"rope_type",        "type",
                              "rope_theta",       "partial_rotary_factor",
                              "factor",           "low_freq_factor",
                              "high_freq_factor", "original_max_position_embeddings",
                              "beta_fast",        "beta_slow",
                              "mscale",           "mscale_all_dim",
                              "attention_factor", "truncate",
                              "short_factor",     "long_factor"};

// One object of rotary positions, and the facts that stretching needs.
struct Source {
  Reading& in;
  Fields& r;
  std::string path;  // in messages
  std::string name;  // of the type's field
  std::string type;
  const RotaryDefaults& defaults;
  double theta;
  int64_t size;  // numbers of a head that are turned

  double needed(const char* field) {
    if (!r.has(field)) r.problem("{}.{} is missing, which {} '{}' needs", path, field, name, type);
    return r.positive(field, 1);
  }
  // The length of the model's first training. The configuration's own field comes before the object's.
  double original_positions() {
    const char* field = "original_max_position_embeddings";
    const auto own = defaults.original_positions;
    if (in.config.contains(field) || own)
      return static_cast<double>(in.f.integer(field, own.value_or(defaults.positions)));
    return static_cast<double>(r.integer(field, defaults.positions));
  }
};

// Long waves are stretched by `factor`, short ones stay, those between are blended (Llama 3.1).
void stretch_llama3(Rotary& rotary, Source& s) {
  const double factor = s.needed("factor"), low = s.needed("low_freq_factor"), high = s.needed("high_freq_factor");
  const double length = s.original_positions();
  if (s.r.has("low_freq_factor") && s.r.has("high_freq_factor") && !(low <= high))
    s.r.problem("{}: low_freq_factor={} must be at most high_freq_factor={}", s.path, low, high);
  for (double& frequency : rotary.frequencies) {
    const double turns = length * frequency / (2 * std::numbers::pi);  // in the original length
    if (turns < low) frequency /= factor;
    else if (turns < high) frequency *= (1 - (turns - low) / (high - low)) / factor + (turns - low) / (high - low);
  }
}

double yarn_scale(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

// YaRN (Peng et al. 2023): between the dimensions that turn beta_fast and beta_slow times in the original length, from
// as they are to divided by `factor`; and the scores of queries and keys are scaled.
void stretch_yarn(Rotary& rotary, Source& s) {
  const double original = s.original_positions();
  const double factor =
      s.r.is_null("factor") ? static_cast<double>(s.defaults.positions) / original : s.needed("factor");
  const double weight = s.r.number("mscale", 0, 0, 1e300), weight_all = s.r.number("mscale_all_dim", 0, 0, 1e300);
  const double usual = weight > 0 && weight_all > 0 ? yarn_scale(factor, weight) / yarn_scale(factor, weight_all)
                                                    : yarn_scale(factor, 1);
  rotary.scale = s.r.positive("attention_factor", usual);
  const double size = static_cast<double>(s.size);
  auto dimension = [&](double turns) {
    return size * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(s.theta));
  };
  double low = dimension(s.r.positive("beta_fast", 32)), high = dimension(s.r.positive("beta_slow", 1));
  if (s.r.flag("truncate", true)) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (std::size_t d = 0; d < rotary.frequencies.size(); ++d) {
    const double stretched = std::clamp((static_cast<double>(d) - low) / (high - low), 0.0, 1.0);
    rotary.frequencies[d] *= stretched / factor + (1 - stretched);
  }
}

// LongRoPE (Ding et al. 2024): a divisor of each frequency, from one of two lists. A sequence longer than the model's
// first training takes the long list.
void stretch_longrope(Rotary& rotary, Source& s, int64_t steps) {
  const double original = s.original_positions();
  const double factor =
      s.r.has("factor") ? s.r.positive("factor", 1) : static_cast<double>(s.defaults.positions) / original;
  rotary.scale =
      s.r.positive("attention_factor", factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original)));
  for (const char* field : {"short_factor", "long_factor"}) {
    const json* list = s.r.find(field);
    const bool right = list && list->is_array() && list->size() == rotary.frequencies.size() &&
                       std::all_of(list->begin(), list->end(), [](const json& x) { return x.is_number() && x > 0; });
    if (!right)
      s.r.problem("{}.{} is not a list of {} positive numbers, which {} '{}' needs", s.path, field,
                  rotary.frequencies.size(), s.name, s.type);
    else if ((static_cast<double>(steps) > original) == (field[0] == 'l'))
      for (std::size_t d = 0; d < list->size(); ++d) rotary.frequencies[d] /= (*list)[d].get<double>();
  }
}

// Theta grows with sequences that are longer than the model's positions.
void stretch_dynamic(Rotary& rotary, Source& s, int64_t steps) {
  const double factor = s.needed("factor"), size = static_cast<double>(s.size);
  const double length = static_cast<double>(std::max(steps, s.defaults.positions));
  const double growth = factor * length / static_cast<double>(s.defaults.positions) - (factor - 1);
  if (s.size > 2 && growth > 0)
    rotary.frequencies = rotary_frequencies(s.theta * std::pow(growth, size / (size - 2)), s.size);
}

void check_known(Fields& r, const json& object, const std::string& path, bool sections) {
  for (const auto& field : object.items()) {
    if (sections && field.key().starts_with("mrope_")) continue;
    auto is_it = [&](const char* known) { return field.key() == known; };
    if (!field.value().is_null() && std::none_of(std::begin(kKnown), std::end(kKnown), is_it))
      r.problem("{}.{} is not understood; remove it if it changes nothing", path, field.key());
  }
}

}  // namespace

Rotary read_rotary(Reading& in, const json& object, const std::string& path, const RotaryDefaults& d, int64_t steps) {
  Fields r(object, path + ".", in.problems);
  check_known(r, object, path, d.sections);
  const double theta = r.has("rope_theta") ? r.positive("rope_theta", d.theta) : in.f.positive(d.theta_field, d.theta);
  const bool own_part = r.has("partial_rotary_factor");
  Fields& part_of = own_part ? r : in.f;
  const char* part_field = own_part ? "partial_rotary_factor" : d.part_field;
  if (!d.partial) part_of.only(part_field, 1.0, "positions of a part of each head");
  const double part = d.partial ? part_of.number(part_field, d.part, 0, 1 + 1e-12) : 1;
  // transformers writes it in both places.
  if (d.partial && own_part && in.f.number(d.part_field, part, 0, 1 + 1e-12) != part)
    in.f.problem("{} is not the {} of {}; leave one of them out", in.f.shown(d.part_field), r.shown(part_field), path);
  const int64_t size = static_cast<int64_t>(static_cast<double>(d.size) * part);
  // With a part, transformers turns one number more if it is odd.
  if (size == 0 || (size + 1) / 2 * 2 > d.size) {
    in.f.problem("rotary positions turn {} numbers of each head's {}: an even number is needed", size, d.size);
    return {};
  }
  Rotary rotary{.frequencies = rotary_frequencies(theta, size)};
  const std::string name = r.has("rope_type") ? "rope_type" : "type";
  std::string type = r.text(name, "default");
  if (const auto other = d.renamed.find(type); other != d.renamed.end()) type = other->second;
  Source source{in, r, path, name, type, d, theta, size};
  if (type == "linear")
    for (const double factor = source.needed("factor"); double& frequency : rotary.frequencies) frequency /= factor;
  else if (type == "llama3") stretch_llama3(rotary, source);
  else if (type == "yarn") stretch_yarn(rotary, source);
  else if (type == "longrope") stretch_longrope(rotary, source, steps);
  else if (type == "dynamic") stretch_dynamic(rotary, source, steps);
  else if (type != "default")
    r.problem(
        "{} is not supported; there are default, linear, dynamic, llama3, yarn and longrope; without the field "
        "the model has the positions that it was first trained with",
        r.shown(name));
  if (!std::all_of(rotary.frequencies.begin(), rotary.frequencies.end(), [](double x) { return std::isfinite(x); }))
    in.f.problem("{} and theta {} give positions that are no numbers", path, theta);
  return rotary;
}

std::pair<const json*, std::string> rotary_object(Reading& in) {
  static const json kNothing = json::object();
  Fields& f = in.f;
  const char* field = f.has("rope_scaling") && !f.find("rope_scaling")->empty() ? "rope_scaling" : "rope_parameters";
  const json* given = f.find(field);
  if (given && !given->is_object()) f.problem("{} is not an object", f.shown(field));
  return {given && given->is_object() ? given : &kNothing, field};
}

Rotary read_rotary(Reading& in, const RotaryDefaults& defaults, int64_t steps) {
  const auto [object, path] = rotary_object(in);
  return read_rotary(in, *object, path, defaults, steps);
}

}  // namespace partita::huggingface
