// Counts ATen's allocations, and serves a running kernel from its scratch.
#include "partita/kernels/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "partita/base/atomic_max.h"

namespace partita {
namespace {

std::atomic<int64_t> live{0}, peak{0};
thread_local ScratchScope* scope = nullptr;

void count_bytes(int64_t change) { atomic_max(peak, live.fetch_add(change) + change); }

// Outside scratch, the bytes before a block hold its size.
void* allocate_outside(std::size_t bytes) {
  void* block = std::aligned_alloc(kScratchAlign,
                                   static_cast<std::size_t>(scratch_size(static_cast<int64_t>(bytes)) + kScratchAlign));
  if (!block) throw std::bad_alloc();
  std::memcpy(block, &bytes, sizeof bytes);
  count_bytes(static_cast<int64_t>(bytes));
  return static_cast<std::byte*>(block) + kScratchAlign;
}

void release(void* pointer) {
  if (!pointer || (scope && scope->free(pointer))) return;
  std::byte* block = static_cast<std::byte*>(pointer) - kScratchAlign;
  std::size_t bytes;
  std::memcpy(&bytes, block, sizeof bytes);
  count_bytes(-static_cast<int64_t>(bytes));
  std::free(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    void* pointer = scope ? scope->allocate(bytes) : nullptr;
    if (!pointer) pointer = allocate_outside(bytes);
    return {pointer, pointer, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void install_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    static CountingAllocator allocator;
    c10::SetCPUAllocator(&allocator, 255);
  });
}

int64_t outside_bytes() { return live.load(); }
int64_t outside_peak_bytes() { return peak.load(); }
void reset_outside_peak() { peak.store(live.load()); }

ScratchScope::ScratchScope(std::byte* memory, std::size_t bytes)
    : memory_(memory), bytes_(static_cast<int64_t>(bytes)), outer_(scope) {
  scope = this;
}
ScratchScope::~ScratchScope() { scope = outer_; }

void* ScratchScope::allocate(std::size_t bytes) {
  const int64_t offset = places_.allocate(static_cast<int64_t>(bytes), bytes_);
  return offset < 0 ? nullptr : memory_ + offset;
}

bool ScratchScope::free(void* pointer) {
  std::byte* p = static_cast<std::byte*>(pointer);
  return p >= memory_ && p < memory_ + bytes_ && places_.free(p - memory_);
}

}  // namespace partita
