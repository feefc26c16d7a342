// The MRN distance of all pairs where the halves of a component have at most MRN_HALF coordinates: a
// block passes through all components and adds them up in registers. A byte per pair and component is
// kept, the coordinate of the maximum; norms are computed again.

#define MRN_HALF 16

// The bytes of a row are those of 64 columns after another, a word for four columns that lie 16 apart.
__device__ __forceinline__ long long mrn_words(int columns) { return (columns + 63) / 64 * 16; }

// The maxima of A x 4 pairs and where they were found first; MRN_HALF where none is positive. Bits are
// compared, as in mrn_maximum.
template <int A>
__device__ __forceinline__ void mrn_places(const float* x_rows, const float* y_rows, float (&best)[A][4],
                                           int (&places)[A][4]) {
    auto visit = [&](int a, int b, int m, float first, float second, float third, float fourth) {
        int p = __float_as_int(first), q = __float_as_int(second);
        int r = __float_as_int(third), s = __float_as_int(fourth);
        int before = __float_as_int(best[a][b]);
        int early = __vimax3_s32(before, p, q), now = __vimax3_s32(early, r, s);
        bool late = now != early;
        int place = (late ? m + 2 : m) + ((late ? r : p) != now);
        places[a][b] = now != before ? place : places[a][b];
        best[a][b] = __int_as_float(now);
    };
    mrn_fours<A, 4, 16, MRN_HALF, MRN_HALF / 4>(x_rows, y_rows, visit);
}

// One block: 8A x 64 pairs, A x 4 of them a thread; the next component comes through shared memory while
// one is worked on.
template <int A>
__device__ __forceinline__ void mrn_narrow_pairs(const float* from, const float* to, float* out,
                                                 u32* picks, int rows, int columns, int components,
                                                 int maxima, int squares, bool wide) {
    constexpr int ROWS = 8 * A, LINES = ROWS + 64, PITCH = MRN_HALF + 4, QUADS = MRN_HALF / 2;
    __shared__ __align__(16) float tiles[2][2][LINES * PITCH];
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    int first_row = blockIdx.y * ROWS, first_column = blockIdx.x * 64;
    int part = maxima + squares, width = components * part;
    int half = threadIdx.x % QUADS / (QUADS / 2), quad = 4 * (threadIdx.x % (QUADS / 2));
    int left = (half ? squares : maxima) - quad;
    auto load = [&](int component) {
        int base = component * part + (half ? maxima : 0) + quad;
#pragma unroll
        for (int k = 0; k < LINES * QUADS; k += 128) {
            int line = (threadIdx.x + k) / QUADS;
            if (line >= LINES) break;
            bool start = line < ROWS;
            int item = start ? first_row + line : first_column + line - ROWS;
            const float* source = (start ? from : to) + (long long)item * width + base;
            int count = item < (start ? rows : columns) ? left : 0;
            copy_ahead(tiles[component & 1][half] + line * PITCH + quad, source, count, wide);
        }
        copy_commit();
    };
    float totals[A][4] = {};
    load(0);
    for (int component = 0; component < components; component++) {
        copy_wait<0>();
        __syncthreads();
        if (component + 1 < components) load(component + 1);
        const float* x_rows = tiles[component & 1][0] + ty * PITCH;
        const float* y_rows = tiles[component & 1][0] + (ROWS + tx) * PITCH;
        float best[A][4] = {}, sums[A][4] = {};
        int places[A][4];
        if (picks) {
#pragma unroll
            for (int at = 0; at < 4 * A; at++) places[at / 4][at % 4] = MRN_HALF;
            mrn_places<A>(x_rows, y_rows, best, places);
            u32* word = picks + ((long long)component * rows + first_row + ty) * mrn_words(columns) +
                        16 * blockIdx.x + tx;
#pragma unroll
            for (int a = 0; a < A; a++)
                if (first_row + ty + 8 * a < rows)
                    word[8 * a * mrn_words(columns)] = places[a][0] | places[a][1] << 8 |
                                                       places[a][2] << 16 | places[a][3] << 24;
        } else {
            mrn_maximum<A, 4, 16, MRN_HALF>(x_rows, y_rows, 0, best, places);
        }
        mrn_squares<A, 4, 16, MRN_HALF>(x_rows + LINES * PITCH, y_rows + LINES * PITCH, sums);
#pragma unroll
        for (int at = 0; at < 4 * A; at++)
            totals[at / 4][at % 4] += best[at / 4][at % 4] + mrn_norm(sums[at / 4][at % 4]).x;
    }
    float share = 1.0f / (float)components;
#pragma unroll
    for (int at = 0; at < 4 * A; at++) {
        int row = first_row + ty + at / 4 * 8, column = first_column + tx + at % 4 * 16;
        if (row < rows && column < columns)
            out[(long long)row * columns + column] = totals[at / 4][at % 4] * share;
    }
}

extern "C" __global__ void __launch_bounds__(128)
    mrn_narrow_small(const float* from, const float* to, float* out, u32* picks, int rows, int columns,
                     int components, int maxima, int squares, int wide, long long stride) {
    mrn_narrow_pairs<1>(own(from, stride), own(to, stride), own(out, stride), own(picks, stride), rows,
                        columns, components, maxima, squares, wide);
}

extern "C" __global__ void __launch_bounds__(128, 4)
    mrn_narrow_large(const float* from, const float* to, float* out, u32* picks, int rows, int columns,
                     int components, int maxima, int squares, int wide, long long stride) {
    mrn_narrow_pairs<4>(own(from, stride), own(to, stride), own(out, stride), own(picks, stride), rows,
                        columns, components, maxima, squares, wide);
}

// Every thread has sums of its own in shared memory, one more than coordinates for pairs without a
// maximum: a column of a table, so that each lane of a warp has a bank for itself.
#define MRN_TABLE ((MRN_HALF + 1) * 32)

// The maximum's half by the starts: a warp for a row and a component, in which a thread adds the pairs
// with some of the columns.
extern "C" __global__ void __launch_bounds__(256)
    mrn_narrow_start_maxima(const float* gradient, const u32* picks, float* target, int keep, int rows,
                            int columns, int components, int maxima, int squares, long long stride) {
    __shared__ float tables[8][MRN_TABLE];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = blockIdx.x, component = blockIdx.y * (blockDim.x / 32) + warp;
    if (component >= components) return;
    float* table = tables[warp];
    for (int m = 0; m <= MRN_HALF; m++) table[m * 32 + lane] = 0.0f;
    long long words = mrn_words(columns);
    const u32* chosen = own(picks, stride) + ((long long)component * rows + row) * words;
    const float* slopes = own(gradient, stride) + (long long)row * columns;
#pragma unroll 2
    for (int at = lane; at < words; at += 32) {
        u32 word = chosen[at];
        int column = at / 16 * 64 + at % 16;
#pragma unroll
        for (int b = 0; b < 4; b++) {
            float slope = column + 16 * b < columns ? slopes[column + 16 * b] : 0.0f;
            table[(word >> 8 * b & 255) * 32 + lane] += slope;
        }
    }
    __syncwarp();
    int m = lane % 16;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; k++) sum += table[m * 32 + lane / 16 * 16 + (k + m) % 16];
    sum += __shfl_xor_sync(~0u, sum, 16);
    int part = maxima + squares;
    if (lane < maxima && lane < 16)
        put(own(target, stride) + ((long long)row * components + component) * part + m,
            sum * (1.0f / (float)components), keep);
}

// By the ends: a block for 64 columns and a component; a thread adds every eighth row to sums of four
// columns.
extern "C" __global__ void __launch_bounds__(128)
    mrn_narrow_end_maxima(const float* gradient, const u32* picks, float* target, int keep, int rows,
                          int columns, int components, int maxima, int squares, long long stride) {
    __shared__ float tables[4][4][MRN_TABLE];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, component = blockIdx.y;
    for (int at = threadIdx.x; at < 16 * MRN_TABLE; at += 128) tables[0][0][at] = 0.0f;
    __syncthreads();
    long long words = mrn_words(columns);
    int first = 64 * blockIdx.x, column = first + lane % 16;
    const u32* chosen = own(picks, stride) + (long long)component * rows * words + 16 * blockIdx.x;
    const float* slopes = own(gradient, stride);
#pragma unroll 4
    for (int row = threadIdx.x / 16; row < rows; row += 8) {
        u32 word = chosen[row * words + lane % 16];
#pragma unroll
        for (int b = 0; b < 4; b++) {
            bool valid = column + 16 * b < columns;
            float slope = valid ? slopes[(long long)row * columns + column + 16 * b] : 0.0f;
            tables[warp][b][(word >> 8 * b & 255) * 32 + lane] += slope;
        }
    }
    __syncthreads();
    int part = maxima + squares;
    for (int at = threadIdx.x; at < 64 * MRN_HALF; at += 128) {
        int m = at / 64, item = at % 64, place = m * 32 + item % 16;
        if (m >= maxima || first + item >= columns) continue;
        float sum = 0.0f;
        for (int k = 0; k < 4; k++)
            sum += tables[k][item / 16][place] + tables[k][item / 16][place + 16];
        put(own(target, stride) + ((long long)(first + item) * components + component) * part + m,
            sum * (-1.0f / (float)components), keep);
    }
}

// The norm's half: a block for 64 items of one side and a component. Each warp takes a share of the
// other side, a thread two items; the sums of warps are added in order. By the start and by the end
// alike the sum is of W (own - other).
template <bool START>
__device__ __forceinline__ void mrn_narrow_norms(const float* from, const float* to,
                                                 const float* gradient, float* target, int keep,
                                                 int rows, int columns, int components, int maxima,
                                                 int squares, bool wide, bool wide_gradient) {
    constexpr int WARPS = 4, CHUNK = 32, TILE = CHUNK * MRN_HALF, STEP = START ? 4 : 2;
    __shared__ __align__(16) float room[WARPS][2][TILE];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, component = blockIdx.y;
    int part = maxima + squares, width = components * part, base = component * part + maxima;
    int count = START ? rows : columns, others = START ? columns : rows, first = 64 * blockIdx.x + lane;
    const float *self = (START ? from : to) + base, *other = (START ? to : from) + base;
    float mine[2][MRN_HALF], sums[2][MRN_HALF] = {};
#pragma unroll
    for (int at = 0; at < 2 * MRN_HALF; at++) {
        int item = first + at / MRN_HALF * 32, m = at % MRN_HALF;
        bool valid = item < count && m < squares;
        mine[at / MRN_HALF][m] = valid ? self[(long long)item * width + m] : 0.0f;
    }
    int share = (others + WARPS * CHUNK - 1) / (WARPS * CHUNK) * CHUNK;
    int begin = warp * share, end = begin + share < others ? begin + share : others;
    auto load = [&](int chunk) {
        float* tile = room[warp][chunk / CHUNK & 1];
#pragma unroll
        for (int k = 0; k < TILE / 128; k++) {
            int line = lane / 4 + 8 * k, quad = 4 * (lane % 4);
            int left = chunk + line < end ? squares - quad : 0;
            copy_ahead(tile + line * MRN_HALF + quad, other + (long long)(chunk + line) * width + quad,
                       left, wide);
        }
        copy_commit();
    };
    if (begin < end) load(begin);
    for (int chunk = begin; chunk < end; chunk += CHUNK) {
        copy_wait<0>();
        __syncwarp();
        if (chunk + CHUNK < end) load(chunk + CHUNK);
        const float* tile = room[warp][chunk / CHUNK & 1];
#pragma unroll 1
        for (int some = 0; some < CHUNK; some += STEP) {
            int partner = chunk + some;
            float slopes[2][STEP];
#pragma unroll
            for (int a = 0; a < 2; a++) {
                int item = first + 32 * a;
                const float* place = gradient + (START ? (long long)item * columns + partner
                                                       : (long long)partner * columns + item);
                if (START && wide_gradient && item < count && partner < end) {
                    *(float4*)slopes[a] = *(const float4*)place;
                    continue;
                }
#pragma unroll
                for (int k = 0; k < STEP; k++) {
                    bool valid = item < count && partner + k < end;
                    slopes[a][k] = valid ? place[START ? k : (long long)k * columns] : 0.0f;
                }
            }
#pragma unroll
            for (int k = 0; k < STEP; k++) {
                float y[MRN_HALF];
#pragma unroll
                for (int q = 0; q < MRN_HALF; q += 4)
                    *(float4*)(y + q) = *(const float4*)(tile + (some + k) * MRN_HALF + q);
#pragma unroll
                for (int a = 0; a < 2; a++) {
                    float sum = 0.0f, apart[MRN_HALF];
#pragma unroll
                    for (int m = 0; m < MRN_HALF; m++) {
                        apart[m] = mine[a][m] - y[m];
                        sum = fmaf(apart[m], apart[m], sum);
                    }
                    float weight = slopes[a][k] * mrn_norm(sum).y;
#pragma unroll
                    for (int m = 0; m < MRN_HALF; m++) sums[a][m] = fmaf(weight, apart[m], sums[a][m]);
                }
            }
        }
    }
    __syncthreads();
    float *parts = room[0][0] + lane, mean = 1.0f / (float)components;
    static_assert((WARPS - 1) * 32 * 32 <= WARPS * 2 * TILE, "room for the sums of a block");
    if (warp)
#pragma unroll
        for (int at = 0; at < 32; at++)
            parts[((warp - 1) * 32 + at) * 32] = sums[at / MRN_HALF][at % MRN_HALF];
    __syncthreads();
    if (warp) return;
#pragma unroll
    for (int at = 0; at < 32; at++) {
        float sum = sums[at / MRN_HALF][at % MRN_HALF];
#pragma unroll
        for (int next = 0; next < WARPS - 1; next++) sum += parts[(next * 32 + at) * 32];
        int item = first + at / MRN_HALF * 32, m = at % MRN_HALF;
        if (item < count && m < squares)
            put(target + (long long)item * width + base + m, sum * mean, keep);
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
    mrn_narrow_start_norms(const float* from, const float* to, const float* gradient, float* target,
                           int keep, int rows, int columns, int components, int maxima, int squares,
                           int wide, int wide_gradient, long long stride) {
    mrn_narrow_norms<true>(own(from, stride), own(to, stride), own(gradient, stride),
                           own(target, stride), keep, rows, columns, components, maxima, squares, wide,
                           wide_gradient);
}

extern "C" __global__ void __launch_bounds__(128, 4)
    mrn_narrow_end_norms(const float* from, const float* to, const float* gradient, float* target,
                         int keep, int rows, int columns, int components, int maxima, int squares,
                         int wide, int wide_gradient, long long stride) {
    mrn_narrow_norms<false>(own(from, stride), own(to, stride), own(gradient, stride),
                            own(target, stride), keep, rows, columns, components, maxima, squares, wide,
                            wide_gradient);
}
