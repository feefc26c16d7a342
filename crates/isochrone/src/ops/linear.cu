// Activation and layer norm of the sums a product has left, and their derivatives. Activations:
// 0 identity, 1 max(0, z), 2 z Phi(z) in its tanh form, 3 z sigmoid(z).

#define ROOT_TWO_OVER_PI 0.79788456080286535588f

__device__ __forceinline__ float linear_activation(float z, int activation) {
    switch (activation) {
        case 1: return z > 0.0f ? z : 0.0f;
        case 2: return 0.5f * z *
                       (1.0f + hyperbolic(ROOT_TWO_OVER_PI * (z + 0.044715f * z * z * z)));
        case 3: return z * sigmoid(z);
        default: return z;
    }
}

__device__ __forceinline__ float linear_slope(float z, int activation) {
    switch (activation) {
        case 1: return z > 0.0f ? 1.0f : 0.0f;
        case 2: {
            float tanh = hyperbolic(ROOT_TWO_OVER_PI * (z + 0.044715f * z * z * z));
            float inner = ROOT_TWO_OVER_PI * (1.0f + 0.134145f * z * z);
            return 0.5f * (1.0f + tanh) + 0.5f * z * (1.0f - tanh * tanh) * inner;
        }
        case 3: {
            float s = sigmoid(z);
            return s * (1.0f + z * (1.0f - s));
        }
        default: return 1.0f;
    }
}

extern "C" __global__ void linear_activate(const float* sums, float* out, int count, int activation,
                                           long long stride) {
    int at = first_index();
    if (at < count) own(out, stride)[at] = linear_activation(own(sums, stride)[at], activation);
}

// A block a row: keeps the row centred and scaled, and the inverse of its deviation.
extern "C" __global__ void linear_normalize(const float* sums, const float* gain, const float* shift,
                                            float* out, float* centred, float* inverses, int width,
                                            int activation, long long stride) {
    int first = blockIdx.x * width;
    sums = own(sums, stride) + first;
    out = own(out, stride) + first;
    centred = own(centred, stride) + first;
    float sum = 0.0f, squares = 0.0f;
    for (int at = threadIdx.x; at < width; at += blockDim.x) {
        float x = linear_activation(sums[at], activation);
        out[at] = x;
        sum += x;
    }
    float mean = block_sum(sum) / (float)width;
    for (int at = threadIdx.x; at < width; at += blockDim.x)
        squares += (out[at] - mean) * (out[at] - mean);
    float inverse = 1.0f / sqrtf(block_sum(squares) / (float)width + 1e-6f);
    for (int at = threadIdx.x; at < width; at += blockDim.x) {
        float x = (out[at] - mean) * inverse;
        centred[at] = x;
        out[at] = x * own(gain, stride)[at] + own(shift, stride)[at];
    }
    if (threadIdx.x == 0) own(inverses, stride)[blockIdx.x] = inverse;
}

// A block a row: turns the gradient of the norm's output into that of the sums.
extern "C" __global__ void linear_norm_backward(float* gradient, const float* centred,
                                                const float* inverses, const float* gain,
                                                const float* sums, int width, int activation,
                                                long long stride) {
    int first = blockIdx.x * width;
    gradient = own(gradient, stride) + first;
    centred = own(centred, stride) + first;
    gain = own(gain, stride);
    float sum = 0.0f, product = 0.0f;
    for (int at = threadIdx.x; at < width; at += blockDim.x) {
        float e = gradient[at] * gain[at];
        sum += e;
        product += e * centred[at];
    }
    float mean = block_sum(sum) / (float)width, tilt = block_sum(product) / (float)width;
    float inverse = own(inverses, stride)[blockIdx.x];
    for (int at = threadIdx.x; at < width; at += blockDim.x) {
        float inner = (gradient[at] * gain[at] - mean - centred[at] * tilt) * inverse;
        gradient[at] = inner * linear_slope(own(sums, stride)[first + at], activation);
    }
}

// Sums down 32 columns of at most 128 rows, eight rows at once: a part in the first warp.
__device__ __forceinline__ float linear_down(float sum) {
    __shared__ float sums[8][33];
    int inside = threadIdx.x & 31, lane = threadIdx.x >> 5;
    __syncthreads();
    sums[lane][inside] = sum;
    __syncthreads();
    if (lane == 0)
        for (int other = 1; other < 8; other++) sum += sums[other][inside];
    return sum;
}

// Adds the parts of a column in order.
__device__ __forceinline__ float linear_total(const float* parts, int width, int column) {
    float sum = 0.0f;
    for (int part = 0; part < gridDim.y; part++) sum += __ldcg(parts + part * width + column);
    return sum;
}

// Multiplies a gradient by the slope of the activation, which `told` determines; four numbers a
// thread where `wide` says that both begin aligned.
extern "C" __global__ void linear_slopes(float* gradient, const float* told, int count,
                                         int activation, int wide, long long stride) {
    int at = 4 * first_index();
    gradient = own(gradient, stride) + at;
    told = own(told, stride) + at;
    if (wide && at + 4 <= count) {
        float4 g = *(float4*)gradient, z = *(const float4*)told;
        g.x *= linear_slope(z.x, activation);
        g.y *= linear_slope(z.y, activation);
        g.z *= linear_slope(z.z, activation);
        g.w *= linear_slope(z.w, activation);
        *(float4*)gradient = g;
    } else {
        for (int rest = 0; rest < 4 && at + rest < count; rest++)
            gradient[rest] *= linear_slope(told[rest], activation);
    }
}

// Adds the rows of a gradient to that of the bias. A block has 32 columns of 128 rows; the last block
// of its columns adds the parts.
extern "C" __global__ void linear_bias(const float* gradient, float* bias, int keep, float* parts,
                                       u32* counters, int rows, int width, long long stride) {
    int lane = threadIdx.x >> 5, column = blockIdx.x * 32 + (threadIdx.x & 31);
    int first = blockIdx.y * 128, end = first + 128 < rows ? first + 128 : rows;
    gradient = own(gradient, stride);
    float sum = 0.0f;
    if (column < width)
#pragma unroll 8
        for (int row = first + lane; row < end; row += 8) sum += gradient[row * width + column];
    parts = own(parts, stride);
    sum = linear_down(sum);
    if (lane == 0 && column < width) parts[blockIdx.y * width + column] = sum;
    if (last_block(own(counters, stride) + blockIdx.x, gridDim.y) && lane == 0 && column < width)
        put(own(bias, stride) + column, linear_total(parts, width, column), keep);
}

// The gradients of gain and shift, in the same way.
extern "C" __global__ void linear_norm_sums(const float* gradient, const float* centred, float* gain,
                                            int keep_gain, float* shift, int keep_shift,
                                            float* parts, u32* counters, int rows, int width,
                                            long long stride) {
    int lane = threadIdx.x >> 5, column = blockIdx.x * 32 + (threadIdx.x & 31);
    int first = blockIdx.y * 128, end = first + 128 < rows ? first + 128 : rows;
    float sum = 0.0f, product = 0.0f;
    if (column < width)
#pragma unroll 8
        for (int row = first + lane; row < end; row += 8) {
            float g = own(gradient, stride)[row * width + column];
            sum += g;
            product += g * own(centred, stride)[row * width + column];
        }
    parts = own(parts, stride);
    float* products = parts + gridDim.y * width;
    sum = linear_down(sum);
    product = linear_down(product);
    bool writes = lane == 0 && column < width;
    if (writes) {
        parts[blockIdx.y * width + column] = sum;
        products[blockIdx.y * width + column] = product;
    }
    if (last_block(own(counters, stride) + blockIdx.x, gridDim.y) && writes) {
        put(own(gain, stride) + column, linear_total(products, width, column), keep_gain);
        put(own(shift, stride) + column, linear_total(parts, width, column), keep_shift);
    }
}
