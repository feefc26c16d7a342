// The sum of up to four matrices, each with its weight; added to `out` where `add` says so.

extern "C" __global__ void weighted_sum_forward(const float* a, const float* b, const float* c,
                                                const float* d, float wa, float wb, float wc,
                                                float wd, float* out, int add, int count,
                                                long long stride) {
    const float* inputs[4] = {own(a, stride), own(b, stride), own(c, stride), own(d, stride)};
    float weights[4] = {wa, wb, wc, wd}, *before = own(out, stride);
    fill(own(out, stride), count, blockIdx.x, 0, [&](int at) {
        float sum = add ? before[at] : 0.0f;
#pragma unroll
        for (int which = 0; which < 4; which++)
            if (inputs[which]) sum += weights[which] * inputs[which][at];
        return sum;
    });
}

extern "C" __global__ void weighted_sum_backward(const float* gradient, float* target, int keep,
                                                 float weight, int count, long long stride) {
    gradient = own(gradient, stride);
    fill(own(target, stride), count, blockIdx.x, keep, [&](int at) { return weight * gradient[at]; });
}
