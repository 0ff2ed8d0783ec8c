// Fuzz target of files of pins: they are checked, and put into the graph.
// Seeds: tests/fuzz/targets/seeds/plan/*
#include "partita/models/testing/training.h"
#include "partita/plan/constraints.h"
#include "tests/fuzz/targets/reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  static const Graph graph = training("mlp?layers=2,width=8,batch=8");
  static const Cluster cluster = load_cluster("local:4");
  return read_or_refuse([&] { verify(constrain(graph, parse_pins(text_of(data, size), graph), cluster).graph); });
}
