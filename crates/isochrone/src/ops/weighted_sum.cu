// The sum of up to four matrices, each with its weight; added to `out` where `add` says so.

extern "C" __global__ void weighted_sum_forward(const float* a, const float* b, const float* c,
                                                const float* d, float wa, float wb, float wc,
                                                float wd, float* out, int add, int count,
                                                long long stride) {
    int at = first_index();
    if (at >= count) return;
    const float* inputs[4] = {own(a, stride), own(b, stride), own(c, stride), own(d, stride)};
    float weights[4] = {wa, wb, wc, wd}, sum = add ? own(out, stride)[at] : 0.0f;
    for (int which = 0; which < 4; which++)
        if (inputs[which]) sum += weights[which] * inputs[which][at];
    own(out, stride)[at] = sum;
}

extern "C" __global__ void weighted_sum_backward(const float* gradient, float* target, int keep,
                                                 float weight, int count, long long stride) {
    int at = first_index();
    if (at < count) put(own(target, stride) + at, weight * own(gradient, stride)[at], keep);
}
