// Distances of differences: what stands between the products. A pair is a start and an end, or with
// `diagonal` corresponding rows; its number is start * columns + end, or the row.

__device__ __forceinline__ int difference_pair(int i, int j, int columns, int diagonal) {
    return diagonal ? i : i * columns + j;
}

// x - y of every pair, or with `halves` what is positive of it and of y - x.
extern "C" __global__ void difference_spread(const float* from, const float* to, float* out, int pairs,
                                             int columns, int width, int halves, int diagonal,
                                             long long stride) {
    int at = first_index(), pair = at / width, m = at % width;
    if (pair >= pairs) return;
    int i = diagonal ? pair : pair / columns, j = diagonal ? pair : pair % columns;
    float difference = own(from, stride)[i * width + m] - own(to, stride)[j * width + m];
    out = own(out, stride);
    if (!halves) {
        out[at] = difference;
        return;
    }
    out[2 * pair * width + m] = fmaxf(difference, 0.0f);
    out[(2 * pair + 1) * width + m] = fmaxf(-difference, 0.0f);
}

// Adds the gradients by all differences of a start, or takes those of an end away, in order.
extern "C" __global__ void difference_gather(const float* from, const float* to, const float* moved,
                                             float* target, int keep, int start, int rows, int columns,
                                             int width, int halves, int diagonal, long long stride) {
    int at = first_index(), item = at / width, m = at % width;
    if (item >= (start ? rows : columns)) return;
    from = own(from, stride), to = own(to, stride), moved = own(moved, stride);
    int others = start ? columns : rows;
    float sum = 0.0f;
    for (int other = diagonal ? item : 0; other < (diagonal ? item + 1 : others); other++) {
        int i = start ? item : other, j = start ? other : item;
        int pair = difference_pair(i, j, columns, diagonal);
        if (!halves) {
            sum += moved[pair * width + m];
            continue;
        }
        float difference = from[i * width + m] - to[j * width + m];
        if (difference > 0.0f) sum += moved[2 * pair * width + m];
        if (difference < 0.0f) sum -= moved[(2 * pair + 1) * width + m];
    }
    put(own(target, stride) + at, start ? sum : -sum, keep);
}

// Adds the sums that portions of the pairs gave, in order.
extern "C" __global__ void difference_total_large(const float* parts, float* target, int keep, int count,
                                            int portions, long long stride) {
    int at = first_index();
    if (at >= count) return;
    parts = own(parts, stride) + at;
    float sum = 0.0f;
    for (int portion = 0; portion < portions; portion++) sum += parts[portion * count];
    put(own(target, stride) + at, sum, keep);
}

extern "C" __global__ void difference_squares(const float* raw, float* weights, int count,
                                              long long stride) {
    int at = first_index();
    if (at >= count) return;
    float x = own(raw, stride)[at];
    own(weights, stride)[at] = x * x;
}

// From the gradient by weights to that by raw numbers: weights are raw squared, or softplus(raw).
extern "C" __global__ void difference_weights(const float* raw, const float* found, float* target,
                                              int keep, int count, int squared, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float x = own(raw, stride)[at], slope = squared ? 2.0f * x : sigmoid(x);
    put(own(target, stride) + at, own(found, stride)[at] * slope, keep);
}

// A thread a pair: keeps 1 - exp(-mean) of every group.
extern "C" __global__ void pqe_forward(const float* from, const float* to, const float* raw, float* out,
                                       float* kept, int pairs, int columns, int groups, int size,
                                       int diagonal, long long stride) {
    int pair = first_index(), width = groups * size;
    if (pair >= pairs) return;
    int i = diagonal ? pair : pair / columns, j = diagonal ? pair : pair % columns;
    const float *x = own(from, stride) + i * width, *y = own(to, stride) + j * width;
    float total = 0.0f;
    for (int group = 0; group < groups; group++) {
        float sum = 0.0f;
        for (int m = group * size; m < (group + 1) * size; m++) sum += fmaxf(x[m] - y[m], 0.0f);
        float share = 1.0f - exponential(-(sum * (1.0f / (float)size)));
        own(kept, stride)[pair * groups + group] = share;
        total += softplus(own(raw, stride)[group]) * share;
    }
    own(out, stride)[pair] = total;
}

// A thread a coordinate of a start or an end.
extern "C" __global__ void pqe_backward(const float* from, const float* to, const float* raw,
                                        const float* gradient, const float* kept, float* target,
                                        int keep, int start, int rows, int columns, int groups, int size,
                                        int diagonal, long long stride) {
    int width = groups * size, at = first_index(), item = at / width, m = at % width, group = m / size;
    if (item >= (start ? rows : columns)) return;
    from = own(from, stride) + m, to = own(to, stride) + m;
    float weight = softplus(own(raw, stride)[group]) * (1.0f / (float)size), sum = 0.0f;
    int others = start ? columns : rows;
    for (int other = diagonal ? item : 0; other < (diagonal ? item + 1 : others); other++) {
        int i = start ? item : other, j = start ? other : item;
        int pair = difference_pair(i, j, columns, diagonal);
        float rest = 1.0f - own(kept, stride)[pair * groups + group];
        if (from[i * width] > to[j * width]) sum += own(gradient, stride)[pair] * weight * rest;
    }
    put(own(target, stride) + at, start ? sum : -sum, keep);
}

// A thread a pair: norms of all components and their mean.
extern "C" __global__ void wide_norms(const float* images, float* norms, float* out, int pairs,
                                      int components, int size, long long stride) {
    int pair = first_index();
    if (pair >= pairs) return;
    images = own(images, stride) + pair * components * size;
    float total = 0.0f;
    for (int component = 0; component < components; component++) {
        float sum = 0.0f;
        for (int at = component * size; at < (component + 1) * size; at++)
            sum += images[at] * images[at];
        float norm = sqrtf(sum);
        own(norms, stride)[pair * components + component] = norm;
        total += norm;
    }
    own(out, stride)[pair] = total * (1.0f / (float)components);
}

extern "C" __global__ void wide_slopes(const float* images, const float* norms, const float* gradient,
                                       float* slopes, int count, int components, int size,
                                       long long stride) {
    int at = first_index(), place = at / size;
    if (at >= count) return;
    float norm = own(norms, stride)[place], g = own(gradient, stride)[place / components];
    float scale = norm > 0.0f ? g / (float)components / norm : 0.0f;
    own(slopes, stride)[at] = scale * own(images, stride)[at];
}

extern "C" __global__ void deep_relu(float* units, int count, long long stride) {
    int at = first_index();
    if (at < count) own(units, stride)[at] = fmaxf(own(units, stride)[at], 0.0f);
}

// A thread a pair: the mean of its last units.
extern "C" __global__ void deep_mean(const float* units, float* out, int pairs, int count,
                                     long long stride) {
    int pair = first_index();
    if (pair >= pairs) return;
    float sum = 0.0f;
    for (int unit = 0; unit < count; unit++) sum += own(units, stride)[pair * count + unit];
    own(out, stride)[pair] = sum * (1.0f / (float)count);
}

// The gradient by every last unit before its kink.
extern "C" __global__ void deep_slopes(const float* gradient, float* slopes, int pairs, int count,
                                       long long stride) {
    int at = first_index(), pair = at / count;
    if (pair < pairs) own(slopes, stride)[at] = own(gradient, stride)[pair] * (1.0f / (float)count);
}
