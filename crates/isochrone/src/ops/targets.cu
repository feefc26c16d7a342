// The distance of every pair as a critic says.

extern "C" __global__ void targets_forward(const float* at_goal, const float* logits, float* out,
                                           int rows, int columns, int clamped, long long stride) {
    int at = first_index();
    if (at >= rows * columns) return;
    float t = own(at_goal, stride)[at % columns] - own(logits, stride)[at];
    own(out, stride)[at] = clamped && !(t > 0.0f) ? 0.0f : t;
}
