// Internal to task_graph/: numbers tensors' layouts, so that each pair is compared and converted once.
//
// Example: rows on gpu0 and gpu1, as a producer leaves them and as eight readers want them, have one number. So nothing
// is compared, and nothing is converted.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "partita/sharding/boxing.h"

namespace partita {

class KnownLayouts {
 public:
  explicit KnownLayouts(const Cluster& cluster);

  int number(const Layout& layout);  // equal layouts have the same
  const Layout& layout(int number) const { return layouts_[static_cast<size_t>(number)].layout; }
  bool same_placement(int a, int b);
  bool same_radices(int a, int b) const {
    return layouts_[static_cast<size_t>(a)].radices == layouts_[static_cast<size_t>(b)].radices;
  }
  // Returns the conversion between two layouts; it stays until the next call of forget_many().
  const Conversion& conversion(int from, int to, int64_t element_bytes);
  // Forgets conversions if they are many.
  void forget_many();
  // Forgets all layouts too: numbers begin anew.
  void forget();

 private:
  struct Known {
    Layout layout;
    int mesh = 0, radices = 0;  // equal ones have the same
  };
  struct Pair {
    int from = 0, to = 0;
    int64_t element_bytes = 0;
    bool operator==(const Pair&) const = default;
  };
  struct Hash {
    size_t operator()(const Pair& pair) const;
  };
  template <typename T>
  using Numbers = std::unordered_map<uint64_t, std::vector<std::pair<T, int>>>;  // by hash

  const Cluster& cluster_;
  std::deque<Known> layouts_;
  std::unordered_map<uint64_t, std::vector<int>> numbers_;  // by hash
  Numbers<Mesh> meshes_;
  Numbers<std::vector<Shape>> radices_;
  int mesh_count_ = 0, radices_count_ = 0;
  std::unordered_map<Pair, bool, Hash> same_;
  std::unique_ptr<Converter> converter_;
  std::unordered_map<Pair, const Conversion*, Hash> conversions_;
};

}  // namespace partita
