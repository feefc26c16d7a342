// min(floor + softplus(raw), cap): one number.

extern "C" __global__ void multiplier_forward(const float* raw, float* out, float floor, float cap,
                                              long long stride) {
    float value = floor + softplus(*own(raw, stride));
    *own(out, stride) = value > cap ? cap : value;
}

extern "C" __global__ void multiplier_backward(const float* raw, const float* out,
                                               const float* gradient, float* target, int keep,
                                               float cap, long long stride) {
    float upstream = *own(gradient, stride);
    bool acts = !(*own(out, stride) >= cap) || upstream > 0.0f;
    put(own(target, stride), acts ? upstream * sigmoid(*own(raw, stride)) : 0.0f, keep);
}
