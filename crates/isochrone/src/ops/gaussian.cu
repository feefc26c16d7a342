// log N(a; mean, deviation^2) row by row, with a constant deviation.

extern "C" __global__ void gaussian_forward(const float* mean, const float* action, float* out,
                                            int rows, int width, float inverse, float constant,
                                            long long stride) {
    int row = first_index();
    if (row >= rows) return;
    mean = own(mean, stride) + row * width;
    action = own(action, stride) + row * width;
    float sum = 0.0f;
    for (int at = 0; at < width; at++) {
        float z = (action[at] - mean[at]) * inverse;
        sum += z * z;
    }
    own(out, stride)[row] = -0.5f * sum - constant;
}

extern "C" __global__ void gaussian_backward(const float* mean, const float* action,
                                             const float* gradient, float* target, int keep,
                                             int rows, int width, float inverse, long long stride) {
    int at = first_index();
    if (at >= rows * width) return;
    float difference = own(action, stride)[at] - own(mean, stride)[at];
    put(own(target, stride) + at, own(gradient, stride)[at / width] * difference * inverse, keep);
}
