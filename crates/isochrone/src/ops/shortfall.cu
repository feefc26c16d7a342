// The mean of squared hinges over pairs that do not match.

// One block per row; the last one adds the rows in order.
extern "C" __global__ void shortfall_forward(const float* distance, const float* target, float* out,
                                             float* parts, u32* counter, int size, float pairs,
                                             long long stride) {
    distance = own(distance, stride) + blockIdx.x * size;
    target = own(target, stride) + blockIdx.x * size;
    parts = own(parts, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x) {
        float gap = target[at] - distance[at];
        float held = at != blockIdx.x && gap > 0.0f ? gap : 0.0f;
        sum += held * held;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
    if (!last_block(own(counter, stride), gridDim.x)) return;
    float total = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x) total += __ldcg(parts + at);
    total = block_sum(total);
    if (threadIdx.x == 0) *own(out, stride) = total / pairs;
}

extern "C" __global__ void shortfall_backward(const float* distance, const float* target,
                                              const float* gradient, float* out, int keep, int size,
                                              float pairs, long long stride) {
    distance = own(distance, stride) + blockIdx.x * size;
    target = own(target, stride) + blockIdx.x * size;
    float share = *own(gradient, stride) / pairs;
    fill(own(out, stride) + blockIdx.x * size, size, blockIdx.y, keep, [&](int at) {
        float gap = target[at] - distance[at], held = gap > 0.0f ? gap : 0.0f;
        return at == blockIdx.x ? 0.0f : -share * (held + held);
    });
}
