// min(floor + softplus(raw), cap), or min(exp(raw), cap) where `exponent` says so: one number.

extern "C" __global__ void multiplier_forward(const float* raw, float* out, float floor, float cap,
                                              int exponent, long long stride) {
    float x = *own(raw, stride), value = exponent ? exponential(x) : floor + softplus(x);
    *own(out, stride) = value > cap ? cap : value;
}

extern "C" __global__ void multiplier_backward(const float* raw, const float* out,
                                               const float* gradient, float* target, int keep,
                                               float cap, int exponent, long long stride) {
    float x = *own(raw, stride), upstream = *own(gradient, stride);
    bool acts = !(*own(out, stride) >= cap) || upstream > 0.0f;
    float slope = exponent ? exponential(x) : sigmoid(x);
    put(own(target, stride), acts ? upstream * slope : 0.0f, keep);
}
