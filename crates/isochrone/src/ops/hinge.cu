// mean relu(d - bound)^2. One block.

extern "C" __global__ void hinge_forward(const float* in, float* out, int count, float bound,
                                         long long stride) {
    in = own(in, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x) {
        float above = in[at] - bound;
        sum += above < 0.0f ? 0.0f : above * above;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum / (float)count;
}

extern "C" __global__ void hinge_backward(const float* in, const float* gradient, float* target,
                                          int keep, int count, float bound, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float above = own(in, stride)[at] - bound, share = *own(gradient, stride) * (2.0f / (float)count);
    put(own(target, stride) + at, share * (above < 0.0f ? 0.0f : above), keep);
}
