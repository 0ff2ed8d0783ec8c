// Makes every model of the zoo, cut down to a few layers of few units by its own options, for tests. A model that is
// added to the zoo is among them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "partita/pipeline/pipeline.h"

namespace partita {

struct SmallModel {
  std::string reference;  // of the first with this graph: wresnet-152-4 is wresnet-50-4 when cut down
  LoadedModel model;
  Graph training;  // one step of SGD with momentum, its axes factored, as the program plans it
};

// The different graphs of all models; only models whose name `wanted` accepts, if it is given.
std::vector<SmallModel> small_zoo(const std::function<bool(const std::string& name)>& wanted = {});
// Makes the model of a reference with options of its own.
SmallModel small_model(const std::string& reference);

}  // namespace partita
