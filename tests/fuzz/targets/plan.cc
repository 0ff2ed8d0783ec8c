// Fuzz target of plan files: reads a plan, prints and reads it again as the same plan, and checks it.
#include "partita/plan/plan.h"

#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "tests/fuzz/targets/reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  static const Graph graph = training("mlp?layers=2,width=8,batch=8");
  static const Cluster cluster = load_cluster("local:4");
  const std::string_view text = text_of(data, size);
  read_or_refuse([&] { (void)parse_model_reference(text); });
  return read_or_refuse([&] {
    const Plan plan = parse_plan(text, graph);
    ensure(parse_plan(print(plan, graph), graph) == plan, "a printed plan is read as another one");
    (void)check(graph, plan, cluster);
  });
}
