// Reads instances.txt, and makes operands for its instances.
#include "partita/tdl/testing/instances.h"

#include <fstream>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/rng.h"

namespace partita::tdl::testing {

std::vector<Instance> read_instances(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail("{}: cannot be read", path);
  std::vector<Instance> result;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == ' ') {
      if (result.empty()) fail("{}:{}: a formula's continuation before any formula", path, number);
      result.back().text += "\n" + line;
      continue;
    }
    std::istringstream words(line);
    std::string kind, name, rest;
    words >> kind;
    if (kind == "op") {
      result.emplace_back();
      result.back().name = line.substr(3);
      continue;
    }
    if (result.empty()) fail("{}:{}: `{}` before any `op`", path, number, kind);
    Instance& instance = result.back();
    if (kind == "tdl") {
      instance.text = line.substr(4);
      continue;
    }
    words >> name;
    if (kind == "shape") {
      Shape shape;
      for (int64_t extent; words >> extent;) shape.push_back(extent);
      instance.shapes.emplace_back(name, shape);
    } else if (kind == "attr") {
      double value;
      words >> value;
      instance.attributes[name] = value;
    } else if (kind == "data") {
      std::getline(words, rest);
      instance.data[name] = rest.substr(1);
    } else {
      fail("{}:{}: `{}` is none of op, shape, attr, data, tdl", path, number, kind);
    }
  }
  return result;
}

const std::vector<Instance>& instances() {
  static const std::vector<Instance> kInstances =
      read_instances(PARTITA_SOURCE_DIR "/partita/tdl/testing/instances.txt");
  return kInstances;
}

const Instance& named(std::string_view name) {
  for (const Instance& i : instances())
    if (i.name == name) return i;
  ensure(false, "no operator instance is named '{}'", name);
  return instances().front();
}

Bound bind(const Instance& instance) {
  std::vector<Shape> shapes;
  for (const auto& [name, shape] : instance.shapes) shapes.push_back(shape);
  return tdl::bind(instance.text, shapes, instance.attributes);
}

Array normal_array(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(volume(shape));
  for (double& v : values) v = rng.normal();
  return real_array(shape, std::move(values));
}

namespace {

// m m' + n I of random square matrices m.
void make_definite(Array& a) {
  int64_t n = a.shape.back();
  for (int64_t base = 0; base < volume(a.shape); base += n * n) {
    std::vector<double> m(a.reals.begin() + base, a.reals.begin() + base + n * n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double s = i == j ? static_cast<double>(n) : 0;
        for (int64_t k = 0; k < n; ++k) s += m[i * n + k] * m[j * n + k];
        a.reals[base + i * n + j] = s;
      }
  }
}

}  // namespace

std::vector<Array> operands(const Instance& instance, uint64_t seed) {
  std::vector<Array> result;
  for (const auto& [name, shape] : instance.shapes) {
    Rng rng(seed ^ hash_name(name));
    Array array = normal_array(shape, rng.next());
    if (auto it = instance.data.find(name); it != instance.data.end()) {
      std::istringstream words(it->second);
      std::string rule;
      words >> rule;
      std::vector<double> values;
      for (double v; words >> v;) values.push_back(v);
      if (rule == "ints") {
        std::vector<int64_t> ints(volume(shape));
        for (int64_t& v : ints) v = static_cast<int64_t>(rng.below(static_cast<uint64_t>(values.at(0))));
        array = int_array(shape, std::move(ints));
      } else if (rule == "real") {
        for (size_t i = 0; i < array.reals.size(); ++i) array.reals[i] = values.at(std::min(i, values.size() - 1));
      } else if (rule == "below") {
        for (double& v : array.reals) v = values.at(0) - rng.uniform();
      } else if (rule == "spd") {
        make_definite(array);
      } else {
        fail("instance {}: no rule `{}`", instance.name, rule);
      }
    }
    result.push_back(std::move(array));
  }
  return result;
}

}  // namespace partita::tdl::testing
