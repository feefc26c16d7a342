// Long norms of many pairs, and their gradients, from products of numbers in two halves that tensor cores
// take whole; near pairs are compared by differences.

extern "C" __global__ void __launch_bounds__(256, 2)
    mrn_long_forward(const float* from, const float* to, const float* starts, const float* ends,
                     const float* pairs, float* out, float* inverses, u32* picks, int rows,
                     int columns, int components, int maxima, int squares, int wide,
                     long long stride) {
    MrnProducts products = {own(starts, stride), own(ends, stride), own(pairs, stride)};
    mrn_pairs<4, 4, 16, 16, 32, 1>(own(from, stride), own(to, stride), products, own(out, stride),
                                   own(inverses, stride), own(picks, stride), rows, columns, components,
                                   maxima, squares, wide);
}

// A number rounded to the bits of TF32, so that tensor cores lose nothing of it.
__device__ __forceinline__ float mrn_high(float x) {
    return __uint_as_float((__float_as_uint(x) + 0x1000) & 0xffffe000);
}

// Coordinates of the norm, counted from those of the first end, as two numbers each: what TF32 holds and
// the rest. A block has one row of a component of either side. `factors` are high, high, low of a start
// and high, low, high of an end, so that their product leaves out low times low alone; `halves`, where
// asked for, are 1, 0, 0, 0, high, low. `lengths` are the squares of distances from the first end.
extern "C" __global__ void mrn_long_halves(const float* from, const float* to, float* start_factors,
                                           float* end_factors, float* start_halves, float* end_halves,
                                           float* start_lengths, float* end_lengths, int rows,
                                           int columns, int components, int maxima, int squares,
                                           long long stride) {
    bool start = blockIdx.x < rows;
    int line = start ? blockIdx.x : blockIdx.x - rows, component = blockIdx.y;
    int part = maxima + squares, width = components * part, base = component * part + maxima;
    const float* its = own(start ? from : to, stride) + (long long)line * width + base;
    const float* first = own(to, stride) + base;
    long long place = (long long)component * (start ? rows : columns) + line;
    float* factors = own(start ? start_factors : end_factors, stride) + place * 3 * squares;
    float* halves = own(start ? start_halves : end_halves, stride);
    if (halves) halves += place * (2 * squares + 4);
    if (halves && threadIdx.x < 4) halves[threadIdx.x] = threadIdx.x == 0 ? 1.0f : 0.0f;
    float length = 0.0f;
    for (int m = threadIdx.x; m < squares; m += blockDim.x) {
        float x = its[m] - first[m], high = mrn_high(x), low = x - high;
        factors[m] = high;
        factors[squares + m] = start ? high : low;
        factors[2 * squares + m] = start ? low : high;
        if (halves) halves[4 + m] = high, halves[4 + squares + m] = low;
        length = fmaf(x, x, length);
    }
    length = block_sum(length);
    if (threadIdx.x == 0) own(start ? start_lengths : end_lengths, stride)[place] = length;
}

// With norms from products: weights W of all pairs, row after row and, where asked for, column after
// column. Where a pair is so near that the difference of two sums would lose its digits, its weight is left
// out and a bit is set, by rows and by columns. A warp has 32 x 32 pairs.
extern "C" __global__ void mrn_long_weights(const float* gradient, const float* inverses,
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
extern "C" __global__ void mrn_long_norms(const float* self, const float* other, const float* first,
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
