// Shares work among several threads.
#pragma once
#include <cstddef>
#include <functional>

namespace partita {

// Threads for work of a fraction of a second, which more would shorten little.
inline constexpr int kFewThreads = 2;

// Calls go(i, thread) for every i below count, each once, in ascending order. The thread that is free next takes the
// next i; thread 0 is the caller's. Once a call throws, no thread begins another, and the exception is thrown here: the
// caller's own, or else that of the first thread that has one.
void parallel_for(int threads, std::size_t count, const std::function<void(std::size_t i, int thread)>& go);

}  // namespace partita
