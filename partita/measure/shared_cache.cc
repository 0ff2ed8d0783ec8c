// Goes through more and more memory, and finds the size at which that takes longer.
#include "partita/measure/shared_cache.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "partita/base/machine_memory.h"

namespace partita {

namespace {

constexpr double kLeastBytes = 16 << 20, kMostBytes = 1 << 30;  // in all
constexpr double kPartOfMemory = 0.25;                          // of what is free
constexpr double kSeconds = 0.06;                               // of each footprint, at least one pass
constexpr double kLonger = 1.25;
constexpr size_t kLine = 64;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

// Reads and writes each line.
void go_through(std::vector<std::byte>& memory) {
  for (size_t at = 0; at < memory.size(); at += kLine) memory[at] ^= std::byte{1};
}

// Nanoseconds a byte of the slowest core's quickest pass.
double ns_per_byte(std::vector<std::vector<std::byte>>& parts) {
  std::vector<double> least(parts.size(), 0);
  const auto work = [&](size_t core) {
    go_through(parts[core]);
    const Clock::time_point begin = Clock::now();
    do {
      const Clock::time_point from = Clock::now();
      go_through(parts[core]);
      const double seconds = seconds_since(from);
      least[core] = least[core] == 0 ? seconds : std::min(least[core], seconds);
    } while (seconds_since(begin) < kSeconds);
  };
  std::vector<std::thread> others;
  for (size_t c = 1; c < parts.size(); ++c) others.emplace_back(work, c);
  work(0);
  for (std::thread& t : others) t.join();
  return *std::max_element(least.begin(), least.end()) * 1e9 / static_cast<double>(parts[0].size());
}

double once(int cores, const std::atomic<bool>* stop) {
  const double most = std::min(kMostBytes, kPartOfMemory * static_cast<double>(available_bytes()));
  std::vector<double> bytes, times;
  std::vector<std::vector<std::byte>> parts(static_cast<size_t>(cores));
  for (double all = kLeastBytes; all <= most; all *= 2) {
    if (stop && stop->load()) return 0;
    for (auto& part : parts) part.resize(static_cast<size_t>(all / cores));
    bytes.push_back(all);
    times.push_back(ns_per_byte(parts));
  }
  if (times.empty()) return 0;
  const double near = *std::min_element(times.begin(), times.end()), far = times.back(), between = (near + far) / 2;
  if (far < kLonger * near) return 0;
  // The last footprint that takes less, and the one after it.
  size_t i = times.size() - 1;
  while (i > 0 && times[i - 1] >= between) --i;
  if (i == 0) return bytes[0];
  const double part = (between - times[i - 1]) / (times[i] - times[i - 1]);
  return std::round(bytes[i - 1] * std::pow(bytes[i] / bytes[i - 1], part));
}

}  // namespace

double measure_shared_cache(int cores, const std::atomic<bool>* stop) {
  // Another program that works meanwhile can hide it.
  constexpr int kTries = 3;
  double bytes = 0;
  for (int i = 0; i < kTries && bytes == 0; ++i) bytes = once(cores, stop);
  return bytes;
}

Sweep::Sweep(double bytes)
    : memory_(static_cast<size_t>(std::min(bytes, kPartOfMemory * static_cast<double>(available_bytes())))) {}

void Sweep::run() { go_through(memory_); }

}  // namespace partita
