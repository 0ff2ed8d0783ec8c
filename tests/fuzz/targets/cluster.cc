// Fuzz target of cluster files: YAML that describes devices and links.
// Seeds: tests/data/cases/*/*.yaml
#include "partita/cluster/cluster.h"

#include "tests/fuzz/targets/reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  return read_or_refuse([&] { (void)parse_cluster(text_of(data, size), "cluster.yaml"); });
}
