// a = tanh(mean + deviation * noise) and the log-likelihood of the squashed normal law. The
// statistics hold the means, then the logarithms of the deviations, held to [-5, 2].

__device__ __forceinline__ float tanh_bounded(float log, bool* passes) {
    float held = log < -5.0f ? -5.0f : (log > 2.0f ? 2.0f : log);
    *passes = held == log;
    return held;
}

extern "C" __global__ void tanh_sample_forward(const float* statistics, const float* noise,
                                               float* out, int rows, int width, long long stride) {
    int at = first_index();
    if (at >= rows * width) return;
    bool passes;
    const float* mean = own(statistics, stride) + at / width * 2 * width + at % width;
    float deviation = exponential(tanh_bounded(mean[width], &passes));
    own(out, stride)[at] = hyperbolic(*mean + deviation * own(noise, stride)[at]);
}

extern "C" __global__ void tanh_sample_backward(const float* statistics, const float* noise,
                                                const float* out, const float* gradient,
                                                float* target, int keep, int rows, int width,
                                                long long stride) {
    int at = first_index();
    if (at >= rows * width) return;
    bool passes;
    int place = at / width * 2 * width + at % width;
    float action = own(out, stride)[at];
    float inner = own(gradient, stride)[at] * (1.0f - action * action);
    float log = tanh_bounded(own(statistics, stride)[place + width], &passes);
    float spread = passes ? inner * own(noise, stride)[at] * exponential(log) : 0.0f;
    put(own(target, stride) + place, inner, keep);
    put(own(target, stride) + place + width, spread, keep);
}

// (u - mean) / deviation with u = atanh of the action, held inside (-1, 1).
__device__ __forceinline__ float tanh_term(float mean, float log, float action, float* inside) {
    const float edge = (float)(1.0 - 1e-5);
    *inside = action < -edge ? -edge : (action > edge ? edge : action);
    float u = 0.5f * logf((1.0f + *inside) / (1.0f - *inside));
    return (u - mean) * exponential(-log);
}

extern "C" __global__ void tanh_gaussian_forward(const float* statistics, const float* actions,
                                                 float* out, int rows, int width,
                                                 long long stride) {
    const float constant = 0.918938533204672741780f;
    int row = first_index();
    if (row >= rows) return;
    const float* mean = own(statistics, stride) + row * 2 * width;
    const float* action = own(actions, stride) + row * width;
    float sum = 0.0f;
    for (int at = 0; at < width; at++) {
        bool passes;
        float inside, log = tanh_bounded(mean[width + at], &passes);
        float z = tanh_term(mean[at], log, action[at], &inside);
        sum -= 0.5f * z * z + log + constant + logf(1.0f - inside * inside);
    }
    own(out, stride)[row] = sum;
}

extern "C" __global__ void tanh_gaussian_backward(const float* statistics, const float* actions,
                                                  const float* gradient, float* target, int keep,
                                                  int rows, int width, long long stride) {
    int at = first_index();
    if (at >= rows * width) return;
    int place = at / width * 2 * width + at % width;
    statistics = own(statistics, stride);
    bool passes;
    float inside, g = own(gradient, stride)[at / width];
    float log = tanh_bounded(statistics[place + width], &passes);
    float z = tanh_term(statistics[place], log, own(actions, stride)[at], &inside);
    put(own(target, stride) + place, g * z * exponential(-log), keep);
    put(own(target, stride) + place + width, passes ? g * (z * z - 1.0f) : 0.0f, keep);
}
