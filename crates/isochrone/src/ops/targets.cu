// The distance of every pair as a critic says.

extern "C" __global__ void targets_forward(const float* at_goal, const float* logits, float* out,
                                           int columns, int clamped, long long stride) {
    at_goal = own(at_goal, stride);
    logits = own(logits, stride) + blockIdx.x * columns;
    fill(own(out, stride) + blockIdx.x * columns, columns, blockIdx.y, 0, [&](int at) {
        float t = at_goal[at] - logits[at];
        return clamped && !(t > 0.0f) ? 0.0f : t;
    });
}
