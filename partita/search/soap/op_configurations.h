// Defines FlexFlow's SOAP space (Jia et al., MLSys 2019, section 4) of one op, for searches. It has the indices along
// which the op may be split, and its finite set of configurations.
//
// An index can be split if it indexes a result. Its dimension follows from the formula and from the operands' kinds:
//   sample      runs along the samples
//   parameter   otherwise, if it indexes an operand that is a weight: a split of it splits the weight
//   attribute   the rest
// Contracted indices are none of these. Section 4's fourth dimension, operation, is that ops have different devices.
//
// Worked example: y[i, j] = sum(k) x[i, k] * w[k, j] with samples along i and the weight w is split along i (sample)
// and j (parameter). On 8 devices its degrees are those pairs of divisors of i and j whose product divides 8. These are
// (1,1), (1,2), (2,1), .. (8,1), 10 of them if 8 divides i and j. Every product has its blocks of devices, 40
// configurations in all. An op of three such indices has 66.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/rng.h"
#include "partita/graph/graph.h"

namespace partita {

enum class SoapDimension {
  kSample,
  kAttribute,
  kParameter,
  kContracted,  // indexes no result
  kWhole,       // cannot be split: an opaque function, or nothing, is indexed by it
  kCopies,      // no index: shards along it are the same (units_of_ops.h)
};
std::string_view name_of(SoapDimension dimension);  // "sample"

// Returns the dimension by index of the op's formula. Samples are where the graph's tensors have them. `weights`: by
// tensor, weight_tensor_mask() of graph/weight_products.h.
std::vector<SoapDimension> soap_dimensions(const Graph& graph, const std::vector<bool>& weights, const Op& op);
// The same for a formula alone, taken as a layer. Samples lie along axis 0 of the first operand that is read there at
// an index of a result alone. Operands without this index are weights.
std::vector<SoapDimension> soap_dimensions(const tdl::Bound& bound);

// The dimensions that a search may split: option `dimensions` of flexflow.
struct AllowedSoapDimensions {
  bool sample = true, operation = true, attribute = true, parameter = true;

  bool contains(SoapDimension dimension) const;  // copies go with any split
};
// "s", "o", "p", "sap", "soap"; bad usage names them.
AllowedSoapDimensions parse_soap_dimensions(std::string_view text);

// ---------------------------------------------------------------- blocks of devices

// The blocks of p of n devices, p a divisor of n. There are n/p aligned ones, [p b, p b + p), then n/p strided ones,
// device b and every (n/p)-th after it. If both are the same lists (p = 1, p = n), they are there once. 8 devices have
// 8 blocks of 1, 8 of 2, 4 of 4 and 1 of 8.
int64_t block_count(int64_t n, int64_t p);
std::vector<DeviceId> block_of(const std::vector<DeviceId>& devices, int64_t p, int64_t block);

// ---------------------------------------------------------------- configurations

constexpr int kSoapCopies = -1;  // stands for an index of the formula

// A split of an op, and its shards' devices: shard r, row-major over the degrees, is on devices[r]. A set has blocks; a
// plan takes any list of distinct devices (soap_plan.h).
struct SoapConfiguration {
  std::vector<int> degrees;  // one an index of the set
  std::vector<DeviceId> devices;
  auto operator<=>(const SoapConfiguration&) const = default;
};

// The configurations of an op, each once: every way to split its indices in equal shards, on every block of as many
// devices. A degree divides its index's extent, the product of all degrees divides the number of devices, and the split
// exists (TDL.md, rules 10 to 18). Without the operation dimension all ops have the first aligned block.
struct SoapSet {
  std::vector<int> indices;  // of the formula; kSoapCopies: copies
  std::vector<DeviceId> devices;
  bool operation = true;
  std::vector<std::vector<int>> degrees;  // in lexicographic order
  std::vector<int64_t> ends;              // configurations of the first so many degrees

  int64_t size() const { return ends.back(); }
  SoapConfiguration at(int64_t i) const;  // i < size()
  // Draws uniformly, independent of any plan: a proposal is as likely as its reverse.
  SoapConfiguration draw(Rng& rng) const { return at(static_cast<int64_t>(rng.below(static_cast<uint64_t>(size())))); }
};
// Returns the set. `open`: by index, whether it may be split; others have degree 1. `extents`: by index, numbers one of
// which its degree has to divide; empty: the index's own extent.
SoapSet soap_set(const tdl::Bound& bound, std::vector<int> indices, const std::vector<bool>& open,
                 std::vector<DeviceId> devices, bool operation, const std::vector<std::vector<int64_t>>& extents = {});

}  // namespace partita
