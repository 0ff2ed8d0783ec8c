// Prints JSON, timings and notes alike for all commands.
#include "partita/cli/output.h"

#include <cmath>
#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/tell.h"

namespace partita {

using Json = nlohmann::ordered_json;

Json without_missing(Json json) {
  if (json.is_object()) {
    for (auto field = json.begin(); field != json.end();) {
      if (field->is_number_float() && !std::isfinite(field->get<double>())) field = json.erase(field);
      else ++field;
    }
  }
  if (json.is_structured())
    for (Json& inner : json) inner = without_missing(std::move(inner));
  return json;
}

void print_json(Json json) {
  Json out = {{"schema_version", 1}};
  out.update(without_missing(std::move(json)));
  fmt::print("{}\n", out.dump(2));
}

void print_timings(const Runner& runner, const Arguments& a) {
  if (!a.verbose) return;
  for (const Runner::Timing& t : runner.timings())
    tell("{:<12} {:9.3f} ms, verified in {:.3f} ms", t.name, t.seconds * 1e3, t.verify_seconds * 1e3);
}

void print_training_notes(const OnnxFindings& findings) {
  for (const std::string& note : training_notes(findings)) tell("{}", note);
}

void print_shape_notes(const OnnxFindings& findings) {
  for (const std::string& note : shape_notes(findings)) fmt::print(stderr, "{}\n", note);
}

}  // namespace partita
