// Converts files of weights to a model's tensors and back: matches names, checks shapes, joins and splits parts.
#include "partita/train/weights_of_model.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/runtime/weight_files.h"

namespace partita {
namespace {

constexpr std::size_t kMostListed = 40;

std::string listed(std::vector<std::string> items) {
  const std::size_t all = items.size();
  if (all > kMostListed) items.resize(kMostListed);
  return fmt::format("{}{}", fmt::join(items, ", "),
                     all > kMostListed ? fmt::format(" and {} more", all - kMostListed) : "");
}

bool begins_with_any(const std::string& name, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](const std::string& b) { return name.starts_with(b); });
}

// The target of an array of the files: a tensor, or a part of one along its first axis.
struct Place {
  TensorId tensor;
  int64_t part = -1;
};

class Matcher {
 public:
  Matcher(const Graph& graph, const WeightNames& names) : names_(names) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor& t = graph.tensors[i];
      if (t.role != Role::kParameter && t.role != Role::kState) continue;
      own_.insert(t.name);
      const auto parts = names.parts.find(t.name);
      if (const auto renamed = names.renamed.find(t.name); renamed != names.renamed.end())
        places_[renamed->second] = {TensorId(i), -1};
      else if (parts == names.parts.end()) places_[t.name] = {TensorId(i), -1};
      else
        for (std::size_t p = 0; p < parts->second.size(); ++p)
          places_[parts->second[p]] = {TensorId(i), static_cast<int64_t>(p)};
    }
  }
  const std::map<std::string, Place>& places() const { return places_; }

  // The model's name of an array of the files; empty: none. The names may differ in endings and in the prefix, and a
  // tied weight may have the name of either tensor.
  std::string own_name(std::string name) const {
    for (const auto& [theirs, ours] : names_.endings)
      if (name.ends_with(theirs)) name.replace(name.size() - theirs.size(), theirs.size(), ours);
    std::vector<std::string> forms{name};
    if (!names_.prefix.empty())
      forms.push_back(name.starts_with(names_.prefix) ? name.substr(names_.prefix.size()) : names_.prefix + name);
    for (const std::string& form : forms) {
      if (places_.contains(form)) return form;
      const auto tied = names_.same.find(form);
      if (tied != names_.same.end() && places_.contains(tied->second)) return tied->second;
    }
    return "";
  }

  // An array that a model of this family may have beside those of this one.
  bool of_a_head(const std::string& name) const {
    return begins_with_any(name, names_.heads) ||
           (name.starts_with(names_.prefix) && begins_with_any(name.substr(names_.prefix.size()), names_.heads));
  }
  bool is_unused(const std::string& name) const {
    return std::any_of(names_.unused.begin(), names_.unused.end(),
                       [&](const std::string& ending) { return name.ends_with(ending); });
  }
  // "fc.weight.momentum" of "fc.weight".
  bool is_state_of_parameter(const std::string& name) const {
    const std::size_t dot = name.rfind('.');
    return name == "optimizer.step" ||
           (dot != std::string::npos && (own_.contains(name.substr(0, dot)) || !own_name(name.substr(0, dot)).empty()));
  }

 private:
  const WeightNames& names_;
  std::set<std::string> own_;            // the graph's names
  std::map<std::string, Place> places_;  // by the files' names, as the model has them
};

// A tensor's parts, one after another along a new first axis.
Values stacked(const std::vector<Values>& parts) {
  Values whole{parts[0].dtype, parts[0].shape, {}, {}};
  whole.shape.insert(whole.shape.begin(), static_cast<int64_t>(parts.size()));
  for (const Values& part : parts) {
    whole.real.insert(whole.real.end(), part.real.begin(), part.real.end());
    whole.integer.insert(whole.integer.end(), part.integer.begin(), part.integer.end());
  }
  return whole;
}

Shape part_shape(const Tensor& tensor, int64_t part) {
  return part < 0 ? tensor.shape : Shape(tensor.shape.begin() + 1, tensor.shape.end());
}

}  // namespace

namespace {

// The files' arrays, sorted by their role in the model.
struct Sorted {
  std::map<std::string, std::string> found;                      // the model's name -> the files'
  std::vector<std::pair<std::string, std::string>> found_again;  // tied weights that the files have twice, likewise
  std::vector<std::string> needed;                               // the files' names of all these
  std::vector<std::string> superfluous, states, heads;
};

Sorted sorted(const std::vector<std::string>& names, const Matcher& matcher) {
  Sorted s;
  for (const std::string& theirs : names) {
    const std::string ours = matcher.own_name(theirs);
    if (!ours.empty()) {
      const auto [first, fresh] = s.found.emplace(ours, theirs);
      if (!fresh) {
        s.found_again.emplace_back(ours, theirs);
        if (theirs == ours) std::swap(first->second, s.found_again.back().second);
      }
      s.needed.push_back(theirs);
    } else if (matcher.is_unused(theirs)) {
      continue;
    } else if (matcher.is_state_of_parameter(theirs)) {
      s.states.push_back(theirs);
    } else {
      (matcher.of_a_head(theirs) ? s.heads : s.superfluous).push_back(theirs);
    }
  }
  return s;
}

// Parameters without values of their own that the files lack: those of a head start at random, others must be there.
struct Lacking {
  std::vector<std::string> missing, fresh_heads;
};
Lacking lacking(const Graph& graph, const Matcher& matcher, const Sorted& sorted) {
  Lacking l;
  for (const auto& [name, place] : matcher.places()) {
    const Tensor& tensor = graph.tensor(place.tensor);
    if (sorted.found.contains(name) || tensor.role != Role::kParameter || tensor.values) continue;
    (matcher.of_a_head(name) ? l.fresh_heads : l.missing).push_back(name);
  }
  return l;
}

// Arrays of another shape or kind than the model's, a text each.
std::vector<std::string> wrong_arrays(const Graph& graph, const Matcher& matcher, const Sorted& sorted,
                                      const StoredArrays& arrays) {
  std::vector<std::string> wrong;
  for (const std::string& theirs : sorted.needed) {
    const Place place = matcher.places().at(matcher.own_name(theirs));
    const Tensor& tensor = graph.tensor(place.tensor);
    const StoredArray& array = arrays.at(theirs);
    const Shape shape = part_shape(tensor, place.part);
    if (array.shape != shape)
      wrong.push_back(fmt::format("{} [{}], not [{}]", theirs, fmt::join(shape, ", "), fmt::join(array.shape, ", ")));
    else if (is_float(dtype_of(array.type)) != is_float(tensor.dtype))
      wrong.push_back(fmt::format("{} {}, not {}", theirs, name_of(tensor.dtype), name_of(dtype_of(array.type))));
  }
  return wrong;
}

Arrays values_of_found(const Graph& graph, const Matcher& matcher, const Sorted& sorted, const StoredArrays& arrays) {
  Arrays values;
  std::map<TensorId, std::vector<Values>> parts;
  for (const auto& [ours, theirs] : sorted.found) {
    const Place place = matcher.places().at(ours);
    const Tensor& tensor = graph.tensor(place.tensor);
    if (place.part < 0) {
      values[tensor.name] = read_array(arrays.at(theirs));
      continue;
    }
    std::vector<Values>& all = parts[place.tensor];
    all.resize(static_cast<std::size_t>(tensor.shape[0]));
    all[static_cast<std::size_t>(place.part)] = read_array(arrays.at(theirs));
  }
  for (auto& [tensor, all] : parts) values[graph.tensor(tensor).name] = stacked(all);
  return values;
}

}  // namespace

ModelWeights load_weights(const std::string& path, const Graph& graph, const WeightNames& names) {
  const WeightFiles files(path);
  const Matcher matcher(graph, names);
  const Sorted s = sorted(files.names(), matcher);
  const Lacking l = lacking(graph, matcher, s);
  const StoredArrays arrays = files.locate(s.needed);
  const std::vector<std::string> wrong = wrong_arrays(graph, matcher, s, arrays);
  std::string problems;
  if (!l.missing.empty()) problems += fmt::format("\n  missing: {}", listed(l.missing));
  if (!s.superfluous.empty()) problems += fmt::format("\n  not in the model: {}", listed(s.superfluous));
  if (!wrong.empty()) problems += fmt::format("\n  of another shape or kind; the model has: {}", listed(wrong));
  if (!problems.empty()) fail("{}: these are not the weights of model '{}':{}", files.path(), graph.name, problems);

  ModelWeights result;
  result.values = values_of_found(graph, matcher, s, arrays);
  for (const auto& [ours, theirs] : s.found_again)
    if (const Place place = matcher.places().at(ours);
        place.part < 0 && read_array(arrays.at(theirs)) != result.values.at(graph.tensor(place.tensor).name))
      fail("{}: '{}' and '{}' are one tensor in model '{}', and differ", files.path(), s.found.at(ours), theirs,
           graph.name);
  const auto note = [&](const char* what, const std::vector<std::string>& which) {
    if (!which.empty()) result.notes.push_back(fmt::format("{}: {}: {}", files.path(), what, listed(which)));
  };
  note("not used, the state of another optimizer", s.states);
  note("not used, of a head that the model lacks", s.heads);
  note("not there, and started at random", l.fresh_heads);
  return result;
}

Arrays to_file_layout(const Arrays& values, const WeightNames& names) {
  Arrays out;
  for (const auto& [name, whole] : values) {
    const auto parts = names.parts.find(name);
    if (parts == names.parts.end()) {
      const auto renamed = names.renamed.find(name);
      out[renamed != names.renamed.end() ? renamed->second : name] = whole;
      continue;
    }
    const std::size_t count = parts->second.size(), each = whole.real.size() / count;
    for (std::size_t p = 0; p < count; ++p) {
      Values part{whole.dtype, Shape(whole.shape.begin() + 1, whole.shape.end()), {}, {}};
      part.real.assign(whole.real.begin() + static_cast<std::ptrdiff_t>(p * each),
                       whole.real.begin() + static_cast<std::ptrdiff_t>((p + 1) * each));
      out[parts->second[p]] = std::move(part);
    }
  }
  return out;
}

}  // namespace partita
