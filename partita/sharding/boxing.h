// Converts a tensor from one Layout to another, as steps (boxing: OneFlow section 3). Bytes are counted from the boxes.
// The table and the rules are in docs/ARCHITECTURE.md section 4.
//
// Example: a 4x6 tensor of 4-byte elements, |T| = 96 bytes, on 2 devices of one mesh.
//   S(0) -> B     one all-gather: each device lacks half, (p-1) |T| = 96 bytes
//   P -> B        one all-reduce, 2 (p-1) |T| = 192 bytes, or a reduce-scatter and an all-gather, as many: the one step
//   P -> S(1)     one reduce-scatter, (p-1) |T| = 96 bytes
//   B -> S(0)     a local slice, no bytes
//   rows [0,2) and [2,4) -> rows [0,3) and [1,4)     one fetch: a row of 24 bytes each way, 48 bytes
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/sharding/layout.h"
#include "partita/sharding/step.h"

namespace partita {

// Finds the cheapest conversion: fewest bytes, then fewest steps that move any, then collectives before fetches, then
// fewest steps. On one mesh it is a path of steps over the mesh's axes; on more than three axes a bounded search finds
// it. Between two meshes it is steps on the first, one fetch, and steps on the second. Values that are not partial take
// one step, since nobody can receive less than it lacks. The members of a partial group of either layout hold equal
// boxes.
Conversion convert(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster,
                   const DeviceMask& device_mask = nullptr);
// The bytes of convert(), without building the steps.
int64_t conversion_bytes(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster);

// Makes one fetch between any two layouts: over one mesh, disjoint meshes or meshes that overlap. A box comes from the
// holder with the fastest route. The k holders that tie are taken in turn: a reader at position r takes the (r mod
// k)-th.
Step fetch(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster,
           const DeviceMask& device_mask = nullptr);

// Shortens axes of layouts, which share a mesh and a factoring, without changing how conversions cut them. An axis
// becomes as long as the mesh has positions, if that divides it and all boxes end at multiples. Returns the factor for
// bytes. Example: 1024 rows cut into halves on 4 positions become 4 rows; returns 256.
int64_t shorten(std::vector<Layout>& layouts);

struct ConverterMemory;

// convert() and conversion_bytes() with a memory, for searches: each pair of layouts is computed once. Not thread-safe.
class Converter {
 public:
  explicit Converter(const Cluster& cluster, DeviceMask device_mask = nullptr);
  ~Converter();
  const Conversion& convert(const Layout& from, const Layout& to, int64_t element_bytes);
  int64_t bytes(const Layout& from, const Layout& to, int64_t element_bytes);
  // The bytes from each of `from` to each of `to`, which are places in `layouts`: row-major. Tensors that differ only
  // in the lengths of evenly split axes share one computation.
  std::vector<int64_t> table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                             const std::vector<int>& to, int64_t element_bytes);
  int64_t inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                      int64_t element_bytes);  // of inner_conversions() below

  // Numbers layouts; equal layouts have the same number.
  int number(const Layout& layout);
  // The layouts on convert()'s path, both ends included, over a common factoring. Empty if there is nothing to do.
  std::vector<int> through(int from, int to);
  // The step between two neighbours on such a path.
  Step step(int from, int to, int64_t element_bytes) const;

 private:
  std::unique_ptr<ConverterMemory> memory_;
};

// Calls go(which, from, to) for each conversion inside an op under a strategy, in order; derived.inner[which] is the
// inner step that it belongs to. An inner step makes a stage whole (all-reduce), fetches an inner halo, or both.
void for_each_inner_conversion(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                               const std::function<void(size_t which, const Layout& from, const Layout& to)>& go);
// Returns one conversion for each of derived.inner, in order.
std::vector<Conversion> inner_conversions(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                                          int64_t element_bytes, Converter& converter);
// Their bytes, summed.
int64_t inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element_bytes,
                    const Cluster& cluster);

}  // namespace partita
