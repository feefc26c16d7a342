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
    mrn_fours<A, 4, 16, 8, MRN_HALF, MRN_HALF / 4>(x_rows, y_rows, visit);
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
            mrn_maximum<A, 4, 16, 8, MRN_HALF>(x_rows, y_rows, 0, best, places);
        }
        mrn_squares<A, 4, 16, 8, MRN_HALF>(x_rows + LINES * PITCH, y_rows + LINES * PITCH, sums);
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

// A number as the sum of two that TF32 holds, to about twice the bits of one.
struct Parts {
    float high, low;
};
__device__ __forceinline__ Parts mrn_split(float x) {
    float high = __int_as_float(__float_as_int(x) & 0xffffe000);
    return {high, x - high};
}

// Adds 16 x 8 weights times 8 x 16 numbers to `found`, both in two parts, and the weights alone to `all`;
// what two low parts would add is left out.
__device__ __forceinline__ void mrn_product(float (&found)[2][4], float (&all)[4],
                                            const float (&weights)[4], const Parts (&numbers)[2][2]) {
    const float ones[2] = {1.0f, 1.0f};
    float high[4], low[4];
#pragma unroll
    for (int at = 0; at < 4; at++) {
        Parts weight = mrn_split(weights[at]);
        high[at] = weight.high, low[at] = weight.low;
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
        float b_high[2] = {numbers[n][0].high, numbers[n][1].high};
        float b_low[2] = {numbers[n][0].low, numbers[n][1].low};
        product_step(found[n], low, b_high);
        product_step(found[n], high, b_low);
        product_step(found[n], high, b_high);
    }
    product_step(all, low, ones);
    product_step(all, high, ones);
}

// Where the number of a start (0 to 31) and an end (0 to 15) lies, so that neither those who write along a
// row nor those who read along a column meet in a bank.
__device__ __forceinline__ int mrn_crossed(int start, int end) {
    return 16 * start + (end ^ (start & 2) * 4);
}

// The norm's half of both sides. The gradient of a pair is W (x - y) with W its slope over its norm, so
// that by the starts it sums up to (sum of W) x - W y, a product of matrices, and likewise by the ends.
// Norms are of direct differences; the products are of numbers in two parts, less those of a start of
// the block, so that what is common to all is not added up. What is close together has a large W and is
// lost in such sums: a start and the end of the same number, which as a rule belong together, are left
// out here and added as they are. A block has 128 starts and a component: 4 bands of 32 starts in 2
// streams, each of which goes through half of the ends, 32 at a time. What a block finds for an end is
// left in `parts`.
#define MRN_BAND 32
#define MRN_BLOCK 128

extern "C" __global__ void __launch_bounds__(256, 2)
    mrn_narrow_norms(const float* from, const float* to, const float* gradient, float* starts, int keep,
                     float* parts, int rows, int columns, int components, int maxima, int squares,
                     int wide, int wide_gradient, long long stride) {
    constexpr int PITCH = MRN_HALF + 4, SUM_PITCH = MRN_HALF + 8, STEP = 32;
    extern __shared__ __align__(16) float launch_room[];
    float* x_tile = launch_room;
    float4* x_parts = (float4*)(x_tile + MRN_BLOCK * PITCH);
    float* y_tiles = (float*)(x_parts + 4 * 4 * 2 * 32);
    float* crossed = y_tiles + 2 * 2 * STEP * PITCH;
    float* sums = crossed + 8 * MRN_BAND * 16;
    from = own(from, stride), to = own(to, stride), gradient = own(gradient, stride);
    starts = own(starts, stride), parts = own(parts, stride);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int band = warp % 4, stream = warp / 4, component = blockIdx.y, first = MRN_BLOCK * blockIdx.x;
    int part = maxima + squares, width = components * part, base = component * part + maxima;
    int within = threadIdx.x % 128, line = within / 4, quad = 4 * (within % 4);
    crossed += warp * MRN_BAND * 16;
    x_parts += band * 4 * 2 * 32 + lane;
    y_tiles += stream * 2 * STEP * PITCH;

    int rounds = (columns + 2 * STEP - 1) / (2 * STEP), begin = stream * rounds * STEP;
    // Of 16 ends the fours 0, 4, 8, 12 and 1, 5, 9, 13 and so on lie together: a thread takes one of each.
    auto place = [](int end) { return end / 16 * 16 + end % 4 * 4 + end / 4 % 4; };
    auto load = [&](int round) {
        int end = begin + round * STEP + line;
        copy_ahead(y_tiles + (round % 2 * STEP + place(line)) * PITCH + quad,
                   to + (long long)end * width + base + quad, end < columns ? squares - quad : 0, wide);
        copy_commit();
    };
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
        int start = 32 * (k + stream) + line;
        copy_ahead(x_tile + start * PITCH + quad, from + (long long)(first + start) * width + base + quad,
                   first + start < rows ? squares - quad : 0, wide);
    }
    load(0);
    copy_wait<0>();
    __syncthreads();
    const float* x_rows = x_tile + (MRN_BAND * band + g) * PITCH;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int eight = 2 * stream + k / 2, m = 8 * (k % 2) + g;
        const float* x = x_tile + (MRN_BAND * band + 8 * eight + t) * PITCH + m;
        Parts one = mrn_split(x[0] - x_tile[m]), other = mrn_split(x[4 * PITCH] - x_tile[m]);
        x_parts[(2 * eight + k % 2) * 32] = make_float4(one.high, other.high, one.low, other.low);
    }

    float totals[2][2][4] = {};
    for (int round = 0; round < rounds; round++) {
        copy_wait<0>();
        __syncthreads();
        if (round + 1 < rounds) load(round + 1);
#pragma unroll 1
        for (int some = 0; some < STEP; some += 16) {
            const float* y_tile = y_tiles + (round % 2 * STEP + some) * PITCH;
            int end = begin + round * STEP + some + 4 * t;
            float weights[4][4], squared[4][4] = {};
#pragma unroll
            for (int a = 0; a < 4; a++) {
                int start = first + MRN_BAND * band + g + 8 * a;
                const float* slopes = gradient + (long long)start * columns + end;
                if (wide_gradient && start < rows && end < columns)
                    *(float4*)weights[a] = *(const float4*)slopes;
                else
#pragma unroll
                    for (int b = 0; b < 4; b++)
                        weights[a][b] = start < rows && end + b < columns ? slopes[b] : 0.0f;
            }
            int ahead = end - 4 * t - first - MRN_BAND * band;
            if (ahead > -16 && ahead < MRN_BAND)
#pragma unroll
                for (int at = 0; at < 16; at++)
                    if (g + 8 * (at / 4) == ahead + 4 * t + at % 4) weights[at / 4][at % 4] = 0.0f;
            mrn_squares<4, 4, 4, 8, MRN_HALF>(x_rows, y_tile + t * PITCH, squared);
#pragma unroll
            for (int a = 0; a < 4; a++) {
#pragma unroll
                for (int b = 0; b < 4; b++) weights[a][b] *= mrn_norm(squared[a][b]).y;
                *(float4*)(crossed + mrn_crossed(g + 8 * a, 4 * t)) = *(float4*)weights[a];
            }
            // By the starts.
            Parts y[2][2][2];
#pragma unroll
            for (int at = 0; at < 8; at++) {
                int eight = at / 4, n = at / 2 % 2, half = at % 2, m = 8 * n + g;
                y[eight][n][half] = mrn_split(y_tile[(8 * eight + 4 * half + t) * PITCH + m] - x_tile[m]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float found[2][4] = {}, all[4] = {};
#pragma unroll
                for (int eight = 0; eight < 2; eight++) {
                    float some_weights[4];
#pragma unroll
                    for (int at = 0; at < 4; at++)
                        some_weights[at] = weights[2 * i + at % 2][2 * eight + at / 2];
                    mrn_product(found, all, some_weights, y[eight]);
                }
#pragma unroll
                for (int at = 0; at < 8; at++) {
                    int n = at / 4, half = at / 2 % 2, m = 8 * n + 2 * t + at % 2;
                    float x = x_rows[(16 * i + 8 * half) * PITCH + m] - x_tile[m];
                    totals[i][n][at % 4] += fmaf(all[2 * half], x, -found[n][at % 4]);
                }
            }
            // By the ends.
            if (!parts) continue;
            __syncwarp();
            float found[2][4] = {}, all[4] = {};
#pragma unroll
            for (int eight = 0; eight < 4; eight++) {
                float some_weights[4];
#pragma unroll
                for (int at = 0; at < 4; at++)
                    some_weights[at] = crossed[mrn_crossed(8 * eight + 4 * (at / 2) + t, g + 8 * (at % 2))];
                float4 p = x_parts[2 * eight * 32], q = x_parts[(2 * eight + 1) * 32];
                Parts x[2][2] = {{{p.x, p.z}, {p.y, p.w}}, {{q.x, q.z}, {q.y, q.w}}};
                mrn_product(found, all, some_weights, x);
            }
#pragma unroll
            for (int at = 0; at < 4; at++) {
                int n = at / 2, half = at % 2, m = 8 * n + 2 * t, its = g + 8 * half;
                float2 y = *(const float2*)(y_tile + place(its) * PITCH + m);
                float2 c = *(const float2*)(x_tile + m);
                *(float2*)(sums + (warp * STEP + some + its) * SUM_PITCH + m) =
                    make_float2(fmaf(all[2 * half], y.x - c.x, -found[n][2 * half]),
                                fmaf(all[2 * half], y.y - c.y, -found[n][2 * half + 1]));
            }
            __syncwarp();
        }
        if (!parts) continue;
        __syncthreads();
        int end = begin + round * STEP + line;
        if (end >= columns) continue;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float4 more = *(float4*)(sums + ((4 * stream + k) * STEP + line) * SUM_PITCH + quad);
            sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        }
        long long item = ((long long)blockIdx.x * components + component) * columns + end;
        *(float4*)(parts + MRN_HALF * item + quad) = sum;
    }
    if (!starts) return;
    __syncthreads();
    float mean = 1.0f / (float)components;
    if (stream)
#pragma unroll
        for (int at = 0; at < 16; at++)
            sums[(16 * band + at) * 32 + lane] = totals[at / 8][at / 4 % 2][at % 4];
    __syncthreads();
    if (stream) return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int item = first + MRN_BAND * band + 8 * i + g;
        bool paired = item < rows && item < columns;
        float apart[4], squared = 0.0f;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int m = 8 * (k / 2) + 2 * t + k % 2;
            float y = paired && m < squares ? to[(long long)item * width + base + m] : 0.0f;
            apart[k] = paired ? x_rows[8 * i * PITCH + m] - y : 0.0f;
            squared = fmaf(apart[k], apart[k], squared);
        }
        squared += __shfl_xor_sync(~0u, squared, 1);
        squared += __shfl_xor_sync(~0u, squared, 2);
        float weight = paired ? gradient[(long long)item * columns + item] * mrn_norm(squared).y : 0.0f;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int at = i / 2 * 8 + k / 2 * 4 + i % 2 * 2 + k % 2, m = 8 * (k / 2) + 2 * t + k % 2;
            float sum = totals[i / 2][k / 2][i % 2 * 2 + k % 2] + sums[(16 * band + at) * 32 + lane];
            if (item < rows && m < squares)
                put(starts + (long long)item * width + base + m, fmaf(weight, apart[k], sum) * mean, keep);
        }
    }
}

// Adds up what all blocks left for the ends, and what the start of the same number has to say.
extern "C" __global__ void mrn_narrow_ends(const float* from, const float* to, const float* gradient,
                                           const float* parts, float* target, int keep, int rows,
                                           int columns, int components, int maxima, int squares,
                                           long long stride) {
    int at = first_index(), m = at % MRN_HALF, item = at / MRN_HALF, count = components * columns;
    int component = item / columns, end = item % columns, part = maxima + squares;
    bool valid = item < count && m < squares, paired = valid && end < rows;
    long long place = ((long long)end * components + component) * part + maxima + m;
    float apart = paired ? own(to, stride)[place] - own(from, stride)[place] : 0.0f;
    float squared = apart * apart;
    for (int offset = MRN_HALF / 2; offset; offset >>= 1)
        squared += __shfl_xor_sync(~0u, squared, offset);
    if (!valid) return;
    float slope = paired ? own(gradient, stride)[(long long)end * columns + end] : 0.0f, sum = 0.0f;
    parts = own(parts, stride) + at;
    for (int first = 0; first < rows; first += MRN_BLOCK, parts += count * MRN_HALF) sum += *parts;
    put(own(target, stride) + place,
        fmaf(slope * mrn_norm(squared).y, apart, sum) * (1.0f / (float)components), keep);
}
