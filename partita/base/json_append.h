// Builds large JSON objects, entry by entry.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace partita {

// Adds an entry under a name that the object does not have yet. (json[name] looks at all entries.)
inline void append(nlohmann::ordered_json& object, std::string name, nlohmann::ordered_json value) {
  object.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(std::move(name), std::move(value));
}

}  // namespace partita
