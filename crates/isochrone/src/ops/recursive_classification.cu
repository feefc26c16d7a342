// mean near softplus(-f') + w softplus(-f) + softplus(f), w = discount min(exp(ahead), most).

__device__ __forceinline__ float recursive_weight(float ahead, float discount, float most) {
    float ratio = exponential(ahead);
    return discount * (ratio > most ? most : ratio);
}

extern "C" __global__ void recursive_forward(const float* next, const float* goal,
                                             const float* ahead, float* out, int count, float near,
                                             float discount, float most, long long stride) {
    next = own(next, stride);
    goal = own(goal, stride);
    ahead = own(ahead, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x)
        sum += near * softplus(-next[at]) +
               recursive_weight(ahead[at], discount, most) * softplus(-goal[at]) +
               softplus(goal[at]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum / (float)count;
}

extern "C" __global__ void recursive_next(const float* next, const float* gradient, float* target,
                                          int keep, int count, float near, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float share = *own(gradient, stride) / (float)count;
    put(own(target, stride) + at, -share * near * sigmoid(-own(next, stride)[at]), keep);
}

extern "C" __global__ void recursive_goal(const float* goal, const float* ahead,
                                          const float* gradient, float* target, int keep, int count,
                                          float discount, float most, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float f = own(goal, stride)[at], share = *own(gradient, stride) / (float)count;
    float positive = recursive_weight(own(ahead, stride)[at], discount, most) * sigmoid(-f);
    put(own(target, stride) + at, share * (sigmoid(f) - positive), keep);
}
