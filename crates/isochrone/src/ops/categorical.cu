// sum_i a_i (l_i - log sum exp l) row by row, and the one-hot of the largest. A thread a row.

__device__ __forceinline__ int categorical_largest(const float* row, int width) {
    int best = 0;
    for (int at = 1; at < width; at++)
        if (row[at] > row[best]) best = at;
    return best;
}

__device__ __forceinline__ float categorical_total(const float* row, int width) {
    float top = row[categorical_largest(row, width)], sum = 0.0f;
    for (int at = 0; at < width; at++) sum += exponential(row[at] - top);
    return top + logf(sum);
}

extern "C" __global__ void categorical_forward(const float* logits, const float* action, float* out,
                                               int rows, int width, long long stride) {
    int row = first_index();
    if (row >= rows) return;
    logits = own(logits, stride) + row * width;
    action = own(action, stride) + row * width;
    float total = categorical_total(logits, width), sum = 0.0f;
    for (int at = 0; at < width; at++) sum += action[at] * (logits[at] - total);
    own(out, stride)[row] = sum;
}

extern "C" __global__ void categorical_backward(const float* logits, const float* action,
                                                const float* gradient, float* target, int keep,
                                                int rows, int width, long long stride) {
    int row = first_index();
    if (row >= rows) return;
    logits = own(logits, stride) + row * width;
    action = own(action, stride) + row * width;
    target = own(target, stride) + row * width;
    float total = categorical_total(logits, width), mass = 0.0f, g = own(gradient, stride)[row];
    for (int at = 0; at < width; at++) mass += action[at];
    for (int at = 0; at < width; at++)
        put(target + at, g * (action[at] - mass * exponential(logits[at] - total)), keep);
}

extern "C" __global__ void categorical_most_likely(const float* logits, float* out, int rows,
                                                   int width, long long stride) {
    int row = first_index();
    if (row >= rows) return;
    int best = categorical_largest(own(logits, stride) + row * width, width);
    for (int at = 0; at < width; at++)
        own(out, stride)[row * width + at] = at == best ? 1.0f : 0.0f;
}
