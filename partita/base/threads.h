// Work for several threads.
#pragma once
#include <cstddef>
#include <functional>

namespace partita {

// Calls go(i, thread) for every i below count, each once, in ascending order, on whichever thread is free next; thread
// 0 is the caller's. Where one throws, none begins another, and it is thrown here: the caller's, or else the first
// thread's that has one.
void shared_out(int threads, std::size_t count, const std::function<void(std::size_t i, int thread)>& go);

}  // namespace partita
