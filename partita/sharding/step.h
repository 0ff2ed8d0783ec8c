// Defines a conversion as steps, with the pieces that each device copies. boxing.h finds the steps.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "partita/base/shared_list.h"
#include "partita/sharding/layout.h"

namespace partita {

enum class StepKind {
  kLocal,          // each position makes its new box from its own old one: a slice, or the identity of P; no bytes
  kAllReduce,      // P -> B
  kReduceScatter,  // P -> S
  kAllGather,      // S -> B
  kAllToAll,       // S -> S
  kFetch,          // exactly the missing boxes, point to point (Tofu's MultiFetch)
};
std::string_view name_of(StepKind kind);  // "all-reduce"

// One box, over Step::radices, that a position takes from another position, or from what its own device holds.
struct Piece {
  int source = 0;  // position in `from`
  int target = 0;  // position in `to`
  Box box;
  bool operator==(const Piece&) const = default;
};

// Example: [S(0)] -> [B] of a 4x6 tensor of 4-byte elements on 2 devices is one all-gather. from.boxes are rows [0,2)
// and [2,4), groups is {{0, 1}}, pieces is empty, and bytes is 96: either device sends its 48.
struct Step {
  StepKind kind = StepKind::kLocal;
  Layout from, to;
  // Collectives: the positions of each group, in ring order. Groups run independently and have equal sizes. Position r
  // holds the shard that the layouts say.
  std::vector<std::vector<int>> groups;
  // kFetch and kLocal: all pieces of every target, ordered by target. Nothing moves if source and target are on one
  // device, as all pieces of kLocal are. The first piece on an element is copied. A later one is combined with
  // from.reducer(): one piece from each member of a partial group, in the group's order. An element without a piece is
  // the identity of to.reducer().
  std::vector<Piece> pieces;
  // The factoring of the pieces' boxes: that of both layouts if they agree, else a common refinement, else one digit
  // per stored axis. A piece is one strided box in either shard.
  std::vector<Shape> radices;
  int64_t bytes = 0;  // moved between devices, summed over all devices
};

// The devices whose pieces and groups a step lists, by DeviceId; null lists all. Bytes are always those of all devices.
using DeviceMask = std::shared_ptr<const std::vector<char>>;

struct Conversion {
  Layout from, to;
  SharedList<Step> steps;  // empty: each position already holds its box (`from` and `to` list the same devices)
  int64_t bytes = 0;
};

// The way in which a position of a local step or a fetch gets its box. A box that the reader's device already holds in
// one piece is a view, and costs nothing. Elements that one piece covers are copied into place. If pieces overlap
// (partial sources) or leave gaps (partial results), remote pieces are staged and all of them are combined. An empty
// box has no pieces and is combined as well: readers wait for its task.
struct Target {
  std::vector<const Piece*> pieces;  // of the step, without empty ones
  bool view = false, combine = false;
};
std::vector<Target> targets_of(const Step& step);  // by position of step.to, whose boxes are over step.radices
std::vector<Target> targets_of(const Step& step, const std::vector<int>& positions);  // of these, ascending

}  // namespace partita
