// Counts the brackets of a JSON text outside strings.
#include "partita/base/json_nesting.h"

#include "partita/base/error.h"

namespace partita {

void validate_json_depth(std::string_view json, std::string_view what) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') ++i;
    else if (c == '"') in_string = !in_string;
    else if (in_string) continue;
    else if (c == '{' || c == '[') ++depth;
    else if (c == '}' || c == ']') --depth;
    if (depth > kDeepestJson)
      fail("{}: byte {}: lists and objects are nested deeper than {}, which no file of this kind needs", what, i + 1,
           kDeepestJson);
  }
}

}  // namespace partita
