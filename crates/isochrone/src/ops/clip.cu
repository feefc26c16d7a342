// min(max(x, -1), 1).

extern "C" __global__ void clip_forward(const float* in, float* out, int count, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float x = own(in, stride)[at];
    own(out, stride)[at] = x < -1.0f ? -1.0f : (x > 1.0f ? 1.0f : x);
}

extern "C" __global__ void clip_backward(const float* in, const float* gradient, float* target,
                                         int keep, int count, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float inside = fabsf(own(in, stride)[at]) <= 1.0f ? own(gradient, stride)[at] : 0.0f;
    put(own(target, stride) + at, inside, keep);
}
