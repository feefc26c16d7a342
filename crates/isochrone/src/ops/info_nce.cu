// InfoNCE over all pairs. Forward keeps the top and the sum of exponentials of every row and every
// column; backward writes (P_ij + Q_ij - 2 delta_ij) / size from them.

// A warp a row.
__device__ __forceinline__ void nce_row(const float* row, int size, float* top, float* sum) {
    int lane = threadIdx.x & 31;
    float most = row[0], total = 0.0f;
#pragma unroll 8
    for (int at = lane; at < size; at += 32) most = fmaxf(most, row[at]);
    for (int offset = 16; offset; offset >>= 1)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
#pragma unroll 8
    for (int at = lane; at < size; at += 32) total += exponential(row[at] - most);
    total = warp_sum(total);
    if (lane == 0) *top = most, *sum = total;
}

// Eight columns per block of 1024 threads: 128 rows at once, four per warp.
__device__ __forceinline__ void nce_columns(const float* logits, int size, int first, float* tops,
                                            float* sums) {
    __shared__ float parts[2][32][9];
    int inside = threadIdx.x & 7, lane = threadIdx.x >> 3, warp = threadIdx.x >> 5;
    int column = first + inside;
    bool valid = column < size, leads = (threadIdx.x & 31) < 8;
    float most = valid ? logits[column] : 0.0f, total = 0.0f;
    if (valid)
#pragma unroll 8
        for (int row = lane; row < size; row += 128) most = fmaxf(most, logits[row * size + column]);
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 8));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 16));
    if (leads) parts[0][warp][inside] = most;
    __syncthreads();
    for (int other = 0; other < 32; other++) most = fmaxf(most, parts[0][other][inside]);
    if (valid)
#pragma unroll 8
        for (int row = lane; row < size; row += 128)
            total += exponential(logits[row * size + column] - most);
    total += __shfl_xor_sync(~0u, total, 8);
    total += __shfl_xor_sync(~0u, total, 16);
    if (leads) parts[1][warp][inside] = total;
    __syncthreads();
    if (threadIdx.x < 8 && valid) {
        for (int other = 1; other < 32; other++) total += parts[1][other][inside];
        tops[column] = most;
        sums[column] = total;
    }
}

// Blocks of 1024 threads: one for 32 rows, then one for eight columns; the last to end adds the loss.
// `kept` is four rows of `size` numbers: tops and sums of rows, tops and sums of columns.
extern "C" __global__ void __launch_bounds__(1024)
    info_nce_forward(const float* logits, float* out, float* kept, u32* counter, int size, int rows,
                     int columns, double penalty, long long stride) {
    logits = own(logits, stride);
    kept = own(kept, stride);
    int row_blocks = rows ? (size + 31) / 32 : 0, row = 32 * blockIdx.x + (threadIdx.x >> 5);
    if (blockIdx.x >= row_blocks)
        nce_columns(logits, size, 8 * (blockIdx.x - row_blocks), kept + 2 * size, kept + 3 * size);
    else if (row < size)
        nce_row(logits + (long long)row * size, size, kept + row, kept + size + row);
    if (!last_block(own(counter, stride), gridDim.x)) return;
    double loss = 0.0;
    for (int at = threadIdx.x; at < size; at += blockDim.x) {
        float match = logits[at * (size + 1)];
        if (rows) {
            double total = (double)(__ldcg(kept + at) + logf(__ldcg(kept + size + at)));
            loss += total - (double)match + penalty * total * total;
        }
        if (columns)
            loss += (double)(__ldcg(kept + 2 * size + at) + logf(__ldcg(kept + 3 * size + at)) -
                             match);
    }
    loss = block_sum(loss);
    if (threadIdx.x == 0) *own(out, stride) = (float)(loss / (double)size);
}

// A block has 256 columns of eight rows.
extern "C" __global__ void info_nce_backward(const float* logits, const float* kept,
                                             const float* gradient, float* target, int keep,
                                             int size, int rows, int columns, double penalty,
                                             long long stride) {
    __shared__ float tops[8], scales[8];
    kept = own(kept, stride), logits = own(logits, stride), target = own(target, stride);
    int column = first_index(), first = 8 * blockIdx.y, mine = first + threadIdx.x;
    if (rows && threadIdx.x < 8 && mine < size) {
        double total = (double)(kept[mine] + logf(kept[size + mine]));
        tops[threadIdx.x] = kept[mine];
        scales[threadIdx.x] = (float)(1.0 + 2.0 * penalty * total) / kept[size + mine];
    }
    __syncthreads();
    if (column >= size) return;
    float upstream = *own(gradient, stride) / (float)size;
    float top = columns ? kept[2 * size + column] : 0.0f;
    float scale = columns ? 1.0f / kept[3 * size + column] : 0.0f;
    long long corner = (long long)first * size + column;
    float f[8];
    // All are read before the first is written.
#pragma unroll
    for (int inside = 0; inside < 8; inside++)
        f[inside] = first + inside < size ? logits[corner + inside * size] : 0.0f;
#pragma unroll
    for (int inside = 0; inside < 8; inside++) {
        int row = first + inside;
        if (row >= size) return;
        float match = row == column ? 1.0f : 0.0f, sum = 0.0f;
        if (columns) sum += exponential(f[inside] - top) * scale - match;
        if (rows) sum += exponential(f[inside] - tops[inside]) * scales[inside] - match;
        put(target + corner + inside * size, upstream * sum, keep);
    }
}

// A block a row; the last one adds the rows.
extern "C" __global__ void info_nce_binary_forward(const float* logits, float* out, float* kept,
                                                   u32* counter, int size, long long stride) {
    const float* row = own(logits, stride) + blockIdx.x * size;
    kept = own(kept, stride);
    double sum = 0.0;
    for (int at = threadIdx.x; at < size; at += blockDim.x) sum += (double)softplus(row[at]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) kept[blockIdx.x] = (float)(sum - (double)row[blockIdx.x]);
    if (!last_block(own(counter, stride), gridDim.x)) return;
    double total = 0.0;
    for (int at = threadIdx.x; at < size; at += blockDim.x) total += (double)__ldcg(kept + at);
    total = block_sum(total);
    if (threadIdx.x == 0) *own(out, stride) = (float)(total / ((double)size * (double)size));
}

extern "C" __global__ void info_nce_binary_backward(const float* logits, const float* gradient,
                                                    float* target, int keep, int size,
                                                    long long stride) {
    float upstream = *own(gradient, stride) / ((float)size * (float)size);
    logits = own(logits, stride) + blockIdx.x * size;
    fill(own(target, stride) + blockIdx.x * size, size, blockIdx.y, keep, [&](int at) {
        return upstream * (sigmoid(logits[at]) - (at == blockIdx.x ? 1.0f : 0.0f));
    });
}
