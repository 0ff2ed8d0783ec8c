// Ends a part of a search that takes too much of the machine's memory, by the flag that it polls for Ctrl-C anyway.
//
// Worked example: the process has 1 GB and 20 GB are free, so 7 GB are the limit. A search that brings the process over
// 7 GB sees stop() become true, and over() says why. begin() takes that back for the next one.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

namespace partita {

class MemoryWatch {
 public:
  // `stop` sets stop() too; null: only memory does.
  explicit MemoryWatch(const std::atomic<bool>* stop);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Begins another part. Memory that the process already has, which may be free for reuse, does not count for it.
  void begin();
  const std::atomic<bool>* stop() const;
  bool over() const;  // since begin() the process has exceeded the limit
  int64_t limit_bytes() const;

 private:
  struct Inside;
  const std::unique_ptr<Inside> inside_;
};

}  // namespace partita
