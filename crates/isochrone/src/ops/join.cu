// Up to four matrices side by side, into columns `first` and on of rows of `total` numbers.

__device__ __forceinline__ int join_find(int column, const int* widths, int* inside) {
    int which = 0;
    while (column >= widths[which]) column -= widths[which++];
    *inside = column;
    return which;
}

extern "C" __global__ void join_forward(const float* a, const float* b, const float* c,
                                        const float* d, int wa, int wb, int wc, int wd,
                                        float* out, int rows, int total, int first,
                                        long long stride) {
    int widths[4] = {wa, wb, wc, wd}, width = wa + wb + wc + wd;
    const float* inputs[4] = {own(a, stride), own(b, stride), own(c, stride), own(d, stride)};
    int at = first_index();
    if (at >= rows * width) return;
    int row = at / width, inside, which = join_find(at % width, widths, &inside);
    own(out, stride)[row * total + first + at % width] = inputs[which][row * widths[which] + inside];
}

extern "C" __global__ void join_backward(float* a, float* b, float* c, float* d, int wa, int wb,
                                         int wc, int wd, int ka, int kb, int kc, int kd,
                                         const float* gradient, int rows, int total, int first,
                                         long long stride) {
    int widths[4] = {wa, wb, wc, wd}, keeps[4] = {ka, kb, kc, kd}, width = wa + wb + wc + wd;
    float* targets[4] = {own(a, stride), own(b, stride), own(c, stride), own(d, stride)};
    int at = first_index();
    if (at >= rows * width) return;
    int row = at / width, inside, which = join_find(at % width, widths, &inside);
    if (targets[which])
        put(targets[which] + row * widths[which] + inside,
            own(gradient, stride)[row * total + first + at % width], keeps[which]);
}
