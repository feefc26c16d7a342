// mean w(t) |d - t|, or w(-t) relu(-t - d) where t < 0; w(t) = (1 + |t| / unit)^-power. One block forward.

__device__ __forceinline__ float fit_slope(float distance, float target, float power, float unit) {
    bool no_way = target < 0.0f;
    float size = fabsf(target), weight = expf(-power * logf(1.0f + size / unit));
    return distance < size ? -weight : distance > size && !no_way ? weight : 0.0f;
}

extern "C" __global__ void fit_forward(const float* distances, const float* targets, float* out,
                                       int count, float power, float unit, long long stride) {
    distances = own(distances, stride), targets = own(targets, stride);
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x)
        sum += fit_slope(distances[at], targets[at], power, unit) * (distances[at] - fabsf(targets[at]));
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum / (float)count;
}

extern "C" __global__ void fit_backward(const float* distances, const float* targets,
                                        const float* gradient, float* out, int keep, int count,
                                        float power, float unit, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float slope = fit_slope(own(distances, stride)[at], own(targets, stride)[at], power, unit);
    put(own(out, stride) + at, *own(gradient, stride) / (float)count * slope, keep);
}
