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

// The same for many items: 64 items and 64 coordinates per block, 8 x 8 per thread, GROUPS groups of 64
// threads. With any point c the sum is (sum W) (own - c) - sum W (other - c), half the work; c is the
// other side's first item. Where a pair is so near that this would lose digits (its norm below a
// hundredth of that of own - c), its whole chunk is added by differences.
template <bool START, int GROUPS>
__device__ __forceinline__ void mrn_products(const float* from, const float* to,
                                             const float* gradient, const float* inverses,
                                             float* target, int keep, int rows, int columns,
                                             int components, int maxima, int squares) {
    constexpr int SIDE = 64, CHUNK = 8, PITCH = SIDE + 4, STEP = START ? 64 / CHUNK : 1;
    __shared__ __align__(16) float room[GROUPS][2][CHUNK * PITCH];
    __shared__ float totals[GROUPS][SIDE];
    int group = threadIdx.x / 64, within = threadIdx.x % 64, tx = within % 8, ty = within / 8;
    float *weights = room[group][0], *others = room[group][1];
    int tiles = (squares + SIDE - 1) / SIDE, component = blockIdx.y / tiles;
    int inside = SIDE * (blockIdx.y % tiles), left = squares - inside;
    int width = components * (maxima + squares);
    int base = component * (maxima + squares) + maxima + inside;
    int count = START ? rows : columns, other_count = START ? columns : rows;
    int first = blockIdx.x * SIDE;
    const float *self = (START ? from : to) + base, *other = (START ? to : from) + base;
    inverses += (long long)component * rows * columns;
    int rounds = (other_count + GROUPS * CHUNK - 1) / (GROUPS * CHUNK), chunk = group * rounds * CHUNK;
    // Of a chunk's weights a thread fetches eight: of one partner (START) or of one item.
    int item = START ? within / CHUNK : within, partner = START ? within % CHUNK : 0;
    long long place = START ? (long long)(first + item) * columns + chunk + partner
                            : (long long)(chunk + partner) * columns + first + item;
    const float *slope = gradient + place, *scale = inverses + place;
    long long step = (long long)STEP * columns, round_step = START ? CHUNK : (long long)CHUNK * columns;
    const float* ahead_from = other + (long long)chunk * width + within;
    float share = 1.0f / (float)components, limit = 3.0e38f, slopes[8], scales[8], ahead[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        int at = first + item + (START ? STEP * k : 0);
        float nearest = at >= count ? 0.0f : START ? inverses[(long long)at * columns] : inverses[at];
        if (nearest > 0.0f) limit = fminf(limit, 100.0f * nearest);
    }
    float centre = within < left ? other[within] : 0.0f;
    auto load = [&]() {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            bool valid = START ? first + item + STEP * k < count && chunk + partner < other_count
                               : first + item < count && chunk + k < other_count;
            slopes[k] = valid ? slope[k * step] : 0.0f;
            scales[k] = valid ? scale[k * step] : 0.0f;
            ahead[k] = within < left && chunk + k < other_count ? ahead_from[(long long)k * width] : centre;
        }
        slope += round_step, scale += round_step, ahead_from += (long long)CHUNK * width, chunk += CHUNK;
    };
    float sums[8][8] = {}, total = 0.0f;
    load();
    for (int round = 0; round < rounds; round++) {
        bool close = false;
#pragma unroll
        for (int k = 0; k < 8; k++) close |= scales[k] > limit;
        bool differences = __syncthreads_or(close);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            weights[START ? partner * PITCH + item + STEP * k : k * PITCH + item] =
                slopes[k] * share * scales[k];
            others[k * PITCH + within] = ahead[k] - (differences ? 0.0f : centre);
        }
        __syncthreads();
        if (round + 1 < rounds) load();
        if (differences) {
#pragma unroll
            for (int a = 0; a < 8; a++) {
                int i = 4 * ty + a + (a > 3 ? 28 : 0);
                float mine[8];
#pragma unroll
                for (int q = 0; q < 8; q++) {
                    int m = 4 * tx + q + (q > 3 ? 28 : 0);
                    bool valid = first + i < count && m < left;
                    mine[q] = valid ? self[(long long)(first + i) * width + m] : 0.0f;
                }
#pragma unroll 1
                for (int o = 0; o < CHUNK; o++) {
                    float w = weights[o * PITCH + i], y[8];
                    *(float4*)y = *(const float4*)(others + o * PITCH + 4 * tx);
                    *(float4*)(y + 4) = *(const float4*)(others + o * PITCH + 4 * tx + 32);
#pragma unroll
                    for (int q = 0; q < 8; q++) sums[a][q] = fmaf(w, y[q] - mine[q], sums[a][q]);
                }
            }
            continue;
        }
#pragma unroll
        for (int o = 0; o < CHUNK; o++) {
            float w[8], y[8];
            *(float4*)w = *(const float4*)(weights + o * PITCH + 4 * ty);
            *(float4*)(w + 4) = *(const float4*)(weights + o * PITCH + 4 * ty + 32);
            *(float4*)y = *(const float4*)(others + o * PITCH + 4 * tx);
            *(float4*)(y + 4) = *(const float4*)(others + o * PITCH + 4 * tx + 32);
            total += weights[o * PITCH + within];
#pragma unroll
            for (int a = 0; a < 8; a++)
#pragma unroll
                for (int q = 0; q < 8; q++) sums[a][q] = fmaf(w[a], y[q], sums[a][q]);
        }
    }
    totals[group][within] = total;
    __syncthreads();
    // Eight items at once: every group writes its sums, then all threads add groups in order.
    float* parts = &room[0][0][0];
#pragma unroll
    for (int a = 0; a < 8; a++) {
#pragma unroll
        for (int q = 0; q < 8; q++) parts[(8 * group + q) * 64 + within] = sums[a][q];
        __syncthreads();
        for (int at = threadIdx.x; at < 512; at += 64 * GROUPS) {
            int q = at / 64, owner = at % 64;
            int i = 4 * (owner / 8) + a + (a > 3 ? 28 : 0), m = 4 * (owner % 8) + q + (q > 3 ? 28 : 0);
            float sum = 0.0f, weight = 0.0f;
            for (int next = 0; next < GROUPS; next++) {
                sum += parts[(8 * next + q) * 64 + owner];
                weight += totals[next][i];
            }
            if (first + i < count && m < left) {
                long long own_place = (long long)(first + i) * width + m;
                put(target + base + own_place, fmaf(weight, self[own_place] - other[m], -sum), keep);
            }
        }
        __syncthreads();
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

extern "C" __global__ void __launch_bounds__(256, 2)
    mrn_start_norms_large(const float* from, const float* to, const float* gradient,
                            const float* inverses, float* target, int keep, int rows, int columns,
                            int components, int maxima, int squares, long long stride) {
    mrn_products<true, 4>(own(from, stride), own(to, stride), own(gradient, stride),
                         own(inverses, stride), own(target, stride), keep, rows, columns, components,
                         maxima, squares);
}

extern "C" __global__ void __launch_bounds__(512)
    mrn_end_norms_small(const float* from, const float* to, const float* gradient,
                            const float* inverses, float* target, int keep, int rows, int columns,
                            int components, int maxima, int squares, long long stride) {
    mrn_norms<false, 1, 8, 16, 4, 32>(own(from, stride), own(to, stride), own(gradient, stride),
                                 own(inverses, stride), own(target, stride), keep, rows, columns,
                                 components, maxima, squares);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    mrn_end_norms_large(const float* from, const float* to, const float* gradient,
                            const float* inverses, float* target, int keep, int rows, int columns,
                            int components, int maxima, int squares, long long stride) {
    mrn_products<false, 4>(own(from, stride), own(to, stride), own(gradient, stride),
                         own(inverses, stride), own(target, stride), keep, rows, columns, components,
                         maxima, squares);
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
