// The sum of up to four single numbers x, each with weight constant * factor^power.

__device__ __forceinline__ float combine_weight(double constant, const float* factor, double power,
                                                long long stride) {
    return (float)(constant * (factor ? pow((double)*own(factor, stride), power) : 1.0));
}

extern "C" __global__ void combine_forward(
    const float* x0, const float* f0, double c0, double p0, const float* x1, const float* f1,
    double c1, double p1, const float* x2, const float* f2, double c2, double p2, const float* x3,
    const float* f3, double c3, double p3, float* out, int add, long long stride) {
    const float *xs[4] = {x0, x1, x2, x3}, *fs[4] = {f0, f1, f2, f3};
    double cs[4] = {c0, c1, c2, c3}, ps[4] = {p0, p1, p2, p3};
    float sum = add ? *own(out, stride) : 0.0f;
    for (int at = 0; at < 4; at++)
        if (xs[at]) sum += combine_weight(cs[at], fs[at], ps[at], stride) * *own(xs[at], stride);
    *own(out, stride) = sum;
}

extern "C" __global__ void combine_backward(const float* gradient, const float* factor,
                                            double constant, double power, float* target, int keep,
                                            long long stride) {
    float weight = combine_weight(constant, factor, power, stride);
    put(own(target, stride), *own(gradient, stride) * weight, keep);
}
