// Reads objects of our own JSON files strictly: every key is known, every value has the requested type.
#pragma once
#include <algorithm>
#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/error.h"

namespace partita {

// Tells whether a value has a type without conversion. (nlohmann's own conversion rounds 0.5 to 0, takes true for 1 and
// wraps large numbers.)
template <typename T>
bool is_a(const nlohmann::ordered_json& json) {
  if constexpr (std::is_same_v<T, std::string>) {
    return json.is_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    return json.is_boolean();
  } else if constexpr (std::is_floating_point_v<T>) {
    return json.is_number();
  } else if constexpr (std::is_integral_v<T>) {
    if (json.is_number_unsigned()) return std::in_range<T>(json.get<uint64_t>());
    return json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
  } else if constexpr (requires { typename T::mapped_type; }) {
    return json.is_object() &&
           std::all_of(json.begin(), json.end(), [](const auto& e) { return is_a<typename T::mapped_type>(e); });
  } else {
    return json.is_array() &&
           std::all_of(json.begin(), json.end(), [](const auto& e) { return is_a<typename T::value_type>(e); });
  }
}

// Reads one object; every key must be asked for. `where` begins the messages of bad input: "plan: model".
class Fields {
 public:
  using Json = nlohmann::ordered_json;
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("{}: expected an object, found {}", where_, json.type_name());
  }
  const Json* optional(const std::string& key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
    auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json& get(const std::string& key) {
    const Json* found = optional(key);
    if (!found) fail("{}: the field '{}' is missing", where_, key);
    return *found;
  }
  template <typename T>
  T value(const std::string& key) {
    const Json& found = get(key);
    if (!is_a<T>(found))
      fail("{}: the field '{}' has the wrong type or range: {}", where_, key,
           found.dump(-1, ' ', false, Json::error_handler_t::replace));
    return found.get<T>();
  }
  template <typename T>
  T value_or(const std::string& key, T otherwise) {
    return optional(key) ? value<T>(key) : otherwise;
  }
  const Json& object(const std::string& key) {
    const Json& found = get(key);
    if (!found.is_object()) fail("{}: the field '{}' is an object, not {}", where_, key, found.type_name());
    return found;
  }
  void done() {
    for (const auto& [key, value] : json_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        fail("{}: unknown field '{}'; known are: {}", where_, key, fmt::join(known_, ", "));
  }

 private:
  const Json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

// Parses an object. Bad input, with a message that begins with `what`: no JSON object, two entries of one name in an
// object, deep nesting.
nlohmann::ordered_json parse_json_object(std::string_view text, std::string_view what);

}  // namespace partita
