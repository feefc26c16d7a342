// mean (exp(-d) - 1)^2. One block.

extern "C" __global__ void closeness_forward(const float* in, float* out, int count,
                                             long long stride) {
    in = own(in, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x) {
        float gap = exponential(-in[at]) - 1.0f;
        sum += gap * gap;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum / (float)count;
}

extern "C" __global__ void closeness_backward(const float* in, const float* gradient, float* target,
                                              int keep, int count, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float near = exponential(-own(in, stride)[at]);
    float share = *own(gradient, stride) * (2.0f / (float)count);
    put(own(target, stride) + at, share * (1.0f - near) * near, keep);
}
