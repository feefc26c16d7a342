// discount^k exp(d - d') - d of scaled distances for all pairs, linear past the cutoff. A block a row;
// keeps the slopes.

extern "C" __global__ void backup_forward(const float* distance, const float* left,
                                          const float* gaps, float* out, float* slopes,
                                          float* parts, u32* counter, int size, float scale,
                                          double discount, float cutoff, float all,
                                          float matching, long long stride) {
    int row = blockIdx.x;
    distance = own(distance, stride) + row * size;
    left = own(left, stride) + row * size;
    slopes = own(slopes, stride) + row * size;
    parts = own(parts, stride);
    __shared__ float factor;
    if (threadIdx.x == 0) factor = (float)pow(discount, (double)own(gaps, stride)[row]);
    __syncthreads();
    float sum = 0.0f, match = 0.0f;
    for (int column = threadIdx.x; column < size; column += blockDim.x) {
        float d = distance[column], gap = (d - left[column]) * scale, term = gap, slope = 1.0f;
        if (!(gap > cutoff)) {
            float ratio = factor * exponential(gap);
            // Rounded by itself, so that a scale of 1 changes no bit.
            term = ratio - __fmul_rn(d, scale);
            slope = ratio - 1.0f;
        }
        slope *= scale;
        sum += term;
        match += column == row ? term : 0.0f;
        slopes[column] = slope * all + (column == row ? slope * matching : 0.0f);
    }
    sum = block_sum(sum);
    match = block_sum(match);
    if (threadIdx.x == 0) parts[row] = sum * all + match * matching;
    if (!last_block(own(counter, stride), gridDim.x)) return;
    double total = 0.0;
    for (int at = threadIdx.x; at < size; at += blockDim.x) total += (double)__ldcg(parts + at);
    total = block_sum(total);
    if (threadIdx.x == 0) *own(out, stride) = (float)total;
}

extern "C" __global__ void backup_backward(const float* gradient, const float* slopes, float* target,
                                           int keep, int count, long long stride) {
    float along = *own(gradient, stride);
    slopes = own(slopes, stride);
    fill(own(target, stride), count, blockIdx.x, keep, [&](int at) { return along * slopes[at]; });
}
