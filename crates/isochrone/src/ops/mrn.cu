// The MRN distance. Pairs are streamed over coordinates with direct differences. Backward, a thread
// adds what pairs give to its own coordinates in the order of the pairs; nothing is added by two.

#define MRN_NONE 0xffffffffu

// Copies `count` floats (0 to 4) to shared memory in the background; the rest of four are zeros.
// Four at once where `wide` says that addresses are aligned and only 0 or 4 are asked for.
__device__ __forceinline__ void mrn_copy(float* shared, const float* from, int count, bool wide) {
    u32 place = (u32)__cvta_generic_to_shared(shared);
    if (wide) {
        int bytes = count > 0 ? 16 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from),
                     "r"(bytes));
        return;
    }
#pragma unroll
    for (int at = 0; at < 4; at++) {
        int bytes = at < count ? 4 : 0;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place + 4 * at),
                     "l"(bytes ? from + at : from), "r"(bytes));
    }
}

__device__ __forceinline__ void mrn_commit() { asm volatile("cp.async.commit_group;"); }

__device__ __forceinline__ void mrn_wait() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// The running maximum of T x T pairs over 32 coordinates, and the group of four it was found in. The
// bits of floats that are not negative compare as integers, and negative ones lie below them.
template <int T, int PITCH>
__device__ __forceinline__ void mrn_maximum(const float* x_rows, const float* y_rows, int group,
                                            float (&best)[T][T], int (&groups)[T][T]) {
#pragma unroll 2
    for (int m = 0; m < 32; m += 4) {
        float4 x[T], y[T];
#pragma unroll
        for (int a = 0; a < T; a++) {
            x[a] = *(const float4*)(x_rows + 8 * a * PITCH + m);
            y[a] = *(const float4*)(y_rows + 8 * a * PITCH + m);
        }
#pragma unroll
        for (int a = 0; a < T; a++)
#pragma unroll
            for (int b = 0; b < T; b++) {
                int before = __float_as_int(best[a][b]);
                int first = __vimax3_s32(before, __float_as_int(x[a].x - y[b].x),
                                         __float_as_int(x[a].y - y[b].y));
                int now = __vimax3_s32(first, __float_as_int(x[a].z - y[b].z),
                                       __float_as_int(x[a].w - y[b].w));
                groups[a][b] = now != before ? group + m / 4 : groups[a][b];
                best[a][b] = __int_as_float(now);
            }
    }
}

// The sums of squares of T x T pairs over 32 coordinates.
template <int T, int PITCH>
__device__ __forceinline__ void mrn_squares(const float* x_rows, const float* y_rows,
                                            float (&sums)[T][T]) {
#pragma unroll 2
    for (int m = 0; m < 32; m += 4) {
        float4 x[T], y[T];
#pragma unroll
        for (int a = 0; a < T; a++) {
            x[a] = *(const float4*)(x_rows + 8 * a * PITCH + m);
            y[a] = *(const float4*)(y_rows + 8 * a * PITCH + m);
        }
#pragma unroll
        for (int a = 0; a < T; a++)
#pragma unroll
            for (int b = 0; b < T; b++) {
                float p = x[a].x - y[b].x, q = x[a].y - y[b].y;
                float r = x[a].z - y[b].z, s = x[a].w - y[b].w;
                sums[a][b] = fmaf(p, p, sums[a][b]);
                sums[a][b] = fmaf(q, q, sums[a][b]);
                sums[a][b] = fmaf(r, r, sums[a][b]);
                sums[a][b] = fmaf(s, s, sums[a][b]);
            }
    }
}

// The first coordinate of a group of four whose difference is the maximum.
__device__ __forceinline__ u32 mrn_index(const float* x, const float* y, int group, int maxima,
                                         float best) {
    for (int m = 4 * group; m < 4 * group + 4 && m < maxima; m++)
        if (x[m] - y[m] == best) return m;
    return MRN_NONE;
}

// One block: 8T x 8T pairs. The first 64 threads find maxima, the other 64 sums of squares, each
// T x T pairs; the coordinates come by chunks of 32 through shared memory, two chunks in flight.
template <int T>
__device__ __forceinline__ void mrn_pairs(const float* from, const float* to, float* out,
                                          float* norms, u32* picks, int rows, int columns,
                                          int components, int maxima, int squares, bool wide) {
    constexpr int SIDE = 8 * T, CHUNK = 32, PITCH = CHUNK + 4, TILE = 2 * SIDE * PITCH;
    __shared__ __align__(16) float tiles[2][2][TILE];
    __shared__ float found[SIDE][SIDE + 1];
    int role = threadIdx.x >> 6, within = threadIdx.x & 63, ty = within >> 3, tx = within & 7;
    int first_row = blockIdx.y * SIDE, first_column = blockIdx.x * SIDE;
    int part = maxima + squares, width = components * part;
    int chunks = ((maxima > squares ? maxima : squares) + CHUNK - 1) / CHUNK;
    float total[T][T] = {};
    for (int component = 0; component < components; component++) {
        int base = component * part + (role ? maxima : 0), length = role ? squares : maxima;
        auto load = [&](int chunk) {
            float* tile = tiles[role][chunk & 1];
            int m = chunk * CHUNK + 4 * (within & 7), left = length - m;
#pragma unroll
            for (int k = 0; k < 2 * T; k++) {
                int line = (within >> 3) + 8 * k;
                bool start = k < T;
                int row = start ? first_row + line : first_column + line - SIDE;
                bool valid = left > 0 && row < (start ? rows : columns);
                const float* source = (start ? from : to) + (valid ? row * width + base + m : 0);
                mrn_copy(tile + line * PITCH + 4 * (within & 7), source,
                         valid ? (left < 4 ? left : 4) : 0, wide);
            }
            mrn_commit();
        };
        float best[T][T] = {};
        int groups[T][T];
#pragma unroll
        for (int a = 0; a < T; a++)
#pragma unroll
            for (int b = 0; b < T; b++) groups[a][b] = -1;
        load(0);
        for (int chunk = 0; chunk < chunks; chunk++) {
            mrn_wait();
            __syncthreads();
            if (chunk + 1 < chunks) load(chunk + 1);
            const float* x_rows = tiles[role][chunk & 1] + ty * PITCH;
            const float* y_rows = tiles[role][chunk & 1] + (SIDE + tx) * PITCH;
            if (role)
                mrn_squares<T, PITCH>(x_rows, y_rows, best);
            else
                mrn_maximum<T, PITCH>(x_rows, y_rows, chunk * (CHUNK / 4), best, groups);
        }
#pragma unroll
        for (int a = 0; a < T; a++)
#pragma unroll
            for (int b = 0; b < T; b++) {
                int row = first_row + ty + 8 * a, column = first_column + tx + 8 * b;
                long long place = ((long long)component * rows + row) * columns + column;
                bool valid = row < rows && column < columns;
                if (role) {
                    float norm = sqrtf(best[a][b]);
                    found[ty + 8 * a][tx + 8 * b] = norm;
                    if (valid) norms[place] = norm;
                } else if (valid) {
                    picks[place] = groups[a][b] < 0
                                       ? MRN_NONE
                                       : mrn_index(from + row * width + base,
                                                   to + column * width + base, groups[a][b], maxima,
                                                   best[a][b]);
                }
            }
        __syncthreads();
        if (!role)
#pragma unroll
            for (int a = 0; a < T; a++)
#pragma unroll
                for (int b = 0; b < T; b++)
                    total[a][b] += best[a][b] + found[ty + 8 * a][tx + 8 * b];
    }
    if (role) return;
    float share = 1.0f / (float)components;
#pragma unroll
    for (int a = 0; a < T; a++)
#pragma unroll
        for (int b = 0; b < T; b++) {
            int row = first_row + ty + 8 * a, column = first_column + tx + 8 * b;
            if (row < rows && column < columns) out[row * columns + column] = total[a][b] * share;
        }
}

extern "C" __global__ void __launch_bounds__(128)
    mrn_forward_small(const float* from, const float* to, float* out, float* norms, u32* picks, int rows,
           int columns, int components, int maxima, int squares, int wide, long long stride) {
    mrn_pairs<2>(own(from, stride), own(to, stride), own(out, stride), own(norms, stride),
                 own(picks, stride), rows, columns, components, maxima, squares, wide);
}

extern "C" __global__ void __launch_bounds__(128)
    mrn_forward_large(const float* from, const float* to, float* out, float* norms, u32* picks, int rows,
           int columns, int components, int maxima, int squares, int wide, long long stride) {
    mrn_pairs<4>(own(from, stride), own(to, stride), own(out, stride), own(norms, stride),
                 own(picks, stride), rows, columns, components, maxima, squares, wide);
}

// The norm's half: one block has 16A items of one side and 32 coordinates of one component; 128 threads
// have A items and four coordinates each and go through the items of the other side in order. GROUPS
// such groups take a share of the other side each; their sums are added in order. By the start and by
// the end alike the sum is of W (own - other).
template <bool START, int A, int GROUPS>
__device__ __forceinline__ void mrn_norms(const float* from, const float* to, const float* gradient,
                                          const float* norms, float* target, int keep, int rows,
                                          int columns, int components, int maxima, int squares) {
    constexpr int ITEMS = 16 * A, CHUNK = 32, EACH = ITEMS * CHUNK / 128;
    __shared__ __align__(16) float all_weights[GROUPS][CHUNK][ITEMS + 4];
    __shared__ __align__(16) float all_others[GROUPS][CHUNK][CHUNK + 4];
    int group = threadIdx.x >> 7, within = threadIdx.x & 127, tx = within & 7, ty = within >> 3;
    auto& weights = all_weights[group];
    auto& others = all_others[group];
    int tiles = (squares + 31) / 32, component = blockIdx.y / tiles;
    int inside = 32 * (blockIdx.y % tiles), left = squares - inside;
    int width = components * (maxima + squares);
    int base = component * (maxima + squares) + maxima + inside;
    int count = START ? rows : columns, other_count = START ? columns : rows;
    int first = blockIdx.x * ITEMS;
    const float *self = START ? from : to, *other = START ? to : from;
    norms += (long long)component * rows * columns;
    float share = 1.0f / (float)components, mine[A][4], sums[A][4] = {};
#pragma unroll
    for (int a = 0; a < A; a++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            int item = first + A * ty + a, m = 4 * tx + q;
            mine[a][q] = item < count && m < left ? self[item * width + base + m] : 0.0f;
        }
    float slopes[EACH], lengths[EACH], ahead[8];
    auto load = [&](int chunk) {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int at = within + 128 * k;
            int item = first + (START ? at / CHUNK : at % ITEMS);
            int partner = chunk + (START ? at % CHUNK : at / ITEMS);
            bool valid = item < count && partner < other_count;
            int place = START ? item * columns + partner : partner * columns + item;
            slopes[k] = valid ? gradient[place] : 0.0f;
            lengths[k] = valid ? norms[place] : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int at = within + 128 * k, partner = chunk + at / CHUNK, m = at % CHUNK;
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
        for (int k = 0; k < EACH; k++) {
            int at = within + 128 * k;
            float weight = lengths[k] > 0.0f ? slopes[k] * share / lengths[k] : 0.0f;
            weights[START ? at % CHUNK : at / ITEMS][START ? at / CHUNK : at % ITEMS] = weight;
        }
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int at = within + 128 * k;
            others[at / CHUNK][at % CHUNK] = ahead[k];
        }
        __syncthreads();
        if (round + 1 < rounds) load(start + (round + 1) * CHUNK);
#pragma unroll 8
        for (int o = 0; o < CHUNK; o++) {
            float4 y = *(const float4*)&others[o][4 * tx];
            float w[A];
            if constexpr (A == 2)
                *(float2*)w = *(const float2*)&weights[o][2 * ty];
            else
                w[0] = weights[o][ty];
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
    float* room = &all_others[0][0][0];
#pragma unroll
    for (int a = 0; a < A; a++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            if (GROUPS > 1 && group) room[(group - 1) * 128 + within] = sums[a][q];
            __syncthreads();
            int item = first + A * ty + a, m = 4 * tx + q;
            if (group == 0 && item < count && m < left) {
                float sum = sums[a][q];
                for (int next = 0; next < GROUPS - 1; next++) sum += room[next * 128 + within];
                put(target + item * width + base + m, sum, keep);
            }
            __syncthreads();
        }
}

extern "C" __global__ void __launch_bounds__(512)
    mrn_start_norms_small(const float* from, const float* to, const float* gradient, const float* norms,
           float* target, int keep, int rows, int columns, int components, int maxima, int squares,
           long long stride) {
    mrn_norms<true, 1, 4>(own(from, stride), own(to, stride), own(gradient, stride),
                          own(norms, stride), own(target, stride), keep, rows, columns, components,
                          maxima, squares);
}

extern "C" __global__ void __launch_bounds__(256)
    mrn_start_norms_large(const float* from, const float* to, const float* gradient, const float* norms,
           float* target, int keep, int rows, int columns, int components, int maxima, int squares,
           long long stride) {
    mrn_norms<true, 2, 2>(own(from, stride), own(to, stride), own(gradient, stride),
                          own(norms, stride), own(target, stride), keep, rows, columns, components,
                          maxima, squares);
}

extern "C" __global__ void __launch_bounds__(512)
    mrn_end_norms_small(const float* from, const float* to, const float* gradient, const float* norms,
           float* target, int keep, int rows, int columns, int components, int maxima, int squares,
           long long stride) {
    mrn_norms<false, 1, 4>(own(from, stride), own(to, stride), own(gradient, stride),
                          own(norms, stride), own(target, stride), keep, rows, columns, components,
                          maxima, squares);
}

extern "C" __global__ void __launch_bounds__(256)
    mrn_end_norms_large(const float* from, const float* to, const float* gradient, const float* norms,
           float* target, int keep, int rows, int columns, int components, int maxima, int squares,
           long long stride) {
    mrn_norms<false, 2, 2>(own(from, stride), own(to, stride), own(gradient, stride),
                          own(norms, stride), own(target, stride), keep, rows, columns, components,
                          maxima, squares);
}

// The maximum's half: one block has four items of one side and up to 256 coordinates of one component.
// 256 threads fetch pairs; of 32 of them eight an item add a share of the pairs, in order, to sums of
// their own, and these are added in order.
template <bool START>
__device__ __forceinline__ void mrn_maxima(const float* gradient, const u32* picks, float* target,
                                           int keep, int rows, int columns, int components,
                                           int maxima, int squares) {
    constexpr int MOST = 256, PITCH = MOST + 1, CHUNK = 256, EACH = CHUNK / 8;
    __shared__ float sums[32 * PITCH];
    __shared__ u32 chosen[4][CHUNK + 8];
    __shared__ float weights[4][CHUNK + 8];
    int tiles = (maxima + MOST - 1) / MOST, component = blockIdx.y / tiles;
    int inside = MOST * (blockIdx.y % tiles), length = maxima - inside;
    length = length < MOST ? length : MOST;
    int part = maxima + squares, width = components * part, first = 4 * blockIdx.x;
    int count = START ? rows : columns, other_count = START ? columns : rows;
    float share = (START ? 1.0f : -1.0f) / (float)components;
    picks += (long long)component * rows * columns;
    for (int at = threadIdx.x; at < 32 * PITCH; at += 256) sums[at] = 0.0f;
    for (int chunk = 0; chunk < other_count; chunk += CHUNK) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int at = threadIdx.x + 256 * k;
            int item = START ? at / CHUNK : at % 4, other = START ? at % CHUNK : at / 4;
            bool valid = first + item < count && chunk + other < other_count;
            int place = START ? (first + item) * columns + chunk + other
                              : (chunk + other) * columns + first + item;
            chosen[item][other] = valid ? picks[place] - (u32)inside : MRN_NONE;
            weights[item][other] = valid ? gradient[place] * share : 0.0f;
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            int item = threadIdx.x & 3, from = (threadIdx.x >> 2) * EACH;
            float* mine = sums + threadIdx.x * PITCH;
#pragma unroll 8
            for (int other = from; other < from + EACH; other++) {
                u32 m = chosen[item][other];
                if (m < (u32)length) mine[m] += weights[item][other];
            }
        }
    }
    __syncthreads();
    for (int item = 0; item < 4 && first + item < count; item++)
        for (int m = threadIdx.x; m < length; m += 256) {
            float sum = 0.0f;
#pragma unroll
            for (int worker = 0; worker < 8; worker++) sum += sums[(item + 4 * worker) * PITCH + m];
            put(target + (first + item) * width + component * part + inside + m, sum, keep);
        }
}

extern "C" __global__ void
    mrn_start_maxima(const float* gradient, const u32* picks, float* target, int keep, int rows, int columns,
           int components, int maxima, int squares, long long stride) {
    mrn_maxima<true>(own(gradient, stride), own(picks, stride), own(target, stride), keep, rows,
                     columns, components, maxima, squares);
}

extern "C" __global__ void
    mrn_end_maxima(const float* gradient, const u32* picks, float* target, int keep, int rows, int columns,
           int components, int maxima, int squares, long long stride) {
    mrn_maxima<false>(own(gradient, stride), own(picks, stride), own(target, stride), keep, rows,
                     columns, components, maxima, squares);
}

// Corresponding rows, a warp a row.
extern "C" __global__ void mrn_by_row_forward(const float* from, const float* to, float* out,
                                              float* norms, u32* picks, int rows, int components,
                                              int maxima, int squares, long long stride) {
    int row = first_index() / 32, lane = threadIdx.x & 31, part = maxima + squares;
    if (row >= rows) return;
    float total = 0.0f;
    for (int component = 0; component < components; component++) {
        const float* x = own(from, stride) + (row * components + component) * part;
        const float* y = own(to, stride) + (row * components + component) * part;
        float best = 0.0f, sum = 0.0f;
        u32 index = MRN_NONE;
        for (int m = lane; m < maxima; m += 32) {
            float difference = x[m] - y[m];
            if (difference > best) best = difference, index = m;
        }
        for (int offset = 16; offset; offset >>= 1) {
            float other = __shfl_xor_sync(~0u, best, offset);
            u32 place = __shfl_xor_sync(~0u, index, offset);
            if (other > best || (other == best && place < index)) best = other, index = place;
        }
        for (int m = maxima + lane; m < part; m += 32) {
            float difference = x[m] - y[m];
            sum = fmaf(difference, difference, sum);
        }
        float norm = sqrtf(warp_sum(sum));
        total += best + norm;
        if (lane == 0) {
            own(norms, stride)[row * components + component] = norm;
            own(picks, stride)[row * components + component] = index;
        }
    }
    if (lane == 0) own(out, stride)[row] = total * (1.0f / (float)components);
}

extern "C" __global__ void mrn_by_row_backward(const float* from, const float* to,
                                               const float* gradient, const float* norms,
                                               const u32* picks, float* starts, int keep_starts,
                                               float* ends, int keep_ends, int rows, int components,
                                               int maxima, int squares, long long stride) {
    int at = first_index(), part = maxima + squares;
    if (at >= rows * components * part) return;
    int m = at % part, place = at / part;
    float share = own(gradient, stride)[place / components] * (1.0f / (float)components);
    float value = 0.0f;
    if (m < maxima) {
        value = own(picks, stride)[place] == m ? share : 0.0f;
    } else {
        float norm = own(norms, stride)[place];
        if (norm > 0.0f) value = share / norm * (own(from, stride)[at] - own(to, stride)[at]);
    }
    if (starts) put(own(starts, stride) + at, value, keep_starts);
    if (ends) put(own(ends, stride) + at, -value, keep_ends);
}
