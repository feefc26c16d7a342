// The share of matching pairs whose target is negative.

extern "C" __global__ void negative_share_forward(const float* at_goal, const float* logits,
                                                  float* out, int size, long long stride) {
    float count = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x)
        count += own(at_goal, stride)[at] < own(logits, stride)[at * (size + 1)] ? 1.0f : 0.0f;
    count = block_sum(count);
    if (threadIdx.x == 0) *own(out, stride) = (float)((double)count / (double)size);
}
