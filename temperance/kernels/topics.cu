// The local step of LDA on an NVIDIA GPU; `topics_cuda.py` compiles it (NVRTC) and says what is computed.
//
// A row of a table (the topics of a word, or the shares of a document) is read by LANES threads, each of which keeps
// PACKS packs of sixteen bytes of it in registers: pack p of thread l holds what is at (p · LANES + l) · WIDE. A warp of
// 32 threads reads 32 / LANES rows at a time, and AHEAD of them before it uses the first.
//
// Defined by whoever compiles: REAL (float or double), LANES, PACKS, AHEAD, WARPS, and OWN (whether documents have
// powers of their own).

typedef REAL real;

constexpr int WIDE = 16 / sizeof(real);
constexpr int MINE = PACKS * WIDE;      // numbers of a row that a thread holds
constexpr int TOPICS = LANES * MINE;    // of which the last ones may be padding
constexpr int THREADS = WARPS * 32;
constexpr int GROUPS = THREADS / LANES;  // which read a row each
constexpr int OWNED = (TOPICS + THREADS - 1) / THREADS;  // topics whose proportions a thread looks after

struct alignas(16) Pack {
  real at[WIDE];
};

__device__ inline real larger(real a, real b) { return a > b ? a : b; }

// ψ(x), as in numerics/special.py.
__device__ inline real digamma(real x) {
  const real far = sizeof(real) == 4 ? real(1e8) : real(1e17);
  const real near = x < far ? x : far;
  const real u = near * (near + real(7));
  const real pairs = (real(2) * u + real(6)) / (u * (u + real(6))) +
                     (real(2) * u + real(22)) / ((u + real(10)) * (u + real(12)));
  const real y = real(1) / (x + real(8)), s = y * y;
  real tail = real(-0.4432598039215686);
  tail = real(0.08333333333333334) + s * tail;
  tail = real(-0.02109279609279609) + s * tail;
  tail = real(0.007575757575757576) + s * tail;
  tail = real(-0.004166666666666667) + s * tail;
  tail = real(0.003968253968253968) + s * tail;
  tail = real(-0.008333333333333333) + s * tail;
  tail = real(0.08333333333333333) + s * tail;
  return log(x + real(8)) - real(0.5) * y - s * tail - (real(2) * near + real(7)) * pairs;
}

// Σ over the `lanes` neighbouring threads that share a row.
__device__ inline real sum_of(real value, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// What this thread holds of a row of `stride` numbers; zeros beyond its end.
__device__ inline void read_row(const real* row, int stride, int lane, real* mine) {
#pragma unroll
  for (int p = 0; p < PACKS; p++) {
    const int place = (p * LANES + lane) * WIDE;
    Pack pack;
    if (place < stride) {
      pack = *reinterpret_cast<const Pack*>(row + place);
    } else {
#pragma unroll
      for (int q = 0; q < WIDE; q++) pack.at[q] = real(0);
    }
#pragma unroll
    for (int q = 0; q < WIDE; q++) mine[p * WIDE + q] = pack.at[q];
  }
}

// Adds up the parts of a row that all groups of the block hold, into `sums[0]` … `sums[WARPS - 1]`, a row for each warp.
__device__ inline void write_sums(real (*sums)[TOPICS], const real* mine, int thread) {
  const int warp = thread / 32, lane = thread % LANES;
#pragma unroll
  for (int m = 0; m < MINE; m++) {
    real value = mine[m];
    for (int step = LANES; step < 32; step *= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    if (thread % 32 < LANES) sums[warp][(m / WIDE * LANES + lane) * WIDE + m % WIDE] = value;
  }
}

__device__ inline real total_of(const real (*sums)[TOPICS], int topic) {
  real value = real(0);
#pragma unroll
  for (int w = 0; w < WARPS; w++) value += sums[w][topic];
  return value;
}

// A document for each block. `sizes`: width, topics, stride of the table, steps, and rows of priors (one, or one for
// each document). `each`: the tolerance and the floor of the norms, then two numbers for each document, the power of its
// topics and (with OWN) of its words. `start`: the priors, then γ of the documents. Outputs: γ; shares
// exp{power · (ψ(γ) − max ψ(γ))}; power · max ψ(γ); Σ_k share · topic of each word; and with OWN the mean
// logarithm of its topics.
extern "C" __global__ void __launch_bounds__(THREADS)
documents(const int* sizes, const real* each, const int* lengths, const int* words, const real* counts,
          const real* start, const real* table, real* gamma_out, real* share_out, real* top_out, real* norm_out
#if OWN
          , real* level_out
#endif
) {
  const int width = sizes[0], topics = sizes[1], stride = sizes[2], steps = sizes[3], priors = sizes[4];
  const real tolerance = each[0], floor = each[1];
  const long long d = blockIdx.x;
  const int thread = threadIdx.x, lane = thread % LANES, group = thread / LANES;
  const int length = lengths[d];
  const real power = each[2 + 2 * d];
#if OWN
  const real own = each[3 + 2 * d];
#endif
  words += d * width;
  counts += d * width;
  const real* prior_row = start + (priors == 1 ? 0 : d) * topics;
  const real* gamma_row = start + (priors + d) * topics;

  __shared__ __align__(16) real share[TOPICS];
  __shared__ real sums[WARPS][TOPICS];
  __shared__ real scratch[2][WARPS];

  real gamma[OWNED], level[OWNED];
  real top, change = real(0);

  // Shares of the topics from γ; the mean change of γ is added up on the way.
  auto spread = [&]() {
    real most = -real(1e30);
#pragma unroll
    for (int j = 0; j < OWNED; j++) {
      const int topic = thread + j * THREADS;
      level[j] = topic < topics ? power * digamma(gamma[j]) : -real(1e30);
      most = larger(most, level[j]);
    }
    for (int step = 16; step > 0; step /= 2) most = larger(most, __shfl_xor_sync(0xffffffffu, most, step));
    change = sum_of(change, 32);
    if (thread % 32 == 0) {
      scratch[0][thread / 32] = most;
      scratch[1][thread / 32] = change;
    }
    __syncthreads();
    top = scratch[0][0];
    change = real(0);
    for (int w = 0; w < WARPS; w++) {
      top = larger(top, scratch[0][w]);
      change += scratch[1][w];
    }
#pragma unroll
    for (int j = 0; j < OWNED; j++) {
      const int topic = thread + j * THREADS;
      if (topic < TOPICS) share[topic] = topic < topics ? exp(level[j] - top) : real(0);
    }
    __syncthreads();
  };

  for (int j = 0; j < OWNED; j++) {
    const int topic = thread + j * THREADS;
    gamma[j] = topic < topics ? gamma_row[topic] : real(1);
  }
  spread();

  real mine[MINE];  // of the shares
  for (int count = 0; count < steps; count++) {
    real total[MINE];
#pragma unroll
    for (int m = 0; m < MINE; m++) total[m] = real(0);
    read_row(share, TOPICS, lane, mine);
    for (int first = 0; first < length; first += GROUPS * AHEAD) {
      real block[AHEAD][MINE], seen[AHEAD];
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        const int i = first + a * GROUPS + group;
        seen[a] = i < length ? counts[i] : real(0);
        read_row(table + (long long)(i < length ? words[i] : 0) * stride, stride, lane, block[a]);
      }
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        real norm = real(0);
#pragma unroll
        for (int m = 0; m < MINE; m++) {
#if OWN
          block[a][m] = exp(own * block[a][m]);
#endif
          norm += block[a][m] * mine[m];
        }
        const real ratio = seen[a] / larger(sum_of(norm, LANES), floor);
#pragma unroll
        for (int m = 0; m < MINE; m++) total[m] += ratio * block[a][m];
      }
    }
    write_sums(sums, total, thread);
    __syncthreads();
    change = real(0);
#pragma unroll
    for (int j = 0; j < OWNED; j++) {
      const int topic = thread + j * THREADS;
      if (topic < topics) {
        const real fresh = prior_row[topic] + power * share[topic] * total_of(sums, topic);
        change += fresh > gamma[j] ? fresh - gamma[j] : gamma[j] - fresh;
        gamma[j] = fresh;
      }
    }
    spread();
    if (change / real(topics) <= tolerance) break;
  }

#pragma unroll
  for (int j = 0; j < OWNED; j++) {
    const int topic = thread + j * THREADS;
    if (topic < topics) {
      gamma_out[d * topics + topic] = gamma[j];
      share_out[d * topics + topic] = share[topic];
    }
  }
  if (thread == 0) top_out[d] = top;
  read_row(share, TOPICS, lane, mine);
  for (int first = 0; first < width; first += GROUPS) {
    const int i = first + group;
    real block[MINE];
    read_row(table + (long long)(i < length ? words[i] : 0) * stride, stride, lane, block);
    real norm = real(0), mean = real(0);
#pragma unroll
    for (int m = 0; m < MINE; m++) {
#if OWN
      const real topic = exp(own * block[m]);
      mean += topic * mine[m] * block[m];
      norm += topic * mine[m];
#else
      norm += block[m] * mine[m];
#endif
    }
    norm = larger(sum_of(norm, LANES), floor);
    mean = sum_of(mean, LANES);
    if (lane == 0 && i < width) {
      norm_out[d * width + i] = i < length ? norm : real(1);
#if OWN
      level_out[d * width + i] = i < length ? mean / norm : real(0);
#endif
    }
  }
}

// A document for each block: Σ_k share · table of its words, and 1 where it has none. `sizes`: width, stride.
extern "C" __global__ void __launch_bounds__(THREADS)
norms(const int* sizes, const int* lengths, const int* words, const real* share, const real* table, real* norm_out) {
  const int width = sizes[0], stride = sizes[1];
  const long long d = blockIdx.x;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const int length = lengths[d];
  real mine[MINE];
  read_row(share + d * stride, stride, lane, mine);
  for (int first = 0; first < width; first += GROUPS) {
    const int i = first + group;
    real block[MINE];
    read_row(table + (long long)(i < length ? words[d * width + i] : 0) * stride, stride, lane, block);
    real norm = real(0);
#pragma unroll
    for (int m = 0; m < MINE; m++) norm += block[m] * mine[m];
    norm = sum_of(norm, LANES);
    if (lane == 0 && i < width) norm_out[d * width + i] = i < length ? norm : real(1);
  }
}

// Σ_d ratio · share over the documents of a word, in parts: of some words there are thousands. A word and part for each
// block. `sizes`: words, topics, stride of the shares; `starts`: where the entries of each word begin, sorted by word.
// With OWN each share is multiplied by exp(power of the document · level of the word).
extern "C" __global__ void __launch_bounds__(THREADS)
words(const int* sizes, const int* starts, const int* documents, const real* ratios, const real* share,
#if OWN
      const real* levels, const real* powers,
#endif
      real* out) {
  const int n_words = sizes[0], topics = sizes[1], stride = sizes[2];
  const int v = blockIdx.x, part = blockIdx.y, parts = gridDim.y;
  const int thread = threadIdx.x, lane = thread % LANES, group = thread / LANES;
  const int last = starts[v + 1];
  __shared__ real sums[WARPS][TOPICS];
  real total[MINE];
#pragma unroll
  for (int m = 0; m < MINE; m++) total[m] = real(0);
#if OWN
  real level[MINE];
  read_row(levels + (long long)v * stride, stride, lane, level);
#endif
  for (int first = starts[v] + part * GROUPS * AHEAD; first < last; first += parts * GROUPS * AHEAD) {
    real block[AHEAD][MINE], ratio[AHEAD];
#if OWN
    real power[AHEAD];
#endif
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int i = first + a * GROUPS + group;
      const int document = i < last ? documents[i] : 0;
      ratio[a] = i < last ? ratios[i] : real(0);
#if OWN
      power[a] = powers[document];
#endif
      read_row(share + (long long)document * stride, stride, lane, block[a]);
    }
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
#pragma unroll
      for (int m = 0; m < MINE; m++) {
#if OWN
        total[m] += ratio[a] * block[a][m] * exp(power[a] * level[m]);
#else
        total[m] += ratio[a] * block[a][m];
#endif
      }
    }
  }
  write_sums(sums, total, thread);
  __syncthreads();
  for (int topic = thread; topic < topics; topic += THREADS) {
    out[((long long)part * n_words + v) * topics + topic] = total_of(sums, topic);
  }
}
