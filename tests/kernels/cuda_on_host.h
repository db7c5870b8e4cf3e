// CUDA kernels as they are, on a processor: every thread of a block is a fiber, which runs until it waits for others.
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

using std::exp;
using std::log;

#define __global__
#define __device__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)

struct Place {
  unsigned x, y, z;
};
static Place threadIdx, blockIdx, gridDim;

namespace host {
constexpr int STACK = 1 << 16;

struct Barrier {
  int size = 0, waiting = 0;
  long generation = 0;
};

struct Fiber {
  std::unique_ptr<char[]> stack{new char[STACK]};
  ucontext_t start;
  jmp_buf place;  // where it waits: to jump there takes no call of the system
  bool started = false, done = false;
};

static std::vector<Fiber> fibers;
static std::vector<Barrier> warps;
static std::vector<double> slots;
static Barrier block;
static jmp_buf scheduler;
static unsigned current;
static void (*kernel)(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);
static void* given[12];

static void wait(Barrier& barrier) {
  const long generation = barrier.generation;
  if (++barrier.waiting == barrier.size) {
    barrier.waiting = 0;
    barrier.generation++;
    return;
  }
  while (barrier.generation == generation) {
    if (!_setjmp(fibers[current].place)) _longjmp(scheduler, 1);
  }
}

static void enter() {
  kernel(given[0], given[1], given[2], given[3], given[4], given[5], given[6], given[7], given[8], given[9], given[10],
         given[11]);
  fibers[current].done = true;
  _longjmp(scheduler, 1);
}

static void run_block(unsigned threads) {
  block = Barrier{int(threads)};
  warps.assign(threads / 32, Barrier{32});
  slots.assign(threads, 0.0);
  for (current = 0; current < threads; current++) {
    Fiber& fiber = fibers[current];
    fiber.started = fiber.done = false;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.get();
    fiber.start.uc_stack.ss_size = STACK;
    makecontext(&fiber.start, enter, 0);
  }
  static bool running;  // jumps leave it as it is
  for (running = true; running;) {
    running = false;
    for (current = 0; current < threads; current++) {
      if (fibers[current].done) continue;
      running = true;
      if (_setjmp(scheduler)) continue;
      threadIdx = {current, 0, 0};
      if (fibers[current].started) _longjmp(fibers[current].place, 1);
      fibers[current].started = true;
      setcontext(&fibers[current].start);
    }
  }
}
}  // namespace host

static void __syncthreads() { host::wait(host::block); }

template <class T>
static T __shfl_xor_sync(unsigned, T value, int mask) {
  host::Barrier& warp = host::warps[host::current / 32];
  const unsigned mine = host::current;
  host::slots[mine] = value;
  host::wait(warp);
  const T found = T(host::slots[mine ^ mask]);
  host::wait(warp);
  return found;
}

extern "C" void launch(void* kernel, void** given, int count, int grid_x, int grid_y, int threads) {
  std::memcpy(&host::kernel, &kernel, sizeof(kernel));
  for (int i = 0; i < count; i++) host::given[i] = given[i];
  if (int(host::fibers.size()) < threads) host::fibers = std::vector<host::Fiber>(threads);
  gridDim = {unsigned(grid_x), unsigned(grid_y), 1};
  for (int y = 0; y < grid_y; y++) {
    for (int x = 0; x < grid_x; x++) {
      blockIdx = {unsigned(x), unsigned(y), 0};
      host::run_block(unsigned(threads));
    }
  }
}
