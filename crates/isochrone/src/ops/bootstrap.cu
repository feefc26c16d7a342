// (1 - reached) (discount v - 1), held to [least, 0] where `held` says so.

extern "C" __global__ void bootstrap_forward(const float* next, const float* reached, float* out,
                                             int count, float discount, int held, float least,
                                             long long stride) {
    int at = first_index();
    if (at >= count) return;
    float value = (1.0f - own(reached, stride)[at]) * (discount * own(next, stride)[at] - 1.0f);
    if (held) value = value < least ? least : (value > 0.0f ? 0.0f : value);
    own(out, stride)[at] = value;
}
