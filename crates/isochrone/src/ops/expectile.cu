// mean w (y - x)^2, w one number where the advantage is negative and another elsewhere. One block.

extern "C" __global__ void expectile_forward(const float* in, const float* goal,
                                             const float* advantage, float* out, int count,
                                             float negative, float positive, long long stride) {
    in = own(in, stride);
    goal = own(goal, stride);
    advantage = own(advantage, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x) {
        float weight = advantage[at] < 0.0f ? negative : positive, error = goal[at] - in[at];
        sum += weight * error * error;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum / (float)count;
}

extern "C" __global__ void expectile_backward(const float* in, const float* goal,
                                              const float* advantage, const float* gradient,
                                              float* target, int keep, int count, float negative,
                                              float positive, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float weight = own(advantage, stride)[at] < 0.0f ? negative : positive;
    float share = *own(gradient, stride) * (2.0f / (float)count);
    float error = own(in, stride)[at] - own(goal, stride)[at];
    put(own(target, stride) + at, share * weight * error, keep);
}
