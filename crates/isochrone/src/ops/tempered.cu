// x exp(-logarithm), and what a gradient along it says of the logarithm. The last block adds up what all left.

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

extern "C" __global__ void tempered_temperature(const float* out, const float* gradient, float* parts,
                                                u32* counter, float* target, int keep, int count,
                                                long long stride) {
    out = own(out, stride);
    gradient = own(gradient, stride);
    parts = own(parts, stride);
    float along = 0.0f;
    for (int at = first_index(); at < count; at += gridDim.x * blockDim.x)
        along += gradient[at] * out[at];
    along = block_sum(along);
    if (threadIdx.x == 0) parts[blockIdx.x] = along;
    if (!last_block(own(counter, stride), gridDim.x)) return;
    along = 0.0f;
    for (int at = threadIdx.x; at < gridDim.x; at += blockDim.x) along += __ldcg(parts + at);
    along = block_sum(along);
    if (threadIdx.x == 0) put(own(target, stride), -along, keep);
}
