// Parses JSON of our own files.
#include "partita/base/json_fields.h"

#include <set>

#include "partita/base/json_nesting.h"

namespace partita {

nlohmann::ordered_json parse_json_object(std::string_view text, std::string_view what) {
  using Json = nlohmann::ordered_json;
  expect_shallow_json(text, what);
  std::vector<std::set<std::string>> open;  // keys of the objects that enclose the place
  const auto once = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      fail("{}: '{}' stands twice in one object", what, parsed.get<std::string>());
    return true;
  };
  try {
    Json json = Json::parse(text, once);
    if (!json.is_object()) fail("{}: not a JSON object", what);
    return json;
  } catch (const nlohmann::json::exception& e) {
    fail("{}: not JSON: {}", what, e.what());
  }
}

}  // namespace partita
