// Targets from a critic; excess and shortfall of a distance, both means of squared hinges.

__device__ __forceinline__ float hinge(float x) { return x > 0.0f ? x : 0.0f; }

extern "C" __global__ void targets_forward(const float* at_goal, const float* logits, float* out,
                                           int rows, int columns, int clamped, long long stride) {
    int at = first_index();
    if (at >= rows * columns) return;
    float t = own(at_goal, stride)[at % columns] - own(logits, stride)[at];
    own(out, stride)[at] = clamped ? hinge(t) : t;
}

extern "C" __global__ void excess_forward(const float* distance, const float* target, float* out,
                                          int size, long long stride) {
    float sum = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x) {
        int place = at * (size + 1);
        float held = hinge(own(distance, stride)[place] - own(target, stride)[place]);
        sum += held * held;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum / (float)size;
}

extern "C" __global__ void excess_backward(const float* distance, const float* target,
                                           const float* gradient, float* out, int keep, int size,
                                           long long stride) {
    int at = first_index();
    if (at >= size * size) return;
    float held = hinge(own(distance, stride)[at] - own(target, stride)[at]);
    float share = *own(gradient, stride) / (float)size;
    put(own(out, stride) + at, at / size == at % size ? share * (held + held) : 0.0f, keep);
}

// A block a row; the last one adds the rows in order.
extern "C" __global__ void shortfall_forward(const float* distance, const float* target, float* out,
                                             float* parts, u32* counter, int size, float pairs,
                                             long long stride) {
    distance = own(distance, stride) + blockIdx.x * size;
    target = own(target, stride) + blockIdx.x * size;
    parts = own(parts, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x) {
        float held = at == blockIdx.x ? 0.0f : hinge(target[at] - distance[at]);
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
    int at = first_index();
    if (at >= size * size) return;
    float held = hinge(own(target, stride)[at] - own(distance, stride)[at]);
    float share = *own(gradient, stride) / pairs;
    put(own(out, stride) + at, at / size == at % size ? 0.0f : -share * (held + held), keep);
}

extern "C" __global__ void negative_share_forward(const float* at_goal, const float* logits,
                                                  float* out, int size, long long stride) {
    float count = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x)
        count += own(at_goal, stride)[at] < own(logits, stride)[at * (size + 1)] ? 1.0f : 0.0f;
    count = block_sum(count);
    if (threadIdx.x == 0) *own(out, stride) = (float)((double)count / (double)size);
}
