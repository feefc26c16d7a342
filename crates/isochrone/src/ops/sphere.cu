// Rows brought to length sqrt(width). A warp a row, eight a block; keeps what rows are multiplied by.

extern "C" __global__ void sphere_forward(const float* in, float* out, float* scales, int rows,
                                          int width, float length, long long stride) {
    int row = first_index() / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    in = own(in, stride) + row * width;
    out = own(out, stride) + row * width;
    float squares = 0.0f;
    for (int at = lane; at < width; at += 32) squares += in[at] * in[at];
    float root = sqrtf(warp_sum(squares)), scale = root > 0.0f ? length / root : 0.0f;
    for (int at = lane; at < width; at += 32) out[at] = scale * in[at];
    if (lane == 0) own(scales, stride)[row] = scale;
}

extern "C" __global__ void sphere_backward(const float* out, const float* scales,
                                           const float* gradient, float* target, int keep, int rows,
                                           int width, long long stride) {
    int row = first_index() / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    out = own(out, stride) + row * width;
    gradient = own(gradient, stride) + row * width;
    target = own(target, stride) + row * width;
    float along = 0.0f, scale = own(scales, stride)[row];
    for (int at = lane; at < width; at += 32) along += gradient[at] * out[at];
    along = warp_sum(along) / (float)width;
    for (int at = lane; at < width; at += 32)
        put(target + at, scale * (gradient[at] - along * out[at]), keep);
}
