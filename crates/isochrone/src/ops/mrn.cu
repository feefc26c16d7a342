// The MRN distance forward, and both halves of that of corresponding rows. Pairs are streamed over
// coordinates with direct differences; long norms of many pairs come from products (`mrn_long.cu`).

#define MRN_NONE 0xffffffffu

// Goes over the coordinates of A x B pairs by fours, UNROLL fours at once: `visit` is told the pair, the
// first coordinate and the four differences.
template <int A, int B, int TX, int TY, int CHUNK, int UNROLL, class Visit>
__device__ __forceinline__ void mrn_fours(const float* x_rows, const float* y_rows, Visit visit) {
    constexpr int PITCH = CHUNK + 4;
#pragma unroll UNROLL
    for (int m = 0; m < CHUNK; m += 4) {
        float4 x[A];
#pragma unroll
        for (int a = 0; a < A; a++) x[a] = *(const float4*)(x_rows + TY * a * PITCH + m);
#pragma unroll
        for (int b = 0; b < B; b++) {
            float4 y = *(const float4*)(y_rows + TX * b * PITCH + m);
#pragma unroll
            for (int a = 0; a < A; a++)
                visit(a, b, m, x[a].x - y.x, x[a].y - y.y, x[a].z - y.z, x[a].w - y.w);
        }
    }
}

// The running maximum of A x B pairs over some coordinates, and the group of four it was found in. The
// bits of floats that are not negative compare as integers, and negative ones lie below them.
template <int A, int B, int TX, int TY, int CHUNK>
__device__ __forceinline__ void mrn_maximum(const float* x_rows, const float* y_rows, int group,
                                            float (&best)[A][B], int (&groups)[A][B]) {
    auto visit = [&](int a, int b, int m, float p, float q, float r, float s) {
        int before = __float_as_int(best[a][b]);
        int first = __vimax3_s32(before, __float_as_int(p), __float_as_int(q));
        int now = __vimax3_s32(first, __float_as_int(r), __float_as_int(s));
        groups[a][b] = now != before ? group + m / 4 : groups[a][b];
        best[a][b] = __int_as_float(now);
    };
    mrn_fours<A, B, TX, TY, CHUNK, CHUNK / 4>(x_rows, y_rows, visit);
}

// The sums of squares of A x B pairs over some coordinates.
template <int A, int B, int TX, int TY, int CHUNK>
__device__ __forceinline__ void mrn_squares(const float* x_rows, const float* y_rows,
                                            float (&sums)[A][B]) {
    auto visit = [&](int a, int b, int, float p, float q, float r, float s) {
        sums[a][b] = fmaf(p, p, sums[a][b]);
        sums[a][b] = fmaf(q, q, sums[a][b]);
        sums[a][b] = fmaf(r, r, sums[a][b]);
        sums[a][b] = fmaf(s, s, sums[a][b]);
    };
    mrn_fours<A, B, TX, TY, CHUNK, 2>(x_rows, y_rows, visit);
}

// The first coordinate of a group of four whose difference is the maximum.
__device__ __forceinline__ u32 mrn_index(const float* x, const float* y, int group, int maxima,
                                         float best, bool wide) {
    int m = 4 * group;
    if (wide) {
        float4 p = *(const float4*)(x + m), q = *(const float4*)(y + m);
        return p.x - q.x == best ? m : p.y - q.y == best ? m + 1 : p.z - q.z == best ? m + 2 : m + 3;
    }
    for (int end = m + 4; m < end && m < maxima; m++)
        if (x[m] - y[m] == best) return m;
    return MRN_NONE;
}

// The root of a sum of squares and its inverse; 0 below the smallest normal number, where the GPU's own
// instruction would want a scale.
__device__ __forceinline__ float2 mrn_norm(float sum) {
    float inverse = sum >= 1.17549435e-38f ? inverse_root(sum) : 0.0f;
    float norm = sum * inverse;
    return make_float2(fmaf(0.5f * inverse, fmaf(-norm, norm, sum), norm), inverse);
}

// Where norms come from products: squared distances of starts and ends from the first end, and for every
// pair the product of what lies between. Absent where there is no norm.
struct MrnProducts {
    const float *starts, *ends, *pairs;
};

// With the square of a pair's distance below this part of the sum of the squares that the product is
// taken from, too few digits are left.
#define MRN_NEAR (1.0f / 1024.0f)

// The sum of squares of a pair by its differences, where `near` says so, by a whole warp together.
__device__ __forceinline__ float mrn_again(bool near, float sum, const float* x, const float* y,
                                           int squares, bool wide) {
    int lane = threadIdx.x & 31;
    for (u32 left = __ballot_sync(~0u, near); left; left &= left - 1) {
        int asking = __ffs(left) - 1;
        const float* start = (const float*)__shfl_sync(~0u, (u64)x, asking);
        const float* end = (const float*)__shfl_sync(~0u, (u64)y, asking);
        float squared = 0.0f;
        auto add = [&](float p, float q) { squared = fmaf(p - q, p - q, squared); };
        if (wide)
            for (int m = 4 * lane; m < squares; m += 128) {
                float4 p = *(const float4*)(start + m), q = *(const float4*)(end + m);
                add(p.x, q.x), add(p.y, q.y), add(p.z, q.z), add(p.w, q.w);
            }
        else
            for (int m = lane; m < squares; m += 32) add(start[m], end[m]);
        squared = warp_sum(squared);
        if (lane == asking) sum = squared;
    }
    return sum;
}

// One block: TY A x TX B pairs. The first TX TY threads find maxima, the others, if there are two ROLES,
// sums of squares, each A x B pairs; the coordinates come by chunks through shared memory, two chunks in
// flight. Kept, where asked for, are the inverses of the norms, 0 for 0, and the coordinates of the maxima.
template <int A, int B, int TX, int TY, int CHUNK, int ROLES>
__device__ __forceinline__ void mrn_pairs(const float* from, const float* to, MrnProducts products,
                                          float* out, float* inverses, u32* picks, int rows, int columns,
                                          int components, int maxima, int squares, bool wide) {
    constexpr int ROLE = TX * TY, ROWS = TY * A, COLUMNS = TX * B, LINES = ROWS + COLUMNS;
    constexpr int PITCH = CHUNK + 4, QUADS = CHUNK / 4, PASS = ROLE / QUADS;
    __shared__ __align__(16) float tiles[ROLES][2][LINES * PITCH];
    static_assert(ROLES == 1 || ROWS * (COLUMNS + 1) <= 2 * LINES * PITCH, "room for a block's norms");
    float* found = tiles[ROLES - 1][0];
    int role = ROLES == 1 ? 0 : threadIdx.x / ROLE;
    int within = threadIdx.x % ROLE, ty = within / TX, tx = within % TX;
    int first_row = blockIdx.y * ROWS, first_column = blockIdx.x * COLUMNS;
    int part = maxima + squares, width = components * part;
    int longest = ROLES == 1 || maxima > squares ? maxima : squares;
    int chunks = (longest + CHUNK - 1) / CHUNK;
    float share = 1.0f / (float)components;
    for (int component = 0; component < components; component++) {
        int base = component * part + (role ? maxima : 0), length = role ? squares : maxima;
        int line = within / QUADS, quad = 4 * (within % QUADS), left = length - quad;
        const float* starts = from + (long long)(first_row + line) * width + base + quad;
        const float* ends = to + (long long)(first_column + line) * width + base + quad;
        auto load = [&](int chunk) {
            float* tile = tiles[role][chunk & 1] + line * PITCH + quad;
#pragma unroll
            for (int k = 0; k < ROWS / PASS; k++) {
                int count = first_row + line + PASS * k < rows ? left : 0;
                copy_ahead(tile + PASS * k * PITCH, starts + (long long)(PASS * k) * width, count, wide);
            }
#pragma unroll
            for (int k = 0; k < COLUMNS / PASS; k++) {
                int count = first_column + line + PASS * k < columns ? left : 0;
                copy_ahead(tile + (ROWS + PASS * k) * PITCH, ends + (long long)(PASS * k) * width, count,
                           wide);
            }
            copy_commit();
            starts += CHUNK, ends += CHUNK, left -= CHUNK;
        };
        float best[A][B] = {};
        int groups[A][B];
#pragma unroll
        for (int a = 0; a < A; a++)
#pragma unroll
            for (int b = 0; b < B; b++) groups[a][b] = -1;
        load(0);
        for (int chunk = 0; chunk < chunks; chunk++) {
            copy_wait<0>();
            __syncthreads();
            if (chunk + 1 < chunks) load(chunk + 1);
            const float* x_rows = tiles[role][chunk & 1] + ty * PITCH;
            const float* y_rows = tiles[role][chunk & 1] + (ROWS + tx) * PITCH;
            if (chunk * CHUNK >= length) continue;
            if (role)
                mrn_squares<A, B, TX, TY, CHUNK>(x_rows, y_rows, best);
            else
                mrn_maximum<A, B, TX, TY, CHUNK>(x_rows, y_rows, chunk * QUADS, best, groups);
        }
        __syncthreads();
#pragma unroll
        for (int a = 0; a < A; a++)
#pragma unroll
            for (int b = 0; b < B; b++) {
                int row = first_row + ty + TY * a, column = first_column + tx + TX * b;
                long long place = ((long long)component * rows + row) * columns + column;
                bool valid = row < rows && column < columns;
                const float* x = from + (long long)row * width + base;
                const float* y = to + (long long)column * width + base;
                if (!role && picks && valid)
                    picks[place] = groups[a][b] < 0
                                       ? MRN_NONE
                                       : mrn_index(x, y, groups[a][b], maxima, best[a][b], wide);
                if (role || ROLES == 1) {
                    float sum = best[a][b];
                    if (ROLES == 1) {
                        bool asked = products.pairs && valid;
                        float most = asked ? products.starts[component * rows + row] +
                                                 products.ends[component * columns + column]
                                           : 0.0f;
                        sum = asked ? fmaf(-2.0f, products.pairs[place], most) : 0.0f;
                        sum = mrn_again(sum < MRN_NEAR * most, sum, x + maxima, y + maxima, squares, wide);
                    }
                    float2 norm = mrn_norm(sum);
                    if (ROLES == 1)
                        best[a][b] += norm.x;
                    else
                        found[(ty + TY * a) * (COLUMNS + 1) + tx + TX * b] = norm.x;
                    if (inverses && valid) inverses[place] = norm.y;
                }
            }
        if (ROLES > 1) __syncthreads();
        if (!role)
#pragma unroll
            for (int a = 0; a < A; a++)
#pragma unroll
                for (int b = 0; b < B; b++) {
                    int row = first_row + ty + TY * a, column = first_column + tx + TX * b;
                    if (row >= rows || column >= columns) continue;
                    float* total = out + (long long)row * columns + column;
                    float sum = best[a][b];
                    if (ROLES > 1) sum += found[(ty + TY * a) * (COLUMNS + 1) + tx + TX * b];
                    if (component) sum += *total;
                    *total = component + 1 < components ? sum : sum * share;
                }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(128)
    mrn_forward_small(const float* from, const float* to, float* out, float* inverses, u32* picks,
                      int rows, int columns, int components, int maxima, int squares, int wide,
                      long long stride) {
    mrn_pairs<2, 2, 8, 8, 32, 2>(own(from, stride), own(to, stride), {}, own(out, stride),
                                 own(inverses, stride), own(picks, stride), rows, columns, components,
                                 maxima, squares, wide);
}

extern "C" __global__ void __launch_bounds__(256, 3)
    mrn_forward_large(const float* from, const float* to, float* out, float* inverses, u32* picks,
                      int rows, int columns, int components, int maxima, int squares, int wide,
                      long long stride) {
    mrn_pairs<4, 4, 16, 8, 16, 2>(own(from, stride), own(to, stride), {}, own(out, stride),
                                  own(inverses, stride), own(picks, stride), rows, columns, components,
                                  maxima, squares, wide);
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
        warp_largest(best, index);
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
