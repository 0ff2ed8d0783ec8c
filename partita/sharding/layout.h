// Defines the sharding of a tensor: Sbp names (OneFlow section 3), meshes, and Layouts, which are the truth
// (docs/ARCHITECTURE.md section 4).
//
// Example: [S(0), P(sum)] of a 4x6 tensor on the mesh 2x2 [0, 1, 2, 3]. Devices 0 and 1 have rows [0,2), devices 2 and
// 3 rows [2,4), all six columns. The values of devices 0 and 1 add up to those rows' elements.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/boxes.h"
#include "partita/base/ids.h"
#include "partita/base/shared_list.h"
#include "partita/tdl/tdl.h"

namespace partita {

// The action of one mesh axis on a tensor: S(axis) splits, B replicates, P(reducer) holds partial values. S(axis.sub)
// splits a sub-axis of a factored axis; S(axis) is its sub-axis 0.
struct Sbp {
  enum class Kind { kSplit, kBroadcast, kPartial } kind = Kind::kBroadcast;
  int axis = 0;                               // kSplit: of the tensor as stored
  int sub_axis = 0;                           // kSplit: of that axis's radices; 0 if it is not factored
  tdl::Reducer reducer = tdl::Reducer::kSum;  // kPartial

  static Sbp split(int axis, int sub_axis = 0) { return {Kind::kSplit, axis, sub_axis, tdl::Reducer::kSum}; }
  static Sbp broadcast() { return {}; }
  static Sbp partial(tdl::Reducer r = tdl::Reducer::kSum) { return {Kind::kPartial, 0, 0, r}; }
  auto operator<=>(const Sbp&) const = default;
};
std::string to_string(const Sbp& sbp);  // "S(1)", "S(0.1)", "B", "P(sum)"
Sbp parse_sbp(std::string_view text);

// One Sbp per mesh axis, applied outermost first. Never partial values of two reducers.
using NdSbp = std::vector<Sbp>;
std::string to_string(const NdSbp& sbp);  // "[S(0), P(sum)]"
NdSbp parse_nd_sbp(std::string_view text);

// A shape over an ordered list of distinct devices; position r (row-major) is devices[r].
struct Mesh {
  std::vector<int> extents;  // {} and one device: a mesh without axes
  SharedList<DeviceId> devices;

  int positions() const { return static_cast<int>(devices.size()); }
  std::vector<int> coordinates(int position) const;
  int position(const std::vector<int>& coordinates) const;
  int position_of(DeviceId device) const;  // -1 if it is not in the mesh
  bool operator==(const Mesh&) const = default;
};
std::string to_string(const Mesh& mesh);  // "2x2 [0, 1, 2, 3]"; of more than 16 devices "4x8 [0..30, 32]"

// One box per mesh position, over the factored axes, and per mesh axis whether the values are partial.
struct Layout {
  Mesh mesh;
  std::vector<Shape> radices;    // per stored axis; {extent} if it is not factored
  Boxes boxes;                   // per position, over all radices in order
  std::vector<tdl::Kind> kinds;  // per mesh axis: nullopt, or the reducer of its partial values

  Shape shape() const;           // one extent per stored axis
  Shape factored_shape() const;  // one extent per radix
  bool is_partial() const;
  tdl::Reducer reducer() const;  // of its partial values; our bug if there are none
  // Positions that hold parts of the same partial value as `position`, itself included. They differ on partial axes
  // only.
  std::vector<int> partial_group(int position) const;
  int64_t elements(int position) const { return volume(boxes[position]); }
  bool operator==(const Layout&) const = default;
};
// "2x2 [0, 1, 2, 3] [S(0), B]", or the boxes if it has no name.
std::string to_string(const Layout& layout);

// Makes the layout that a name describes. Mesh axes that split one axis act as one split into their product, outermost
// most significant; every split is `cut`. To split a sub-axis, pass the tensor's radices. Bad input: an axis that the
// tensor lacks, two reducers.
Layout make_layout(const Mesh& mesh, const NdSbp& sbp, const Shape& shape);
Layout make_layout(const Mesh& mesh, const NdSbp& sbp, const std::vector<Shape>& radices);
// Finds the layout's name, if it has one. If several fit, the first: S before B before P, lower axes first.
std::optional<NdSbp> name_of(const Layout& layout);
// Tells whether mesh, kinds and boxes are the same. Boxes are compared over a common refinement of the two factorings;
// empty boxes are equal.
bool same_placement(const Layout& a, const Layout& b);
// The same layout, or box, over other radices of the same axes. Empty if a box would become several.
std::optional<Layout> over_radices(const Layout& layout, const std::vector<Shape>& radices);
std::optional<Box> over_radices(const Box& box, const std::vector<Shape>& from, const std::vector<Shape>& to);
// The coarsest common refinement of two factorings of one shape: 2.6 of 12 and 2.6. Empty if there is none, as for 3.4
// and 4.3.
std::optional<std::vector<Shape>> common_radices(const std::vector<Shape>& a, const std::vector<Shape>& b);
// The same elements as boxes over finer radices, several if an end falls inside a coarse digit. [0,5) of 8 over 4.2 is
// [0,2)x[0,2) and [2,3)x[0,1).
std::vector<Box> refined_boxes(const Box& box, const std::vector<Shape>& radices, const std::vector<Shape>& fine);
// The same elements in the tensor as stored, as boxes over the stored axes. [0,4)x[0,1) over 4.2 is the four elements
// 0, 2, 4 and 6.
std::vector<Box> stored_boxes(const Box& box, const std::vector<Shape>& radices);

// ---------------------------------------------------------------- from strategies

// The layouts of an op's operands (each position must hold them) and results (each position leaves them), for one
// strategy on a mesh.
struct OpLayouts {
  std::vector<Layout> operands, results;
};
OpLayouts layouts_of(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh);

// OneFlow's signature: one NdSbp per operand and result. Empty if one of them has no name.
struct Signature {
  std::vector<NdSbp> operands, results;
};
std::optional<Signature> signature_of(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh);
std::string to_string(const Signature& signature);  // "S(0), B -> S(0)"; two axes: "[S(0),B], [B,S(1)] -> [S(0),S(1)]"

}  // namespace partita
