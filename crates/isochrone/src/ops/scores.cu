// f_ij = (c_j - d_ij) / temperature; c may be absent.

extern "C" __global__ void scores_forward(const float* distance, const float* potential, float* out,
                                          int columns, float inverse, long long stride) {
    const float* c = own(potential, stride);
    distance = own(distance, stride) + blockIdx.x * columns;
    fill(own(out, stride) + blockIdx.x * columns, columns, blockIdx.y, 0, [&](int at) {
        return (c ? c[at] - distance[at] : -distance[at]) * inverse;
    });
}

extern "C" __global__ void scores_distance(const float* gradient, float* target, int keep, int count,
                                           float inverse, long long stride) {
    gradient = own(gradient, stride);
    fill(own(target, stride), count, blockIdx.x, keep, [&](int at) { return -gradient[at] * inverse; });
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
