// mean x / scale; scale 0: one, 1: mean |x|, 2: mean |x - mean x|. One block; keeps the divisor.

extern "C" __global__ void mean_forward(const float* in, float* out, float* kept, int count,
                                        int scale, long long stride) {
    in = own(in, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x) sum += in[at];
    sum = block_sum(sum);
    float divisor = (float)count;
    if (scale) {
        float center = scale == 2 ? sum / divisor : 0.0f, deviation = 0.0f;
        for (int at = threadIdx.x; at < count; at += blockDim.x) deviation += fabsf(in[at] - center);
        divisor *= block_sum(deviation) / divisor + 1e-6f;
    }
    if (threadIdx.x == 0) {
        *own(kept, stride) = divisor;
        *own(out, stride) = sum / divisor;
    }
}

extern "C" __global__ void mean_backward(const float* gradient, const float* kept, float* target,
                                         int keep, int count, long long stride) {
    int at = first_index();
    if (at < count) put(own(target, stride) + at, *own(gradient, stride) / *own(kept, stride), keep);
}
