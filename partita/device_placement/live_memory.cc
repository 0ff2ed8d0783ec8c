// Counts the uses left of each result and copy, to know when a device frees it.
#include "partita/device_placement/live_memory.h"

namespace partita {

LiveMemory::LiveMemory(const PlacementProblem& problem, const std::vector<int>& device)
    : p_(problem),
      device_(device),
      copy_(problem.values.size() * problem.devices.size(), -1),
      results_(problem.ops.size()),
      held_(problem.devices.size(), 0) {
  for (size_t o = 0; o < p_.ops.size(); ++o) held_[static_cast<size_t>(device[o])] += p_.ops[o].bytes;
  for (size_t i = 0; i < p_.results.size(); ++i) {
    const auto producer = static_cast<size_t>(p_.results[i].producer);
    items_.push_back({device[producer], p_.results[i].bytes, 1});  // it is made
    results_[producer].push_back(static_cast<int>(i));
  }
  for (size_t v = 0; v < p_.values.size(); ++v) {
    const PlacedValue& value = p_.values[v];
    if (value.result < 0) continue;
    const auto result = static_cast<size_t>(value.result);
    for (int reader : value.readers) {
      const int to = device[static_cast<size_t>(reader)];
      if (to == items_[result].device) {
        ++items_[result].uses;
        continue;
      }
      int& copy = copy_[copy_of(static_cast<int>(v), to)];
      if (copy < 0) {
        copy = static_cast<int>(items_.size());
        items_.push_back({to, value.bytes, 1});  // it comes
        ++items_[result].uses;
      }
      ++items_[static_cast<size_t>(copy)].uses;
    }
  }
}

size_t LiveMemory::copy_of(int value, int device) const {
  return static_cast<size_t>(value) * p_.devices.size() + static_cast<size_t>(device);
}

int LiveMemory::item_read(int op, int value) const {
  const PlacedValue& v = p_.values[static_cast<size_t>(value)];
  if (v.result < 0) return -1;
  const int home = device_[static_cast<size_t>(op)];
  return home == device_[static_cast<size_t>(v.producer)] ? v.result : copy_[copy_of(value, home)];
}

void LiveMemory::use(int item) {
  Item& used = items_[static_cast<size_t>(item)];
  if (--used.uses == 0) held_[static_cast<size_t>(used.device)] -= used.bytes;
}

void LiveMemory::start(int op) {
  int64_t& held = held_[static_cast<size_t>(device_[static_cast<size_t>(op)])];
  held += p_.ops[static_cast<size_t>(op)].scratch;
  for (int result : results_[static_cast<size_t>(op)]) held += items_[static_cast<size_t>(result)].bytes;
}

void LiveMemory::end(int op) {
  held_[static_cast<size_t>(device_[static_cast<size_t>(op)])] -= p_.ops[static_cast<size_t>(op)].scratch;
  for (int result : results_[static_cast<size_t>(op)]) use(result);
  for (int value : p_.ops[static_cast<size_t>(op)].reads)
    if (const int item = item_read(op, value); item >= 0) use(item);
}

void LiveMemory::send(int value, int to) {
  const int copy = copy_[copy_of(value, to)];
  if (copy >= 0) held_[static_cast<size_t>(to)] += items_[static_cast<size_t>(copy)].bytes;
}

void LiveMemory::arrived(int value, int to) {
  const int copy = copy_[copy_of(value, to)];
  if (copy < 0) return;
  use(copy);
  use(p_.values[static_cast<size_t>(value)].result);
}

int64_t LiveMemory::more_bytes(int op) const {
  int64_t more = 0;
  for (int result : results_[static_cast<size_t>(op)])
    if (const Item& made = items_[static_cast<size_t>(result)]; made.uses > 1) more += made.bytes;
  const std::vector<int>& reads = p_.ops[static_cast<size_t>(op)].reads;
  for (size_t i = 0; i < reads.size(); ++i) {
    const int item = item_read(op, reads[i]);
    if (item < 0) continue;
    int earlier = 0, all = 0;  // its reads of the same result
    for (size_t k = 0; k < reads.size(); ++k)
      if (item_read(op, reads[k]) == item) {
        ++all;
        earlier += k < i;
      }
    const Item& read = items_[static_cast<size_t>(item)];
    if (earlier == 0 && read.uses == all) more -= read.bytes;
  }
  return more;
}

}  // namespace partita
