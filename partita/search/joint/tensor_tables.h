// Makes the tables between a tensor and the ops around it, for a joint problem's network. Tensors of one kind share
// them.
//
// Worked example: y is made by an op of 3 values and read by another one of 2 that no others share. It goes straight:
// one table of 3 x 2 entries, each the cost of the conversion from the producer's layout of y to the reader's. If y has
// two readers, it has a variable, whose values are its kept layouts. from_made has a row for each of them and a column
// for each value of the producer. to_reader has one table a reader, with a column for each value of it.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "partita/network/network.h"
#include "partita/search/joint/conversion_costs.h"
#include "partita/search/joint/tensor_space.h"

namespace partita {

using TablePointer = std::shared_ptr<const solver::Table>;

// Equal tables are one. Thread-safe.
class SharedTables {
 public:
  TablePointer one(solver::Table table);

 private:
  std::mutex lock_;
  std::unordered_map<size_t, std::vector<TablePointer>> tables_;  // by hash
};

// A reader of a tensor, as far as tables depend on it: all its operands that read the tensor.
struct ReadingSpace {
  const OpSpace* op = nullptr;
  std::vector<int> operands;
  bool backward = false;  // an op of the backward pass
  auto operator<=>(const ReadingSpace&) const = default;
};

// How often a step brings a tensor from the op that makes it to its kept layout, and from there to a reader. With
// micro-batches a gradient is made in each, and may be brought to its readers once.
struct Firings {
  int made = 1, read = 1;
  auto operator<=>(const Firings&) const = default;
};

// All that the table of a tensor that goes straight depends on.
struct StraightKind {
  const OpSpace* made = nullptr;
  int result = 0;
  ReadingSpace read;
  int64_t element_bytes = 0;
  Firings firings;
  bool given = false;  // in time: to a host
  auto operator<=>(const StraightKind&) const = default;
};
struct StraightTable {
  TablePointer table;
  std::shared_ptr<const StraightSpace> space;  // null: always kept as it was made
};

// All that the variable of a tensor and its tables depend on.
struct TensorKind {
  const OpSpace* made = nullptr;  // by an op, as its result; null: an input, a parameter, ..
  int result = 0;
  const OpSpace* remade = nullptr;  // by the op that replaces it
  int remade_result = 0;
  std::vector<ReadingSpace> read;
  Shape shape;
  int64_t element_bytes = 0;
  Firings firings;
  bool once_for_parts = false;  // brought once a step to readers that run for each micro-batch: not to each of them
                                // again
  bool pinned = false;
  bool loaded = false, given = false;  // in time: from hosts, to one
  auto operator<=>(const TensorKind&) const = default;
};
struct TensorTables {
  std::shared_ptr<const TensorSpace> space;
  TablePointer cost, from_made, from_remade;
  std::vector<TablePointer> to_reader;
  // The variable of a layout that has its own: the costs of its ways from each kept layout, and, for each reader that
  // may need it, that it is brought for that reader. A copy that lies from other readers to the backward pass lies
  // between two readers (of TensorKind::read), whichever of them share it.
  struct Shared {
    TablePointer from_home;
    std::vector<std::pair<size_t, TablePointer>> readers;
    std::optional<std::pair<size_t, size_t>> between;
  };
  std::vector<Shared> shared;
  // Two readers (of TensorKind::read) -> the layouts that only these two may need. If such a layout is shared, its copy
  // lies from the one to the other.
  std::map<std::pair<size_t, size_t>, std::vector<int>> between;
  bool leaves_copies_out = false;
  size_t tensors = 0;  // of this kind
};

// The inputs of all tables. Each thread has costs of its own.
struct TableMaking {
  const Mesh& mesh;
  LimitKeeper& keeper;
  SharedTables& tables;
};
StraightTable straight_table(const TableMaking& making, const StraightKind& kind, JointCosts& costs);
// Fills in all but `tensors`, which it reads. The pin is on the mesh; null: none.
void fill_tensor_tables(const TableMaking& making, const TensorKind& kind, const Placement* pin, JointCosts& costs,
                        TensorTables& tables);

}  // namespace partita
