// InfoNCE over all pairs. Forward keeps the top and the sum of exponentials of every row and every
// column; backward writes (P_ij + Q_ij - 2 delta_ij) / size from them.

__device__ __forceinline__ void nce_row(const float* row, int size, float* top, float* sum) {
    float most = row[0], total = 0.0f;
    for (int at = threadIdx.x; at < size; at += blockDim.x) most = fmaxf(most, row[at]);
    most = block_max(most);
    for (int at = threadIdx.x; at < size; at += blockDim.x) total += exponential(row[at] - most);
    total = block_sum(total);
    if (threadIdx.x == 0) *top = most, *sum = total;
}

// Eight columns a block, thirty-two rows at once.
__device__ __forceinline__ void nce_columns(const float* logits, int size, int first, float* tops,
                                            float* sums) {
    __shared__ float parts[32][9];
    int inside = threadIdx.x & 7, lane = threadIdx.x >> 3, column = first + inside;
    bool valid = column < size;
    float most = valid ? logits[column] : 0.0f, total = 0.0f;
    if (valid)
        for (int row = lane; row < size; row += 32) most = fmaxf(most, logits[row * size + column]);
    parts[lane][inside] = most;
    __syncthreads();
    for (int other = 0; other < 32; other++) most = fmaxf(most, parts[other][inside]);
    __syncthreads();
    if (valid)
        for (int row = lane; row < size; row += 32)
            total += exponential(logits[row * size + column] - most);
    parts[lane][inside] = total;
    __syncthreads();
    if (lane == 0 && valid) {
        for (int other = 1; other < 32; other++) total += parts[other][inside];
        tops[column] = most;
        sums[column] = total;
    }
}

// Blocks of 256 threads: one a row, then one for eight columns; the last to end adds the loss.
// `kept` is four rows of `size` numbers: tops and sums of rows, tops and sums of columns.
extern "C" __global__ void info_nce_forward(const float* logits, float* out, float* kept,
                                            u32* counter, int size, int rows, int columns,
                                            double penalty, long long stride) {
    logits = own(logits, stride);
    kept = own(kept, stride);
    int block = blockIdx.x, row_blocks = rows ? size : 0;
    if (block < row_blocks)
        nce_row(logits + block * size, size, kept + block, kept + size + block);
    else
        nce_columns(logits, size, 8 * (block - row_blocks), kept + 2 * size, kept + 3 * size);
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

extern "C" __global__ void info_nce_backward(const float* logits, const float* kept,
                                             const float* gradient, float* target, int keep,
                                             int size, int rows, int columns, double penalty,
                                             long long stride) {
    int at = first_index();
    if (at >= size * size) return;
    kept = own(kept, stride);
    int i = at / size, j = at % size;
    float f = own(logits, stride)[at], match = i == j ? 1.0f : 0.0f, sum = 0.0f;
    if (columns) sum += exponential(f - kept[2 * size + j]) / kept[3 * size + j] - match;
    if (rows) {
        double total = (double)(kept[i] + logf(kept[size + i]));
        float scale = (float)(1.0 + 2.0 * penalty * total) / kept[size + i];
        sum += exponential(f - kept[i]) * scale - match;
    }
    put(own(target, stride) + at, *own(gradient, stride) / (float)size * sum, keep);
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
    int at = first_index();
    if (at >= size * size) return;
    float upstream = *own(gradient, stride) / ((float)size * (float)size);
    float match = at / size == at % size ? 1.0f : 0.0f;
    put(own(target, stride) + at, upstream * (sigmoid(own(logits, stride)[at]) - match), keep);
}
