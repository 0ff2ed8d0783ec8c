// Fuzz target of files of pins: what is read is checked, and put into the graph.
// Seeds: tests/fuzz/targets/seeds/plan/*
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/plan/plan.h"
#include "tests/fuzz/targets/reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  static const Graph graph = training("mlp?layers=2,width=8,batch=8");
  static const Cluster cluster = load_cluster("local:4");
  return read_or_refuse([&] {
    const Pins pins = parse_pins(text_of(data, size), graph);
    verify(with_device_types(graph, pins));
    check_pins(graph, pins, cluster);
  });
}
