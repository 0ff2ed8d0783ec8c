// Holds admission's working data, for admit*.cc (docs/inside/PHYSICAL.md section 6). Admission finds from registers and
// offsets alone which node must stand before which (admit_needs.cc). Then it proves that the edges enforce this
// (admit_paths.cc). It shares nothing with edges.cc.
//
// Example: x reads r at place 3, and v, at place 5, writes s into the same bytes. The need is 3 before 5, rule kReuse.
// The edge x -> v meets it, and so does a path x -> y -> v.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/watch.h"
#include "partita/physical/uses.h"

namespace partita::admission {

constexpr char kWhere[] = "while a plan was admitted";

// A reason to refuse.
struct Refusal {
  std::string why;
};

template <typename... Args>
[[noreturn]] void refuse_because(fmt::format_string<Args...> format, Args&&... args) {
  throw Refusal{fmt::format(format, std::forward<Args>(args)...)};
}

enum class Rule { kData, kCarried, kInPlace, kReuse, kFiring, kQueue };

// The node at place `from` must be done before the node at place `to` begins, in the same step or (next) in the one
// after.
struct Need {
  int from = 0, to = 0;
  bool next = false;
  Rule rule = Rule::kData;
  int32_t a = -1, b = -1;  // registers (kQueue: the queue) that it is about, for the message
};

// A use, and the places of the nodes that touch it.
struct PlacedUse {
  const Use* use = nullptr;
  std::vector<int> writers, users;  // users: writers, then readers
};

// All users of a use are done before the node at place `to` writes another use of the same bytes.
struct Wait {
  const PlacedUse* earlier = nullptr;
  int to = 0;
  bool next = false;
  RegisterId later;
};

// The vertices of two unrolled steps: place p of one step is p, of the next size + p. Needs and waits lie in blocks by
// their target.
constexpr int kWords = 32, kBlock = kWords * 64;  // targets of a block: a bit each

struct Admission {
  const PhysicalGraph& graph;
  NodeTable table;
  std::vector<int> place;  // by number of the node
  Uses uses;
  std::vector<std::vector<PlacedUse>> placed;  // by register and use, if it has bytes
  std::vector<std::vector<Need>> needs;        // by block
  std::vector<std::vector<Wait>> waits;        // by block
};

inline int place(const Admission& in, const Node& node) { return in.place[in.table.number(node)]; }
inline std::string name(const Admission& in, int place) { return to_string(in.graph, in.graph.order[place]); }
inline int target(const Admission& in, int to, bool next) { return to + (next ? in.table.size() : 0); }

// Fills needs and waits; refuses registers that share bytes and never may.
void find_data_needs(Admission& in);    // writers, readers, and the two values of carried registers
void find_firing_needs(Admission& in);  // a task's firings, and static queues
void find_reuse_needs(Admission& in);   // uses of the same bytes

// Refuses the first need that no path of edges meets.
void prove(const Admission& in, const Watch& watch);

}  // namespace partita::admission
