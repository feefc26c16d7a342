// x exp(-logarithm), and what a gradient along it says of the logarithm. The last in one block.

extern "C" __global__ void tempered_forward(const float* in, const float* logarithm, float* out,
                                            int count, long long stride) {
    int at = first_index();
    if (at < count) own(out, stride)[at] = exponential(-*own(logarithm, stride)) * own(in, stride)[at];
}

extern "C" __global__ void tempered_backward(const float* gradient, const float* logarithm,
                                             float* target, int keep, int count, long long stride) {
    int at = first_index();
    if (at >= count) return;
    put(own(target, stride) + at, exponential(-*own(logarithm, stride)) * own(gradient, stride)[at], keep);
}

extern "C" __global__ void tempered_temperature(const float* out, const float* gradient,
                                                float* target, int keep, int count,
                                                long long stride) {
    out = own(out, stride);
    gradient = own(gradient, stride);
    float along = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x) along += gradient[at] * out[at];
    along = block_sum(along);
    if (threadIdx.x == 0) put(own(target, stride), -along, keep);
}
