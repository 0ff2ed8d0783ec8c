// Computes memory peaks of schedules by adding up allocations and frees over time.
#include "partita/device_placement/memory.h"

#include <algorithm>

namespace partita {

PlacedMemory::PlacedMemory(const PlacementProblem& problem)
    : p_(problem),
      end_(problem.ops.size()),
      until_(problem.results.size()),
      stays_(problem.devices.size()),
      comes_(problem.devices.size()),
      changes_(problem.devices.size()) {
  int64_t all = 0, least = INT64_MAX;
  for (const PlacedOp& op : p_.ops) all += op.bytes + op.scratch;
  for (const PlacedResult& result : p_.results) all += result.bytes;
  for (const PlacedValue& value : p_.values) all += value.result < 0 ? 0 : std::max<int64_t>(0, value.bytes);
  for (const PlacedDevice& d : p_.devices) least = std::min(least, d.memory_bytes);
  always_fits_ = all <= least;
}

void PlacedMemory::hold(int device, int64_t from, int64_t until, int64_t bytes) {
  if (bytes == 0) return;
  const auto d = static_cast<size_t>(device);
  comes_[d] += bytes;
  changes_[d].push_back({from, bytes});
  changes_[d].push_back({until, -bytes});
}

void PlacedMemory::find_changes(const PlacedSchedule& s) {
  std::fill(stays_.begin(), stays_.end(), 0);
  std::fill(comes_.begin(), comes_.end(), 0);
  for (std::vector<Change>& changes : changes_) changes.clear();
  for (size_t o = 0; o < end_.size(); ++o) {
    const PlacedOp& op = p_.ops[o];
    const auto d = static_cast<size_t>(s.device[o]);
    end_[o] = s.start[o] + op.ns[d];
    stays_[d] += op.bytes;
    hold(s.device[o], s.start[o], end_[o], op.scratch);
  }
  for (size_t i = 0; i < until_.size(); ++i) until_[i] = end_[static_cast<size_t>(p_.results[i].producer)];
  const auto last_read = [&](const PlacedValue& value, int device, int64_t end) {
    for (int r : value.readers)
      if (s.device[static_cast<size_t>(r)] == device) end = std::max(end, end_[static_cast<size_t>(r)]);
    return end;
  };
  for (const PlacedValue& value : p_.values)
    if (value.result >= 0) {
      int64_t& until = until_[static_cast<size_t>(value.result)];
      until = last_read(value, s.device[static_cast<size_t>(value.producer)], until);
    }
  for (const PlacedTransfer& t : s.transfers) {
    const PlacedValue& value = p_.values[static_cast<size_t>(t.value)];
    const auto from = static_cast<size_t>(s.device[static_cast<size_t>(value.producer)]);
    const int64_t over = t.start + p_.transfer_ns(p_.routes[from][static_cast<size_t>(t.to)], value.bytes);
    if (value.result < 0) continue;
    int64_t& until = until_[static_cast<size_t>(value.result)];
    until = std::max(until, over);
    hold(t.to, t.start, last_read(value, t.to, over), value.bytes);
  }
  for (size_t i = 0; i < until_.size(); ++i) {
    const auto producer = static_cast<size_t>(p_.results[i].producer);
    hold(s.device[producer], s.start[producer], until_[i], p_.results[i].bytes);
  }
}

int64_t PlacedMemory::peak(size_t device) {
  std::vector<Change>& changes = changes_[device];
  // Frees come before allocations of the same time.
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.time != b.time ? a.time < b.time : a.bytes < b.bytes; });
  int64_t bytes = stays_[device], most = bytes;
  for (const Change& change : changes) most = std::max(most, bytes += change.bytes);
  return most;
}

std::vector<int64_t> PlacedMemory::peaks(const PlacedSchedule& schedule) {
  find_changes(schedule);
  std::vector<int64_t> peaks;
  for (size_t d = 0; d < changes_.size(); ++d) peaks.push_back(peak(d));
  return peaks;
}

int64_t PlacedMemory::over_bytes(const PlacedSchedule& schedule) {
  if (always_fits_) return 0;
  find_changes(schedule);
  int64_t over = 0;
  for (size_t d = 0; d < changes_.size(); ++d) {
    const int64_t has = p_.devices[d].memory_bytes;
    if (stays_[d] + comes_[d] > has) over += std::max<int64_t>(0, peak(d) - has);
  }
  return over;
}

}  // namespace partita
