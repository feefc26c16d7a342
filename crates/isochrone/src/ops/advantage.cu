// -mean w log pi with w = min(exp(beta A), 100), A = baseline - taken. One block; keeps w.

extern "C" __global__ void advantage_forward(const float* log, const float* baseline,
                                             const float* taken, float* out, float* weights,
                                             int rows, float beta, int standardize, float limit,
                                             long long stride) {
    log = own(log, stride);
    weights = own(weights, stride);
    int first = threadIdx.x, step = blockDim.x;
    for (int at = first; at < rows; at += step)
        weights[at] = fminf(fmaxf(own(baseline, stride)[at] - own(taken, stride)[at], -limit), limit);
    if (standardize) {
        double sum = 0.0, squares = 0.0;
        for (int at = first; at < rows; at += step) sum += weights[at];
        double mean = block_sum(sum) / rows;
        for (int at = first; at < rows; at += step)
            squares += (weights[at] - mean) * (weights[at] - mean);
        double inverse = 1.0 / (sqrt(block_sum(squares) / rows) + 1e-6);
        for (int at = first; at < rows; at += step)
            weights[at] = (float)((weights[at] - mean) * inverse);
    }
    double total = 0.0;
    for (int at = first; at < rows; at += step) {
        float weight = exponential(beta * weights[at]);
        weights[at] = weight > 100.0f ? 100.0f : weight;
        total += weights[at];
    }
    if (standardize) {
        double mean = block_sum(total) / rows;
        for (int at = first; at < rows; at += step) weights[at] = (float)(weights[at] / mean);
    }
    float sum = 0.0f;
    for (int at = first; at < rows; at += step) sum += weights[at] * log[at];
    sum = block_sum(sum);
    if (first == 0) *own(out, stride) = -sum / (float)rows;
}

extern "C" __global__ void advantage_backward(const float* gradient, const float* weights,
                                              float* target, int keep, int rows,
                                              long long stride) {
    int at = first_index();
    if (at >= rows) return;
    float share = -*own(gradient, stride) / (float)rows;
    put(own(target, stride) + at, share * own(weights, stride)[at], keep);
}
