// The mean of squared hinges over matching pairs.

extern "C" __global__ void excess_forward(const float* distance, const float* target, float* out,
                                          int size, long long stride) {
    float sum = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x) {
        int place = at * (size + 1);
        float gap = own(distance, stride)[place] - own(target, stride)[place];
        float held = gap > 0.0f ? gap : 0.0f;
        sum += held * held;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum / (float)size;
}

extern "C" __global__ void excess_backward(const float* distance, const float* target,
                                           const float* gradient, float* out, int keep, int size,
                                           long long stride) {
    distance = own(distance, stride) + blockIdx.x * size;
    target = own(target, stride) + blockIdx.x * size;
    float share = *own(gradient, stride) / (float)size;
    fill(own(out, stride) + blockIdx.x * size, size, blockIdx.y, keep, [&](int at) {
        if (at != blockIdx.x) return 0.0f;
        float gap = distance[at] - target[at], held = gap > 0.0f ? gap : 0.0f;
        return share * (held + held);
    });
}
