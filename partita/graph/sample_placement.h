// Finds where every tensor of a graph has its samples, and how every op takes them: the first half of rebatched().
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/graph/rebatch.h"
#include "partita/graph/samples.h"

namespace partita {

// A tensor [outer * samples * inner at the axis] as [before, samples, inner, after].
struct SampleDigits {
  int64_t before = 1, inner = 1;
  SampleDigits(const Shape& shape, const SamplePlace& place) : before(place.outer), inner(place.inner) {
    for (std::size_t a = 0; a < place.axis; ++a) before *= shape[a];
    for (std::size_t a = place.axis + 1; a < shape.size(); ++a) inner *= shape[a];
  }
};

// Finds where every tensor has its samples, and how every op takes them.
class SamplePlacement {
 public:
  SamplePlacement(const Graph& graph, const std::map<TensorId, std::size_t>& inputs, int64_t from);

  SamplePlaces places;
  std::vector<std::optional<Lifted>> lifted;  // none: the op has no samples
  OpId refused_by;
  std::string why;
  std::size_t furthest = 0;  // how far the search came before a refusal: ops, then outputs

  // Goes through the ops, then the outputs, one by one. If one has no way, the last reshape before it with another
  // place left takes that place. Returns false with the refused op, or with none for an output. `strict`: outputs begin
  // with the samples. `alike`: equal reshapes of samples at the same place take the same place, as those of all time
  // steps and layers do.
  bool find(bool strict, bool alike, Unreached unreached);

  // Where an output has its samples: along an axis of their own, or along axis 0, those of one run after those of
  // another.
  std::optional<SamplePlace> output_place(TensorId id, bool strict, Unreached unreached) const;
  SamplePlaces operands_of(const Op& op) const;

  // How the op of a tensor without samples gives it samples at `place`, an equal copy for each. None if it has no op,
  // or its values differ along the would-be samples.
  std::optional<Lifted> copied(TensorId id, const SamplePlace& place) const;
  bool can_copy(TensorId id, const SamplePlace& place) const;

 private:
  struct Decision {  // of a reshape, and of those like it
    std::size_t op;  // the first of these reshapes
    std::vector<Lifted> ways;
    std::size_t taken = 0;
  };

  bool has_its_samples(TensorId output, bool strict, Unreached unreached) const;

  // Tells whether a decision is about this reshape.
  bool is_about(const Decision& d, std::size_t op, const SamplePlace& place, bool alike) const;
  const Lifted& decided(std::vector<Decision>& decisions, std::size_t op, std::vector<Lifted> ways, bool alike) const;
  void take(std::size_t op, const Lifted& way);
  void refuse(std::size_t i, const std::string& reason);

  // The last decision with a way left that these tensors depend on.
  std::optional<std::size_t> last_before(const std::vector<Decision>& decisions,
                                         const std::vector<TensorId>& tensors) const;

  // All ways in which an op can take its operands' samples; empty, and why.
  std::vector<Lifted> ways_of(const Op& op, std::string& reason);
  std::optional<Lifted> with_copies(const Op& op, SamplePlaces operands, std::string& reason) const;
  std::vector<Lifted> reshapes(const Op& op, const SamplePlace& place, std::string& reason) const;
  std::optional<Lifted> copied_reshape(const Op& op, const SamplePlace& place) const;

  // A gather along the axis of the samples. The ids of one sample are places in that sample's data. Constant ids of
  // several samples must name, for each sample, the same places in its own data.
  std::optional<Lifted> gather(const Op& op, const SamplePlaces& operands) const;

  // Tells whether sample s of `from` has the ids s * each + k, with the same k for all.
  bool names_own_places(const Values& ids, std::size_t axis, int64_t each) const;
  bool has_equal_samples(const Values& values, const SamplePlace& place) const;

  struct Known {  // of equal ops whose operands have their samples at the same places
    std::optional<Lifted> way;
    std::string why;
  };
  const Graph& graph_;
  const int64_t from_;
  const std::vector<char> of_inputs_;  // by tensor: some input reaches it
  std::map<std::pair<const tdl::Bound*, SamplePlaces>, Known> known_;
};

}  // namespace partita
