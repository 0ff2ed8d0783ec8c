// Finds where a tensor has its samples, and how an op made for some number of samples takes another number, for
// rebatch. Both come from the op's formula. An index keeps samples apart if it runs along the samples of every operand
// that has them, and along one axis of the result.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// Samples are one digit of an axis, which is a mixed-radix number of (outer, sample, inner). An axis of its own has
// outer = inner = 1; batch x heads has inner = heads.
struct SamplePlace {
  std::size_t axis = 0;
  int64_t outer = 1, inner = 1;
  int64_t extent(int64_t samples) const { return outer * samples * inner; }
  auto operator<=>(const SamplePlace&) const = default;
};
// One a tensor; none if it is the same for all samples.
using SamplePlaces = std::vector<std::optional<SamplePlace>>;

// A shape with `samples` at the place, if there is a place.
Shape with_samples(Shape shape, const std::optional<SamplePlace>& place, int64_t samples);

// The number of a stored axis among the axes of a formula's accesses, which count factored axes several times (TDL.md
// rule 4). None if the axis is factored.
std::optional<std::size_t> only_digit(const tdl::BoundTensor& tensor, std::size_t axis);

// An op made for another number of samples.
struct Lifted {
  enum class Form {
    kItself,   // the same definition; entry `entry` of its attribute list `list` is the extent of an axis of samples
    kReshape,  // a reshape to the results' new shape
    kGather,   // a gather along the axis of the samples: every sample's numbers are counted from its own first place
  } form = Form::kItself;
  SamplePlaces operands;  // where each operand must have its samples; one that has none is copied for each sample
  std::string list;
  std::size_t entry = 0;
  SamplePlaces results;
};

// Lists where samples can lie after a reshape of `from` to `to`, the best first. With one sample there may be several.
std::vector<SamplePlace> reshaped_places(const Shape& from, const SamplePlace& place, const Shape& to, int64_t samples);

// Makes the op for `samples`, with its operands' samples at these places; none, and why, if its formula mixes samples.
// If no operand has any, its first result has them at `fresh`, as with a broadcast.
std::optional<Lifted> lift_itself(const Graph& graph, const Op& op, const SamplePlaces& operands, int64_t samples,
                                  const std::optional<SamplePlace>& fresh, std::string& why);

// Finds operands without samples that the formula reads at the samples' index, with their places; none otherwise.
SamplePlaces needed_copies(const Graph& graph, const Op& op, const SamplePlaces& operands, int64_t samples);

}  // namespace partita
