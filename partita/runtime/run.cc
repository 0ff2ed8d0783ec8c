// Runs each queue on a thread of its own, with a mailbox for messages from the others.
#include "partita/runtime/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "partita/base/error.h"
#include "partita/runtime/actor.h"
#include "partita/runtime/affinity.h"
#include "partita/runtime/liveness.h"
#include "partita/runtime/mailbox.h"

namespace partita {

namespace {

using Clock = std::chrono::steady_clock;

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(const Firings& firings, const Hooks& hooks, const RunOptions& options)
      : graph_(firings.graph),
        hooks_(hooks),
        options_(options),
        table_(graph_, options.steps),
        executor_(firings, hooks),
        rendezvous_(table_.collectives.size()),
        liveness_(graph_),
        stirring_(static_cast<int64_t>(table_.queues.size())),
        unfinished_(stirring_.load()),
        logs_(table_.queues.size()),
        began_(graph_.tasks.size()) {
    for (size_t q = 0; q < table_.queues.size(); ++q) {
      mailboxes_.emplace_back(stirring_);
      workers_.emplace_back(table_, static_cast<int>(q), rendezvous_, *this);
    }
  }

  RunReport run() {
    start_ = Clock::now();
    std::vector<std::thread> threads;
    try {
      for (size_t q = 0; q < workers_.size(); ++q) threads.emplace_back([this, q] { serve(static_cast<int>(q)); });
    } catch (const std::system_error& e) {
      fail_with(std::make_exception_ptr(
          Error(ExitCode::kInfeasible, fmt::format("'{}' needs {} threads, and this machine started {}: {}",
                                                   graph_.name, workers_.size(), threads.size(), e.what()))));
    }
    for (std::thread& t : threads) t.join();
    if (error_) std::rethrow_exception(error_);
    RunReport report;
    report.outside = executor_.first_outside();
    for (size_t d = 0; d < graph_.peak_bytes.size(); ++d)
      report.peak_bytes.push_back(liveness_.peak_bytes(DeviceId(d)));
    for (Log& log : logs_) {
      report.trace.events.insert(report.trace.events.end(), log.events.begin(), log.events.end());
      report.trace.memory.insert(report.trace.memory.end(), log.memory.begin(), log.memory.end());
    }
    auto by_start = [](const Event& a, const Event& b) {
      return std::tie(a.start_ns, a.task, a.step, a.firing) < std::tie(b.start_ns, b.task, b.step, b.firing);
    };
    std::sort(report.trace.events.begin(), report.trace.events.end(), by_start);
    std::stable_sort(report.trace.memory.begin(), report.trace.memory.end(),
                     [](const MemorySample& a, const MemorySample& b) { return a.time_ns < b.time_ns; });
    report.trace.steps = static_cast<int>(options_.steps);
    report.trace.step_time_ns = now() / std::max<int64_t>(1, options_.steps);
    return report;
  }

  void send(int worker, Message message) override {
    if (worker == current_worker_) local_.push_back(message);  // OneFlow's local message queue
    else mailboxes_[worker].put(message);
  }

  bool execute(TaskId task, int64_t step, int firing) override {
    executor_.run(task, step, firing);
    return true;
  }

  void began(TaskId task, int64_t, int firing) override {
    liveness_.began(task, firing);
    if (hooks_.kernels && std::holds_alternative<KernelWork>(graph_.task(task).work)) hooks_.kernels->reset_peak();
    began_[task.index()] = now();
    sample(task);
  }

  void finished(TaskId task, int64_t step, int firing) override {
    if (hooks_.kernels && std::holds_alternative<KernelWork>(graph_.task(task).work))
      liveness_.note(graph_.task(task).device, hooks_.kernels->peak_bytes());
    liveness_.finished(task, firing);
    if (options_.trace)
      logs_[current_worker_].events.push_back({task, static_cast<int>(step), firing, began_[task.index()], now()});
    sample(task);
  }

 private:
  struct Log {
    std::vector<Event> events;
    std::vector<MemorySample> memory;
  };

  int64_t now() const { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count(); }

  void sample(TaskId task) {
    if (!options_.trace) return;
    DeviceId device = graph_.task(task).device;
    logs_[current_worker_].memory.push_back({device, now(), liveness_.live_bytes(device)});
  }

  void serve(int q) {
    const Queue& queue = graph_.queues[table_.queues[static_cast<size_t>(q)].queue.index()];
    if (queue.kind == QueueKind::kCompute) set_affinity(cores_of(cores_, queue.device.value, graph_.compute_count));
    current_worker_ = q;
    local_.clear();
    try {
      Worker& worker = workers_[q];
      std::vector<Message> messages;
      while (mailboxes_[q].take(messages)) {
        for (const Message& m : messages) worker.receive(m);
        while (!local_.empty()) {
          Message m = local_.front();
          local_.pop_front();
          worker.receive(m);
        }
        if (worker.finished()) {
          unfinished_.fetch_sub(1,
                                std::memory_order_acq_rel);  // first: the last thread to sleep sees all that are done
          if (!mailboxes_[q].close() && unfinished_.load(std::memory_order_acquire) > 0) report_hang();
          break;
        }
        if (!worker.advance() && !mailboxes_[q].wait()) report_hang();
      }
    } catch (...) {
      fail_with(std::current_exception());
    }
    current_worker_ = -1;
  }

  // The first error stands; every thread stops.
  void fail_with(std::exception_ptr error) {
    std::lock_guard<std::mutex> lock(error_mutex_);
    if (!error_) error_ = std::move(error);
    for (Mailbox& m : mailboxes_) m.stop();
  }

  // Called when no other thread is awake.
  [[noreturn]] void report_hang() const {
    std::string text;
    for (const Worker& worker : workers_) text += worker.waiting();
    throw Error(ExitCode::kBug,
                fmt::format("internal error: the run of '{}' stands still, so the graph was not admitted:\n{}",
                            graph_.name, text));
  }

  const PhysicalGraph& graph_;
  const Hooks& hooks_;
  const RunOptions& options_;
  ActorTable table_;
  Executor executor_;
  Rendezvous rendezvous_;
  Liveness liveness_;
  std::deque<Worker> workers_;
  std::atomic<int64_t> stirring_;    // see Mailbox
  std::atomic<int64_t> unfinished_;  // workers
  std::deque<Mailbox> mailboxes_;
  std::vector<Log> logs_;
  const std::vector<int> cores_ = usable_cores();
  std::vector<int64_t> began_;
  Clock::time_point start_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  static thread_local int current_worker_;
  static thread_local std::deque<Message> local_;
};

thread_local int ThreadEngine::current_worker_ = -1;
thread_local std::deque<Message> ThreadEngine::local_;

}  // namespace

RunReport run_threads(const Firings& firings, const Hooks& hooks, const RunOptions& options) {
  return ThreadEngine(firings, hooks, options).run();
}

RunReport run_threads(const PhysicalGraph& graph, const Memory& memory, const Hooks& hooks, const RunOptions& options) {
  ensure(&graph == &memory.graph(), "a run of '{}' in the memory of another graph", graph.name);
  return run_threads(prepare_firings(memory, hooks.kernels), hooks, options);
}

}  // namespace partita
