// mean scale * softplus(offset - d / scale). One block.

extern "C" __global__ void push_forward(const float* in, float* out, int count, float offset,
                                        float inverse, float share, long long stride) {
    in = own(in, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x)
        sum += softplus(offset - in[at] * inverse);
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum * share;
}

extern "C" __global__ void push_backward(const float* in, const float* gradient, float* target,
                                         int keep, int count, float offset, float inverse,
                                         long long stride) {
    int at = first_index();
    if (at >= count) return;
    float slope = sigmoid(offset - own(in, stride)[at] * inverse);
    put(own(target, stride) + at, -*own(gradient, stride) / (float)count * slope, keep);
}
