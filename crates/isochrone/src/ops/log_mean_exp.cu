// ln mean_m exp(x_m), entry by entry over up to eight matrices.

extern "C" __global__ void log_mean_exp_forward(const float* a, const float* b, const float* c,
                                                const float* d, const float* e, const float* f,
                                                const float* g, const float* h, float* out,
                                                int matrices, int count, long long stride) {
    const float* inputs[8] = {a, b, c, d, e, f, g, h};
    int at = first_index();
    if (at >= count) return;
    float top = own(inputs[0], stride)[at];
    for (int m = 1; m < matrices; m++) top = fmaxf(top, own(inputs[m], stride)[at]);
    float sum = 0.0f;
    for (int m = 0; m < matrices; m++) sum += exponential(own(inputs[m], stride)[at] - top);
    own(out, stride)[at] = top + logf(sum / (float)matrices);
}
