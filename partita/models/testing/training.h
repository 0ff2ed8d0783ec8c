// Makes the training step of a model of the zoo, for tests.
#pragma once
#include <string>

#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"

namespace partita {

inline const Optimizer kMomentum{.kind = "sgd", .lr = 0.01, .momentum = 0.9};

// `model`: NAME?option=value,.., with "zoo:" before it or without.
inline Graph training(const std::string& model, const Optimizer& optimizer = kMomentum) {
  const Model built = build_model(model.starts_with("zoo:") ? model : "zoo:" + model, {}, standard_ops());
  return add_backward(built.graph, built.loss, optimizer);
}

}  // namespace partita
