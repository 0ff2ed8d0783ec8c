// Draws configurations of FlexFlow's space, for tests: from the sets of units, and of any degrees on any list of
// devices, which no search draws.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "partita/base/rng.h"
#include "partita/search/soap/soap_plan.h"

namespace partita {

// The paper's six networks (section 8.1), cut down; extents have several divisors. Their batches are to have 12
// samples.
inline const char* const kSoapModels[] = {
    "alexnet?image=67,classes=12,hidden=96",           "inception-v3?image=75,blocks=2,classes=6",
    "resnet-101?image=32,classes=6,blocks=1,width=12", "rnntc?steps=3,layers=2,hidden=12,vocabulary=20,classes=4",
    "rnnlm?steps=3,layers=2,hidden=12,vocabulary=24",  "nmt?steps=3,layers=1,hidden=12,vocabulary=24"};

// Any degrees that the extents allow, on any devices in any order.
inline SoapConfiguration any_configuration(const tdl::Bound& bound, const SoapUnit& unit, std::vector<DeviceId> devices,
                                           Rng& rng) {
  SoapConfiguration c{std::vector<int>(unit.indices.size(), 1), {}};
  int64_t left = rng.between(1, static_cast<int64_t>(devices.size())), parts = 1;
  std::vector<size_t> turns(unit.indices.size());
  std::iota(turns.begin(), turns.end(), size_t{0});
  rng.shuffle(turns);
  for (const size_t d : turns) {
    const int64_t extent = bound.indices[static_cast<size_t>(unit.indices[d])].extent;
    c.degrees[d] = static_cast<int>(rng.between(1, std::min(left, extent)));
    left /= c.degrees[d];
    parts *= c.degrees[d];
  }
  rng.shuffle(devices);
  c.devices.assign(devices.begin(), devices.begin() + parts);
  return c;
}

// One drawn from each unit's set.
inline std::vector<SoapConfiguration> random_configurations(const std::vector<SoapSet>& sets, Rng& rng) {
  std::vector<SoapConfiguration> out;
  for (const SoapSet& set : sets) out.push_back(set.draw(rng));
  return out;
}

}  // namespace partita
