// The least (or, with `largest`, the largest) of two numbers, entry by entry.

__device__ __forceinline__ bool extremum_second(float first, float second, int largest) {
    return largest ? second > first : second < first;
}

extern "C" __global__ void extremum_forward(const float* first, const float* second, float* out,
                                            int count, int largest, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float x = own(first, stride)[at], y = own(second, stride)[at];
    own(out, stride)[at] = isnan(y) || extremum_second(x, y, largest) ? y : x;
}

extern "C" __global__ void extremum_backward(const float* first, const float* second,
                                             const float* gradient, float* target, int keep,
                                             int side, int count, int largest, long long stride) {
    int at = first_index();
    if (at >= count) return;
    int taken = extremum_second(own(first, stride)[at], own(second, stride)[at], largest);
    put(own(target, stride) + at, taken == side ? own(gradient, stride)[at] : 0.0f, keep);
}
