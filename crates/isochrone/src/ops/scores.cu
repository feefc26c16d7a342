// f_ij = (c_j - d_ij) / temperature; c may be absent.

extern "C" __global__ void scores_forward(const float* distance, const float* potential, float* out,
                                          int rows, int columns, float inverse, long long stride) {
    int at = first_index();
    if (at >= rows * columns) return;
    const float* c = own(potential, stride);
    float d = own(distance, stride)[at];
    own(out, stride)[at] = (c ? c[at % columns] - d : -d) * inverse;
}

extern "C" __global__ void scores_distance(const float* gradient, float* target, int keep, int count,
                                           float inverse, long long stride) {
    int at = first_index();
    if (at < count) put(own(target, stride) + at, -own(gradient, stride)[at] * inverse, keep);
}

// Eight columns per block, thirty-two rows at once.
extern "C" __global__ void scores_potential(const float* gradient, float* target, int keep, int rows,
                                            int columns, float inverse, long long stride) {
    __shared__ float sums[32][9];
    int inside = threadIdx.x & 7, lane = threadIdx.x >> 3, column = blockIdx.x * 8 + inside;
    float sum = 0.0f;
    if (column < columns)
        for (int row = lane; row < rows; row += 32)
            sum += own(gradient, stride)[row * columns + column] * inverse;
    sums[lane][inside] = sum;
    __syncthreads();
    if (lane == 0 && column < columns) {
        for (int other = 1; other < 32; other++) sum += sums[other][inside];
        put(own(target, stride) + column, sum, keep);
    }
}
