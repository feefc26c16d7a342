// The IQE distance: lengths of unions of intervals, mean and maximum over groups. A warp works on
// one pair forward, each lane on some of its groups; a thread on one group of one row backward.

// The coordinates of each group of a row in ascending order of their value, of equal ones the first
// first: a thread counts how many come before its own.
extern "C" __global__ void iqe_sort(const float* from, u32* order, int numbers, int size,
                                    long long stride) {
    int at = first_index();
    if (at >= numbers) return;
    int i = at % size, before = 0;
    const float* x = own(from, stride) + (at - i);
    float mine = x[i];
    for (int j = 0; j < size; j++) before += x[j] < mine || (x[j] == mine && j < i);
    own(order, stride)[at - i + before] = i;
}

__device__ __forceinline__ float iqe_length(const float* x, const u32* order, const float* y,
                                            int size) {
    float length = 0.0f, end = x[order[0]];
    for (int at = 0; at < size; at++) {
        float low = x[order[at]], high = y[order[at]], start = low > end ? low : end;
        length += high > start ? high - start : 0.0f;
        end = high > end ? high : end;
    }
    return length;
}

// Keeps mean - max of every pair and the group of its maximum. `diagonal` compares only
// corresponding rows.
extern "C" __global__ void iqe_forward(const float* from, const float* to, const float* raw,
                                       const u32* order, float* out, float* spread, u32* picks,
                                       int rows, int columns, int groups, int size, int diagonal,
                                       long long stride) {
    int at = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (at >= (diagonal ? rows : rows * columns)) return;
    int i = diagonal ? at : at / columns, j = diagonal ? at : at % columns, width = groups * size;
    const float *x = own(from, stride) + i * width, *y = own(to, stride) + j * width;
    const u32* sorted = own(order, stride) + i * width;
    float sum = 0.0f, top = 0.0f, mix = sigmoid(*own(raw, stride));
    u32 pick = 0;
    for (int group = threadIdx.x % 32; group < groups; group += 32) {
        float length = iqe_length(x + group * size, sorted + group * size, y + group * size, size);
        sum += length;
        if (length > top) top = length, pick = group;
    }
    warp_largest(top, pick);
    float mean = warp_sum(sum) / (float)groups;
    if (threadIdx.x % 32) return;
    own(out, stride)[at] = mix * mean + (1.0f - mix) * top;
    own(spread, stride)[at] = mean - top;
    own(picks, stride)[at] = pick;
}

// Adds what one pair gives to a group's coordinates of its start or its end.
__device__ __forceinline__ void iqe_ends(const float* x, const u32* order, const float* y, int size,
                                         bool start, float weight, float* target) {
    bool reached = false;
    float end = 0.0f;
    u32 owner = 0;
    for (int at = 0; at < size; at++) {
        u32 index = order[at];
        float low = x[index], high = y[index];
        if (reached && end > low) {
            if (high > end) {
                if (!start) target[index] += weight, target[owner] -= weight;
                end = high, owner = index;
            }
        } else if (high > low) {
            target[index] += start ? -weight : weight;
            reached = true, end = high, owner = index;
        }
    }
}

extern "C" __global__ void iqe_backward(const float* from, const float* to, const float* raw,
                                        const u32* order, const float* gradient, const u32* picks,
                                        float* target, int keep, int start, int rows, int columns,
                                        int groups, int size, int diagonal, long long stride) {
    int at = first_index(), count = start ? rows : columns, width = groups * size;
    if (at >= count * groups) return;
    int item = at / groups, group = at % groups, inside = group * size;
    float* own_target = own(target, stride) + item * width + inside;
    if (!keep)
        for (int m = 0; m < size; m++) own_target[m] = 0.0f;
    float mix = sigmoid(*own(raw, stride));
    int others = start ? columns : rows;
    for (int other = diagonal ? item : 0; other < (diagonal ? item + 1 : others); other++) {
        int i = start ? item : other, j = start ? other : item;
        int place = diagonal ? i : i * columns + j;
        float g = own(gradient, stride)[place], weight = g * mix / (float)groups;
        if (own(picks, stride)[place] == group) weight += g * (1.0f - mix);
        int first = i * width + inside;
        iqe_ends(own(from, stride) + first, own(order, stride) + first,
                 own(to, stride) + j * width + inside, size, start, weight, own_target);
    }
}

// The gradient of the raw weight of the mean: blocks of pairs, the last adds them in order.
extern "C" __global__ void iqe_mix(const float* raw, const float* gradient, const float* spread,
                                   float* parts, u32* counter, float* target, int keep, int pairs,
                                   long long stride) {
    parts = own(parts, stride);
    float sum = 0.0f;
    for (int at = first_index(); at < pairs; at += gridDim.x * blockDim.x)
        sum += own(gradient, stride)[at] * own(spread, stride)[at];
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
    if (!last_block(own(counter, stride), gridDim.x)) return;
    float total = 0.0f;
    for (int at = threadIdx.x; at < gridDim.x; at += blockDim.x) total += __ldcg(parts + at);
    total = block_sum(total);
    float mix = sigmoid(*own(raw, stride));
    if (threadIdx.x == 0) put(own(target, stride), total * mix * (1.0f - mix), keep);
}
