// Keeps the ready tasks in increasing order of (ready time, key), for the simulators.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

struct ReadyTask {
  int64_t ready_ns = 0;
  uint64_t key = 0;  // of all in a heap different
  int task = 0;
  // Times are not negative. Both are one number, so that the comparison has no branch.
  bool before(const ReadyTask& other) const { return order() < other.order(); }

 private:
  unsigned __int128 order() const {
    return static_cast<unsigned __int128>(static_cast<uint64_t>(ready_ns)) << 64 | key;
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
  // The least of `count` children, or of the first four. The outcome is unpredictable, so four have no branch.
  static size_t least_of(const ReadyTask* children, size_t count) {
    if (count >= 4) {
      const size_t a = children[1].before(children[0]), b = 2 + children[3].before(children[2]);
      return a + (b - a) * children[b].before(children[a]);
    }
    size_t least = 0;
    for (size_t c = 1; c < count; ++c)
      if (children[c].before(children[least])) least = c;
    return least;
  }

  // Puts the task at the top, and lets it sink to its place.
  void sink(const ReadyTask& task) {
    const size_t size = tasks_.size();
    ReadyTask* const tasks = tasks_.data();
    size_t at = 0;
    for (size_t child = 1; child < size; child = 4 * at + 1) {
      const size_t least = child + least_of(tasks + child, size - child);
      if (!tasks[least].before(task)) break;
      tasks[at] = tasks[least];
      at = least;
    }
    tasks[at] = task;
  }

  std::vector<ReadyTask> tasks_;
};

}  // namespace partita
