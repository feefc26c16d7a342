// x exp(-logarithm), and what a gradient along it says of the logarithm. The last block adds up what all left.

extern "C" __global__ void tempered_forward(const float* in, const float* logarithm, float* out,
                                            int count, long long stride) {
    float scale = exponential(-*own(logarithm, stride));
    in = own(in, stride);
    fill(own(out, stride), count, blockIdx.x, 0, [&](int at) { return scale * in[at]; });
}

extern "C" __global__ void tempered_backward(const float* gradient, const float* logarithm,
                                             float* target, int keep, int count, long long stride) {
    float scale = exponential(-*own(logarithm, stride));
    gradient = own(gradient, stride);
    fill(own(target, stride), count, blockIdx.x, keep, [&](int at) { return scale * gradient[at]; });
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
