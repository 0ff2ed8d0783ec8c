// Makes a plan as the program does, without output, for tests.
#pragma once
#include <string>

#include "partita/pipeline/pipeline.h"

namespace partita {

inline Planned planned(const std::string& model, const std::string& search, const std::string& cluster,
                       const Optimizer& optimizer = {"sgd", 0.01, 0.9, 0}) {
  Request request;
  request.model = model;
  request.search = search;
  request.cluster = cluster;
  request.optimizer = optimizer;
  Runner runner(false);
  return plan_model(request, runner);
}

}  // namespace partita
