// Prints certificates as JSON, and reads them.
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/json_nesting.h"
#include "partita/network/certificate.h"

namespace partita::solver {

namespace {

// There are millions of numbers: fmt::join takes several times as long.
template <typename Number>
void print_list(const std::vector<Number>& numbers, std::string& out) {
  out += '[';
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) out += ',';
    const fmt::format_int digits(numbers[i]);
    out.append(digits.data(), digits.size());
  }
  out += ']';
}

void print_to(const Certificate& c, std::string& out) {
  auto at = std::back_inserter(out);
  fmt::format_to(at, "\"bound\": {}", c.bound ? "\"" + to_string(*c.bound) + "\"" : "null");
  auto list = [&](const char* open, const auto& items, auto&& print) {
    out += open;
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) out += ",";
      print(item);
    }
    out += "]";
  };
  auto print_priced = [&](const Certificate::Leaf& leaf) {
    list(",\n   \"multipliers\": [", leaf.multipliers,
         [&](const auto& m) { fmt::format_to(at, "[{},{}]", m.time, m.value); });
    list(",\n   \"messages\": [", leaf.messages, [&](const auto& m) {
      out += "\n    {\"variables\": ";
      print_list(m.variables, out);
      list(", \"ends\": [", m.ends, [&](const auto& end) { print_list(end, out); });
      out += "}";
    });
  };
  if (!c.parts.empty()) {
    fmt::format_to(at, ",\n \"cut\": {{\"scale\": {}", c.cut.scale);
    print_priced(c.cut);
    list("},\n \"parts\": [", c.parts, [&](const Certificate::Part& part) {
      list("\n  {\"variables\": [", part.copies, [&](const auto& copy) { print_list(copy, out); });
      out += ", \"proof\": {";
      print_to(part.proof, out);
      out += "}}";
    });
    return;
  }
  if (!c.steps.empty())
    list(",\n \"steps\": [", c.steps, [&](const Certificate::Step& step) {
      fmt::format_to(at, "\n  {{\"scale\": {}", step.sweep.scale);
      print_priced(step.sweep);
      list(",\n   \"dominated\": [", step.dominated,
           [&](const auto& d) { fmt::format_to(at, "[{},{},{}]", d.variable, d.value, d.by); });
      out += "}";
    });
  list(",\n \"leaves\": [", c.leaves, [&](const Certificate::Leaf& leaf) {
    fmt::format_to(at, "\n  {{\"scale\": {},\n   ", leaf.scale);
    list("\"decisions\": [", leaf.decisions, [&](const auto& d) {
      fmt::format_to(at, "{{\"variable\": {}, \"values\": ", d.variable);
      print_list(d.values, out);
      out += "}";
    });
    if (!leaf.order.empty()) {
      out += ",\n   \"order\": ";
      print_list(leaf.order, out);
    }
    print_priced(leaf);
    out += "}";
  });
}

size_t message_values(const Certificate& c) {
  size_t values = 0;
  const auto add = [&](const Certificate::Leaf& leaf) {
    for (const Certificate::Message& m : leaf.messages)
      for (const auto& end : m.ends) values += end.size();
  };
  add(c.cut);
  for (const Certificate::Step& step : c.steps) add(step.sweep);
  for (const Certificate::Leaf& leaf : c.leaves) add(leaf);
  for (const Certificate::Part& part : c.parts) values += message_values(part.proof);
  return values;
}

}  // namespace

std::string print_certificate(const Certificate& c) {
  constexpr size_t kDigits = 12;  // of a value, with its comma, about
  std::string out;
  out.reserve(kDigits * message_values(c));
  out += "{\"schema_version\": 1, ";
  print_to(c, out);
  return out + "}\n";
}

namespace {

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Certificate certificate(const std::string& text) const {
    validate_json_depth(text, file_);
    Json json;
    try {
      json = Json::parse(text);
    } catch (const Json::exception& e) {
      fail("{}: is not JSON: {}", file_, e.what());
    }
    if (integer(member(json, "schema_version", "the certificate"), "schema_version") != 1)
      fail("{}: schema_version is not 1", file_);
    return certificate(json, "the certificate", "", 0);
  }

 private:
  using Json = nlohmann::json;

  // Reads a certificate `depth` parts deep. `within`: prefix of the names inside.
  Certificate certificate(const Json& json, const std::string& place, const std::string& within, int depth) const {
    Certificate c;
    if (const Json& bound = member(json, "bound", place); bound.is_string()) {
      c.bound = parse_wide(bound.get<std::string>());
      if (!c.bound) fail("{}: {}bound is not an integer of 128 bits", file_, within);
    } else if (!bound.is_null()) {
      c.bound = integer(bound, within + "bound");
    }
    if (json.contains("parts")) {
      if (depth > Certificate::kDeepest)
        fail("{}: {} is in parts itself; {} times over is the most", file_, place, Certificate::kDeepest);
      read_priced(member(json, "cut", place), within + "cut", c.cut);
      for (const Json& p : items(json["parts"], within + "parts")) {
        const std::string here = fmt::format("{}parts[{}]", within, c.parts.size());
        Certificate::Part part;
        for (const Json& copy : items(member(p, "variables", here), here + ".variables"))
          part.copies.push_back(numbers(copy, here + ".variables"));
        part.proof = certificate(member(p, "proof", here), here + ".proof", here + ".proof.", depth + 1);
        c.parts.push_back(std::move(part));
      }
      return c;
    }
    if (json.contains("steps"))
      for (const Json& s : items(json["steps"], within + "steps")) {
        Certificate::Step step;
        const std::string here = fmt::format("{}steps[{}]", within, c.steps.size()), dominated = here + ".dominated";
        read_priced(s, here, step.sweep);
        for (const Json& d : items(member(s, "dominated", here), dominated)) {
          if (!d.is_array() || d.size() != 3) fail("{}: {} holds what is not [variable, value, by]", file_, dominated);
          step.dominated.push_back({number(d[0], dominated), number(d[1], dominated), number(d[2], dominated)});
        }
        c.steps.push_back(std::move(step));
      }
    for (const Json& l : items(member(json, "leaves", place), within + "leaves")) {
      Certificate::Leaf leaf;
      const std::string here = fmt::format("{}leaves[{}]", within, c.leaves.size()), decisions = here + ".decisions";
      for (const Json& d : items(member(l, "decisions", here), decisions))
        leaf.decisions.push_back(
            {number(member(d, "variable", decisions), decisions), numbers(member(d, "values", decisions), decisions)});
      read_priced(l, here, leaf);
      if (l.contains("order")) leaf.order = numbers(l["order"], here + ".order");
      c.leaves.push_back(std::move(leaf));
    }
    return c;
  }

  void read_priced(const Json& json, const std::string& place, Certificate::Leaf& leaf) const {
    const std::string multipliers = place + ".multipliers", messages = place + ".messages";
    leaf.scale = integer(member(json, "scale", place), place + ".scale");
    for (const Json& m : items(member(json, "multipliers", place), multipliers)) {
      if (!m.is_array() || m.size() != 2) fail("{}: {} holds what is not [time, value]", file_, multipliers);
      leaf.multipliers.push_back({integer(m[0], multipliers), integer(m[1], multipliers)});
    }
    for (const Json& m : items(member(json, "messages", place), messages)) {
      Certificate::Message message{numbers(member(m, "variables", messages), messages), {}};
      for (const Json& end : items(member(m, "ends", messages), messages)) {
        message.ends.emplace_back();
        for (const Json& x : items(end, messages)) message.ends.back().push_back(integer(x, messages));
      }
      leaf.messages.push_back(std::move(message));
    }
  }

  const Json& member(const Json& object, const char* name, const std::string& place) const {
    if (!object.is_object() || !object.contains(name)) fail("{}: {} has no {}", file_, place, name);
    return object[name];
  }
  const Json& items(const Json& value, const std::string& place) const {
    if (!value.is_array()) fail("{}: {} is not a list", file_, place);
    return value;
  }
  int64_t integer(const Json& value, const std::string& place) const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
      fail("{}: {} is not an integer of 64 bits", file_, place);
    return value.get<int64_t>();
  }
  int number(const Json& value, const std::string& place) const {
    const int64_t number = integer(value, place);
    if (number < 0 || number > INT32_MAX) fail("{}: {} is out of range: {}", file_, place, number);
    return static_cast<int>(number);
  }
  std::vector<int> numbers(const Json& list, const std::string& place) const {
    std::vector<int> out;
    for (const Json& x : items(list, place)) out.push_back(number(x, place));
    return out;
  }

  const std::string& file_;
};

}  // namespace

Certificate parse_certificate(const std::string& text, const std::string& file) {
  return Reader(file).certificate(text);
}

}  // namespace partita::solver
