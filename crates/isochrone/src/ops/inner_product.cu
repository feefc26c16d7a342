// x_i . y_i / temperature row by row, a warp a row.

extern "C" __global__ void inner_by_row_forward(const float* from, const float* to, float* out,
                                                int rows, int width, float inverse,
                                                long long stride) {
    int row = first_index() / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    from = own(from, stride) + row * width;
    to = own(to, stride) + row * width;
    float sum = 0.0f;
    for (int at = lane; at < width; at += 32) sum += from[at] * to[at];
    sum = warp_sum(sum);
    if (lane == 0) own(out, stride)[row] = sum * inverse;
}

extern "C" __global__ void inner_by_row_backward(const float* other, const float* gradient,
                                                 float* target, int keep, int rows, int width,
                                                 float inverse, long long stride) {
    int at = first_index();
    if (at >= rows * width) return;
    float g = own(gradient, stride)[at / width] * inverse;
    put(own(target, stride) + at, g * own(other, stride)[at], keep);
}
