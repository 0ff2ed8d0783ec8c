// Boxing: conversions of a tensor from one Layout to another, as steps, with their bytes counted from the boxes
// (the table and rules of docs/ARCHITECTURE.md section 4).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "partita/base/shared_list.h"
#include "partita/cluster/cluster.h"
#include "partita/sharding/layout.h"

namespace partita {

enum class StepKind {
  kLocal,          // each position makes its new box from its own old one: slice, or P's identity; no bytes
  kAllReduce,      // P -> B
  kReduceScatter,  // P -> S
  kAllGather,      // S -> B
  kAllToAll,       // S -> S
  kFetch,          // exactly the missing boxes, point to point (Tofu's MultiFetch)
};
std::string_view name_of(StepKind kind);  // "all-reduce"

// One box that a position takes from another, or from what its own device holds. A box over Step::radices.
struct Piece {
  int source = 0;  // position in `from`
  int target = 0;  // position in `to`
  Box box;
  bool operator==(const Piece&) const = default;
};

// Devices whose part of a step is listed, by DeviceId: the pieces that they take, the groups that they are in. Null:
// all are. What is counted is counted of all.
using Listed = std::shared_ptr<const std::vector<char>>;

struct Step {
  StepKind kind = StepKind::kLocal;
  Layout from, to;
  // Collectives: the positions of each group, in ring order; each group runs by itself, and all are as large. Position
  // r holds the shard that the layouts say.
  std::vector<std::vector<int>> groups;
  // kFetch and kLocal: all that a target is made of, ordered by target. Where source and target are on one device
  // nothing moves; for kLocal that is all of them. The first piece on an element is copied, a later one combined with
  // from.reducer() (one piece from each member of a partial group, in the group's order); an element without a piece is
  // the identity of to.reducer().
  std::vector<Piece> pieces;
  // The factoring that the pieces' boxes are over: both layouts' own if they agree, else a common refinement, else one
  // digit a stored axis. In either shard a piece is one strided box.
  std::vector<Shape> radices;
  int64_t bytes = 0;  // moved between devices, all together
};

struct Conversion {
  Layout from, to;
  SharedList<Step> steps;  // empty: each position already holds its box (`from` and `to` list the same devices)
  int64_t bytes = 0;
};

// The cheapest conversion in bytes, then in number of steps that move any, then collectives before fetches, then in
// number of steps. On one mesh: a path of steps over its axes (over more than three axes: the cheapest that a bounded
// search finds); between two: steps on the first, one fetch, steps on the second, whichever is cheapest. What isn't
// partial is always one step, since nobody can receive less than what it lacks. The members of a partial group of
// either layout hold equal boxes.
Conversion convert(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster,
                   const Listed& listed = nullptr);
// One fetch, whatever the layouts: over one mesh, disjoint or overlapping ones. A box comes from the holder with the
// fastest route; ties are spread by the reader's position modulo the number tied.
Step fetch(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster,
           const Listed& listed = nullptr);
int64_t fetch_bytes(const Layout& from, const Layout& to, int64_t element_bytes,
                    const Cluster& cluster);  // without building it
// How a position of a local step or a fetch gets its box: nothing is done where it is a view of what the reader's
// device holds in one piece. Elements that one piece covers are copied into their place; where pieces overlap (partial
// sources) or leave gaps (partial results; an empty box too has a task that readers wait for), remote ones are staged
// and all of them combined.
struct Target {
  std::vector<const Piece*> pieces;  // of the step; those that are not empty
  bool view = false, combine = false;
};
std::vector<Target> targets_of(const Step& step);  // by position of step.to, whose boxes are over step.radices
std::vector<Target> targets_of(const Step& step, const std::vector<int>& positions);  // of these, ascending

// What convert() would move, without building the steps; for searches.
int64_t conversion_bytes(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster);

// Of layouts on one mesh and over one factoring. Makes every axis as short as the mesh has positions where that divides
// it, and all boxes' ends on it: whatever a conversion between these layouts cuts, it cuts evenly there, so that what
// it moves is as many times less as the product of what was divided by: returned.
int64_t shorten(std::vector<Layout>& layouts);

class Counter;

// convert() and conversion_bytes() with a memory, for searches: the same two layouts are looked at once. Not
// thread-safe.
class Converter {
 public:
  explicit Converter(const Cluster& cluster, Listed listed = nullptr);
  ~Converter();
  const Conversion& convert(const Layout& from, const Layout& to, int64_t element_bytes);
  int64_t bytes(const Layout& from, const Layout& to, int64_t element_bytes);
  // Layouts by number, equal ones by the same; those that convert() goes through, both ends included, over a common
  // factoring (empty: nothing to do); and the step from one of these to the next.
  int number(const Layout& layout);
  std::vector<int> through(int from, int to);
  Step step(int from, int to, int64_t element_bytes) const;
  // From each of `from` to each of `to`, places in `layouts`: row-major. What layouts have in common is looked at once,
  // and once for all shapes that differ in nothing but how long their evenly split axes are.
  std::vector<int64_t> table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                             const std::vector<int>& to, int64_t element_bytes);
  int64_t inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                      int64_t element_bytes);  // as below

 private:
  class Ways;
  class Keys;
  struct Numbered;
  // Of layouts of one mesh and one factoring.
  std::vector<int64_t> alike_table(std::vector<Layout> layouts, const std::vector<int>& from,
                                   const std::vector<int>& to, int64_t element_bytes);
  Ways& ways_of(const Layout& partial);

  std::unique_ptr<Counter> counter_;
  std::unordered_map<std::string, Conversion> conversions_;
  std::unordered_map<std::string, int64_t> bytes_;   // for elements of one byte
  std::unordered_map<std::string, int64_t> guided_;  // elements, of those that table() has on meshes of many axes
  std::unordered_map<std::string, std::unique_ptr<Ways>> ways_;  // by mesh, factoring and reducer
  std::unique_ptr<Keys> keys_;
  std::unique_ptr<Numbered> numbered_;
};

// Calls go(which, from, to) for each conversion that a strategy's own inner steps are made of, in order; `which`: the
// place in derived.inner.
void for_each_inner_conversion(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                               const std::function<void(size_t which, const Layout& from, const Layout& to)>& go);
// A strategy's own inner steps, one conversion for each of derived.inner, in order: a stage made whole (all-reduce),
// then the inner halo, if any.
std::vector<Conversion> inner_conversions(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                                          int64_t element_bytes, Converter& converter);
// What they move, all together.
int64_t inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element_bytes,
                    const Cluster& cluster);

}  // namespace partita
