// The mean of squared hinges over matching pairs.

extern "C" __global__ void excess_forward(const float* distance, const float* target, float* out,
                                          int size, long long stride) {
    float sum = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x) {
        int place = at * (size + 1);
        float gap = own(distance, stride)[place] - own(target, stride)[place];
        float held = gap > 0.0f ? gap : 0.0f;
        sum += held * held;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *own(out, stride) = sum / (float)size;
}

extern "C" __global__ void excess_backward(const float* distance, const float* target,
                                           const float* gradient, float* out, int keep, int size,
                                           long long stride) {
    int at = first_index();
    if (at >= size * size) return;
    float gap = own(distance, stride)[at] - own(target, stride)[at];
    float held = gap > 0.0f ? gap : 0.0f;
    float share = *own(gradient, stride) / (float)size;
    put(own(out, stride) + at, at / size == at % size ? share * (held + held) : 0.0f, keep);
}
