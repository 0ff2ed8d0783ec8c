// The tasks that are ready and have not been popped, in increasing order of (ready time, key).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

struct ReadyTask {
  int64_t ready_ns = 0;
  uint64_t key = 0;  // of all in a heap different
  int task = 0;
  bool before(const ReadyTask& other) const {
    return ready_ns != other.ready_ns ? ready_ns < other.ready_ns : key < other.key;
  }
};

// A heap of four children a node: shallow, and the children of a node lie side by side. It keeps its memory.
class ReadyHeap {
 public:
  bool empty() const { return tasks_.empty(); }
  size_t size() const { return tasks_.size(); }
  void clear() { tasks_.clear(); }
  const ReadyTask& top() const { return tasks_.front(); }

  void push(const ReadyTask& task) {
    tasks_.push_back(task);
    size_t at = tasks_.size() - 1;
    while (at > 0) {
      const size_t parent = (at - 1) / 4;
      if (!task.before(tasks_[parent])) break;
      tasks_[at] = tasks_[parent];
      at = parent;
    }
    tasks_[at] = task;
  }

  void pop() {
    const ReadyTask last = tasks_.back();
    tasks_.pop_back();
    if (!tasks_.empty()) sink(last);
  }

  // pop() and push() in one.
  void replace_top(const ReadyTask& task) { sink(task); }

 private:
  // Puts the task where the top was, and lets it sink to its place.
  void sink(const ReadyTask& task) {
    const size_t size = tasks_.size();
    size_t at = 0;
    for (size_t child = 1; child < size; child = 4 * at + 1) {
      const size_t end = child + 4 < size ? child + 4 : size;
      size_t least = child;
      for (size_t c = child + 1; c < end; ++c)
        if (tasks_[c].before(tasks_[least])) least = c;
      if (!tasks_[least].before(task)) break;
      tasks_[at] = tasks_[least];
      at = least;
    }
    tasks_[at] = task;
  }

  std::vector<ReadyTask> tasks_;
};

}  // namespace partita
