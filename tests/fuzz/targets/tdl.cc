// Fuzz target of a user's TDL: descriptions of operations are read, bound to shapes, and their strategies derived.
// Seeds: examples/*.tdl
#include "partita/tdl/tdl.h"

#include "partita/ops/ops.h"
#include "tests/fuzz/targets/reading.h"

namespace partita {
namespace {

void read_definition(std::string_view text) {
  const tdl::DefinitionPtr definition = tdl::parse(text);
  tdl::Attributes attributes;
  for (const std::string& name : tdl::attribute_names(*definition)) attributes[name] = 2;
  const tdl::Bound bound = tdl::bind(definition, tdl::example_shapes(*definition), attributes);
  (void)tdl::strategies(bound, 2);
}

}  // namespace
}  // namespace partita

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  const std::string_view text = text_of(data, size);
  read_or_refuse([&] { (void)ops_with(text); });
  return read_or_refuse([&] { read_definition(text); });
}
