// Carries messages to the thread of a queue, and notices a standstill.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "partita/runtime/actor.h"

namespace partita {

// A queue's messages. Its own thread reads them; any thread may add. `stirring` counts the awake threads and the
// messages that nobody has taken: at none, nothing can happen any more.
class Mailbox {
 public:
  explicit Mailbox(std::atomic<int64_t>& stirring) : stirring_(stirring) {}

  void put(Message message) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return;
      stirring_.fetch_add(1, std::memory_order_acq_rel);
      messages_.push_back(message);
    }
    came_.notify_one();
  }
  // Moves all messages into `out`. False: told to stop.
  bool take(std::vector<Message>& out) {
    out.clear();
    std::lock_guard<std::mutex> lock(mutex_);
    out.swap(messages_);
    stirring_.fetch_sub(static_cast<int64_t>(out.size()), std::memory_order_acq_rel);
    return !stop_;
  }
  // Waits for a message, or for the word to stop. False: there will be none, since no thread is awake.
  bool wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (stop_ || !messages_.empty()) return true;
    if (stirring_.fetch_sub(1, std::memory_order_acq_rel) == 1) return false;
    came_.wait(lock, [&] { return stop_ || !messages_.empty(); });
    stirring_.fetch_add(1, std::memory_order_acq_rel);
    return true;
  }
  // The reader needs no more messages. False: no other thread is awake.
  bool close() {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    int64_t gone = static_cast<int64_t>(messages_.size()) + 1;
    messages_.clear();
    return stirring_.fetch_sub(gone, std::memory_order_acq_rel) != gone;
  }
  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    came_.notify_one();
  }

 private:
  std::atomic<int64_t>& stirring_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Message> messages_;
  bool stop_ = false, closed_ = false;
};

}  // namespace partita
