// The MRN distance of all pairs backward: a thread adds what pairs give to its own coordinates in the
// order of the pairs, or whole numbers are added in any.

// The norm's half: one block has A TY items of one side and 4 TX coordinates of one component; TX TY
// threads have A items and four coordinates each and go through the items of the other side in order.
// GROUPS such groups take a share of the other side each; their sums are added in order. By the start
// and by the end alike the sum is of W (own - other).
template <bool START, int A, int TX, int TY, int GROUPS, int CHUNK>
__device__ __forceinline__ void mrn_norms(const float* from, const float* to, const float* gradient,
                                          const float* inverses, float* target, int keep, int rows,
                                          int columns, int components, int maxima, int squares) {
    constexpr int ITEMS = A * TY, WIDTH = 4 * TX, GROUP = TX * TY;
    constexpr int WEIGHTS = ITEMS * CHUNK / GROUP, OTHERS = WIDTH * CHUNK / GROUP;
    constexpr int ROOM = CHUNK * (ITEMS + 4 + WIDTH + 4);
    constexpr int SUMS = (GROUPS - 1) * GROUP * 4 * A;
    __shared__ __align__(16) float room[GROUPS * ROOM > SUMS ? GROUPS * ROOM : SUMS];
    int group = threadIdx.x / GROUP, within = threadIdx.x % GROUP, tx = within % TX, ty = within / TX;
    float *weights = room + group * ROOM, *others = weights + CHUNK * (ITEMS + 4);
    int tiles = (squares + WIDTH - 1) / WIDTH, component = blockIdx.y / tiles;
    int inside = WIDTH * (blockIdx.y % tiles), left = squares - inside;
    int width = components * (maxima + squares);
    int base = component * (maxima + squares) + maxima + inside;
    int count = START ? rows : columns, other_count = START ? columns : rows;
    int first = blockIdx.x * ITEMS;
    const float *self = START ? from : to, *other = START ? to : from;
    inverses += (long long)component * rows * columns;
    float share = 1.0f / (float)components, mine[A][4], sums[A][4] = {};
#pragma unroll
    for (int a = 0; a < A; a++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            int item = first + A * ty + a, m = 4 * tx + q;
            mine[a][q] = item < count && m < left ? self[item * width + base + m] : 0.0f;
        }
    float slopes[WEIGHTS], scales[WEIGHTS], ahead[OTHERS];
    auto load = [&](int chunk) {
#pragma unroll
        for (int k = 0; k < WEIGHTS; k++) {
            int at = within + GROUP * k;
            int item = first + (START ? at / CHUNK : at % ITEMS);
            int partner = chunk + (START ? at % CHUNK : at / ITEMS);
            bool valid = item < count && partner < other_count;
            int place = START ? item * columns + partner : partner * columns + item;
            slopes[k] = valid ? gradient[place] : 0.0f;
            scales[k] = valid ? inverses[place] : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < OTHERS; k++) {
            int at = within + GROUP * k, partner = chunk + at / WIDTH, m = at % WIDTH;
            bool valid = partner < other_count && m < left;
            ahead[k] = valid ? other[partner * width + base + m] : 0.0f;
        }
    };
    int rounds = (other_count + GROUPS * CHUNK - 1) / (GROUPS * CHUNK);
    int start = group * rounds * CHUNK;
    load(start);
    for (int round = 0; round < rounds; round++) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < WEIGHTS; k++) {
            int at = within + GROUP * k;
            int item = START ? at / CHUNK : at % ITEMS, partner = START ? at % CHUNK : at / ITEMS;
            weights[partner * (ITEMS + 4) + item] = slopes[k] * share * scales[k];
        }
#pragma unroll
        for (int k = 0; k < OTHERS; k++) {
            int at = within + GROUP * k;
            others[at / WIDTH * (WIDTH + 4) + at % WIDTH] = ahead[k];
        }
        __syncthreads();
        if (round + 1 < rounds) load(start + (round + 1) * CHUNK);
#pragma unroll(A > 2 ? 2 : 8)
        for (int o = 0; o < CHUNK; o++) {
            float4 y = *(const float4*)(others + o * (WIDTH + 4) + 4 * tx);
            float w[A];
            if constexpr (A % 4 == 0) {
#pragma unroll
                for (int a = 0; a < A; a += 4)
                    *(float4*)(w + a) = *(const float4*)(weights + o * (ITEMS + 4) + A * ty + a);
            } else {
#pragma unroll
                for (int a = 0; a < A; a++) w[a] = weights[o * (ITEMS + 4) + A * ty + a];
            }
#pragma unroll
            for (int a = 0; a < A; a++) {
                sums[a][0] = fmaf(w[a], mine[a][0] - y.x, sums[a][0]);
                sums[a][1] = fmaf(w[a], mine[a][1] - y.y, sums[a][1]);
                sums[a][2] = fmaf(w[a], mine[a][2] - y.z, sums[a][2]);
                sums[a][3] = fmaf(w[a], mine[a][3] - y.w, sums[a][3]);
            }
        }
    }
    __syncthreads();
    if (group)
#pragma unroll
        for (int at = 0; at < 4 * A; at++)
            room[((group - 1) * 4 * A + at) * GROUP + within] = sums[at / 4][at % 4];
    __syncthreads();
    if (group) return;
#pragma unroll
    for (int at = 0; at < 4 * A; at++) {
        float sum = sums[at / 4][at % 4];
        for (int next = 0; next < GROUPS - 1; next++) sum += room[(next * 4 * A + at) * GROUP + within];
        int item = first + A * ty + at / 4, m = 4 * tx + at % 4;
        if (item < count && m < left) put(target + item * width + base + m, sum, keep);
    }
}

// With norms from products: weights W of all pairs, row after row and, where asked for, column after
// column. Where a pair is so near that the difference of two sums would lose its digits, its weight is left
// out and a bit is set, by rows and by columns. A warp has 32 x 32 pairs.
extern "C" __global__ void mrn_weights_large(const float* gradient, const float* inverses,
                                             const float* start_lengths, const float* end_lengths,
                                             float* weights, float* across, u32* near_starts,
                                             u32* near_ends, int rows, int columns, int components,
                                             long long stride) {
    int strips = (rows + 31) / 32, words = (columns + 31) / 32;
    int component = blockIdx.y / strips, strip = blockIdx.y % strips;
    int column = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    long long first = (long long)component * rows + 32 * strip;
    gradient = own(gradient, stride) + (long long)(32 * strip) * columns + column;
    inverses = own(inverses, stride) + first * columns + column;
    weights = own(weights, stride) + first * columns + column;
    start_lengths = own(start_lengths, stride) + first;
    long long its = (long long)component * columns + column;
    bool asked = across && column < columns;
    across = own(across, stride) + its * rows + 32 * strip;
    float share = 1.0f / (float)components;
    float length = column < columns ? own(end_lengths, stride)[its] : 0.0f;
    u32 mine = 0;
    for (int eight = 0; eight < 32; eight += 8) {
        float slopes[8], scales[8], lengths[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int row = eight + k;
            bool valid = 32 * strip + row < rows && column < columns;
            slopes[k] = valid ? gradient[row * columns] : 0.0f;
            scales[k] = valid ? inverses[row * columns] : 0.0f;
            lengths[k] = valid ? start_lengths[row] + length : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int row = eight + k;
            bool close = scales[k] * scales[k] * lengths[k] > 1e4f;
            bool inside = 32 * strip + row < rows && column < columns;
            u32 together = __ballot_sync(~0u, close);
            mine |= (u32)close << row;
            if (inside && lane == 0)
                own(near_starts, stride)[(first + row) * words + column / 32] = together;
            slopes[k] = close ? 0.0f : slopes[k] * share * scales[k];
            if (inside) weights[row * columns] = slopes[k];
        }
#pragma unroll
        for (int k = 0; k < 8; k += 4) {
            int row = eight + k, left = rows - 32 * strip - row;
            if (asked && rows % 4 == 0 && left > 0)
                *(float4*)(across + row) =
                    make_float4(slopes[k], slopes[k + 1], slopes[k + 2], slopes[k + 3]);
            else
#pragma unroll
                for (int q = 0; q < 4; q++)
                    if (asked && q < left) across[row + q] = slopes[k + q];
        }
    }
    if (column < columns) own(near_ends, stride)[its * strips + strip] = mine;
}

// The norm's gradient of one side from `sums`, the products of W with the other side's halves: with any
// point c it is (sum W) (own - c) - sum W (other - c); c is the first end. Near pairs are added one by one,
// by differences. A block has one item and component; `step` and `other_step` lead from pair to pair.
extern "C" __global__ void mrn_norms_large(const float* self, const float* other, const float* first,
                                           const float* sums, const u32* near, const float* gradient,
                                           const float* inverses, float* target, int keep, int items,
                                           int others, int step, int other_step, int components,
                                           int maxima, int squares, long long stride) {
    int item = blockIdx.x, component = blockIdx.y, words = (others + 31) / 32;
    int part = maxima + squares, width = components * part, base = component * part + maxima;
    long long place = (long long)component * items + item;
    self = own(self, stride) + (long long)item * width + base;
    target = own(target, stride) + (long long)item * width + base;
    other = own(other, stride) + base, first = own(first, stride) + base;
    sums = own(sums, stride) + place * (2 * squares + 4);
    near = own(near, stride) + place * words;
    gradient = own(gradient, stride) + (long long)item * step;
    inverses = own(inverses, stride) + (long long)component * items * others + (long long)item * step;
    float share = 1.0f / (float)components;
    for (int m = threadIdx.x; m < squares; m += blockDim.x) {
        float mine = self[m], by_items = sums[4 + m] + sums[4 + squares + m];
        float sum = fmaf(sums[0], mine - first[m], -by_items);
#pragma unroll 8
        for (int word = 0; word < words; word++)
            for (u32 left = near[word]; left; left &= left - 1) {
                int partner = 32 * word + __ffs(left) - 1;
                long long pair = (long long)partner * other_step;
                float weight = gradient[pair] * share * inverses[pair];
                sum = fmaf(weight, mine - other[(long long)partner * width + m], sum);
            }
        put(target + m, sum, keep);
    }
}

extern "C" __global__ void __launch_bounds__(512)
    mrn_start_norms_small(const float* from, const float* to, const float* gradient,
                            const float* inverses, float* target, int keep, int rows, int columns,
                            int components, int maxima, int squares, long long stride) {
    mrn_norms<true, 1, 8, 16, 4, 32>(own(from, stride), own(to, stride), own(gradient, stride),
                                 own(inverses, stride), own(target, stride), keep, rows, columns,
                                 components, maxima, squares);
}

extern "C" __global__ void __launch_bounds__(512)
    mrn_end_norms_small(const float* from, const float* to, const float* gradient,
                            const float* inverses, float* target, int keep, int rows, int columns,
                            int components, int maxima, int squares, long long stride) {
    mrn_norms<false, 1, 8, 16, 4, 32>(own(from, stride), own(to, stride), own(gradient, stride),
                                 own(inverses, stride), own(target, stride), keep, rows, columns,
                                 components, maxima, squares);
}

// The maximum's half: a block has ITEMS items of one side and up to MRN_MOST coordinates of one component.
// Gradients are added as whole numbers, in units of their absolute sum over 2^30: in any order the sum is
// the same.
#define MRN_MOST 256

template <bool START, int ITEMS>
__device__ __forceinline__ void mrn_maxima(const float* gradient, const u32* picks, float* target,
                                           int keep, int rows, int columns, int components,
                                           int maxima, int squares) {
    constexpr int ABREAST = 256 / ITEMS;
    __shared__ int sums[ITEMS][MRN_MOST];
    __shared__ float parts[8][ITEMS], units[ITEMS];
    int tiles = (maxima + MRN_MOST - 1) / MRN_MOST, component = blockIdx.y / tiles;
    int inside = MRN_MOST * (blockIdx.y % tiles), length = maxima - inside;
    length = length < MRN_MOST ? length : MRN_MOST;
    int part = maxima + squares, width = components * part, first = ITEMS * blockIdx.x;
    int count = START ? rows : columns, other_count = START ? columns : rows;
    int within = threadIdx.x % ITEMS, lane = threadIdx.x / ITEMS, item = first + within;
    int start = START ? item * columns : item, step = START ? 1 : columns;
    float share = (START ? 1.0f : -1.0f) / (float)components;
    picks += (long long)component * rows * columns;
    for (int at = threadIdx.x; at < ITEMS * MRN_MOST; at += 256) sums[at / MRN_MOST][at % MRN_MOST] = 0;
    float absolute = 0.0f;
    if (item < count)
#pragma unroll 4
        for (int other = lane; other < other_count; other += ABREAST)
            absolute += fabsf(gradient[start + other * step]);
    for (int offset = ITEMS; offset < 32; offset <<= 1)
        absolute += __shfl_xor_sync(~0u, absolute, offset);
    parts[threadIdx.x / 32][within] = absolute;
    __syncthreads();
    if (threadIdx.x < ITEMS) {
        for (int warp = 1; warp < 8; warp++) absolute += parts[warp][within];
        units[within] = (absolute < 1e-28f ? 1e-28f : absolute) * 0x1p-30f;
    }
    __syncthreads();
    float scale = 1.0f / units[within];
    if (item < count)
#pragma unroll 4
        for (int other = lane; other < other_count; other += ABREAST) {
            int place = start + other * step;
            u32 m = picks[place] - (u32)inside;
            int units_of = __float2int_rn(gradient[place] * scale);
            if (m < (u32)length) atomicAdd(&sums[within][m], units_of);
        }
    __syncthreads();
    for (int at = threadIdx.x; at < ITEMS * MRN_MOST; at += 256) {
        int its = at / MRN_MOST, m = at % MRN_MOST;
        if (first + its < count && m < length)
            put(target + (long long)(first + its) * width + component * part + inside + m,
                (float)sums[its][m] * units[its] * share, keep);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    mrn_start_maxima(const float* gradient, const u32* picks, float* target, int keep, int rows,
                     int columns, int components, int maxima, int squares, long long stride) {
    mrn_maxima<true, 1>(own(gradient, stride), own(picks, stride), own(target, stride), keep, rows,
                        columns, components, maxima, squares);
}

extern "C" __global__ void __launch_bounds__(256)
    mrn_end_maxima(const float* gradient, const u32* picks, float* target, int keep, int rows,
                   int columns, int components, int maxima, int squares, long long stride) {
    mrn_maxima<false, 8>(own(gradient, stride), own(picks, stride), own(target, stride), keep, rows,
                         columns, components, maxima, squares);
}
