// Activation and layer norm of the sums a product has left, and their derivatives. Activations:
// 0 identity, 1 max(0, z), 2 z Phi(z) in its tanh form, 3 z sigmoid(z).

#define ROOT_TWO_OVER_PI 0.79788456080286535588f

// The hyperbolic tangent to 1e-6: the quick exponential and quotient are near enough for an activation.
__device__ __forceinline__ float linear_tanh(float x) {
    return 1.0f - __fdividef(2.0f, __expf(fminf(x + x, 80.0f)) + 1.0f);
}

// The activation at z, and its derivative.
__device__ __forceinline__ float linear_both(float z, int activation, float& slope) {
    switch (activation) {
        case 1: slope = z > 0.0f ? 1.0f : 0.0f; return z > 0.0f ? z : 0.0f;
        case 2: {
            float tanh = linear_tanh(ROOT_TWO_OVER_PI * (z + 0.044715f * z * z * z));
            float inner = ROOT_TWO_OVER_PI * (1.0f + 0.134145f * z * z);
            slope = 0.5f * (1.0f + tanh) + 0.5f * z * (1.0f - tanh * tanh) * inner;
            return 0.5f * z * (1.0f + tanh);
        }
        case 3: {
            float s = sigmoid(z);
            slope = s * (1.0f + z * (1.0f - s));
            return z * s;
        }
        default: slope = 1.0f; return z;
    }
}

__device__ __forceinline__ float linear_activation(float z, int activation) {
    float slope;
    return linear_both(z, activation, slope);
}

__device__ __forceinline__ float linear_slope(float z, int activation) {
    float slope;
    linear_both(z, activation, slope);
    return slope;
}

extern "C" __global__ void linear_activate(const float* sums, float* out, int count, int activation,
                                           long long stride) {
    int at = first_index();
    if (at < count) own(out, stride)[at] = linear_activation(own(sums, stride)[at], activation);
}

// A norm's row belongs to `lanes` threads, a warp or a whole block. Each has HELD fours of it, `lanes`
// fours apart; `wide` says that rows begin and end at multiples of four numbers.
// A warp has rows of at most so many numbers, and a block so many rows of the backward half.
#define LINEAR_NARROW 512
#define LINEAR_STRIP 16

__device__ __forceinline__ float linear_row_sum(float x, int lanes) {
    return lanes == 32 ? warp_sum(x) : block_sum(x);
}

// Keeps the mean of every row and the inverse of its deviation.
template <int HELD>
__device__ __forceinline__ void linear_norm_forward(const float* sums, const float* gain,
                                                    const float* shift, float* out, float* moments,
                                                    int rows, int width, int lanes, int wide,
                                                    int activation, long long stride) {
    int row = blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes, lane = threadIdx.x % lanes;
    if (row >= rows) return;
    sums = own(sums, stride) + (long long)row * width;
    out = own(out, stride) + (long long)row * width;
    float x[HELD][4], sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int held = 0; held < HELD; held++) {
        fetch_four(x[held], sums, 4 * (lane + lanes * held), width, wide);
#pragma unroll
        for (int q = 0; q < 4; q++) sum += x[held][q] = linear_activation(x[held][q], activation);
    }
    float mean = linear_row_sum(sum, lanes) / (float)width;
#pragma unroll
    for (int held = 0; held < HELD; held++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            x[held][q] -= mean;
            if (4 * (lane + lanes * held) + q < width) squares += x[held][q] * x[held][q];
        }
    float inverse = 1.0f / sqrtf(linear_row_sum(squares, lanes) / (float)width + 1e-6f);
#pragma unroll
    for (int held = 0; held < HELD; held++) {
        int at = 4 * (lane + lanes * held);
        float gains[4], shifts[4];
        fetch_four(gains, own(gain, stride), at, width, wide);
        fetch_four(shifts, own(shift, stride), at, width, wide);
#pragma unroll
        for (int q = 0; q < 4; q++) x[held][q] = x[held][q] * inverse * gains[q] + shifts[q];
        store_four(x[held], out, at, width, wide);
    }
    if (lane == 0) {
        own(moments, stride)[2 * row] = mean;
        own(moments, stride)[2 * row + 1] = inverse;
    }
}

extern "C" __global__ void __launch_bounds__(128)
    linear_normalize(const float* sums, const float* gain, const float* shift, float* out,
                     float* moments, int rows, int width, int lanes, int wide, int activation,
                     long long stride) {
    linear_norm_forward<2>(sums, gain, shift, out, moments, rows, width, lanes, wide, activation, stride);
}

extern "C" __global__ void __launch_bounds__(512)
    linear_normalize_large(const float* sums, const float* gain, const float* shift, float* out,
                           float* moments, int rows, int width, int lanes, int wide, int activation,
                           long long stride) {
    linear_norm_forward<4>(sums, gain, shift, out, moments, rows, width, lanes, wide, activation, stride);
}

// Turns the gradient of the norm's output into that of the sums. A block has a strip of rows; where
// `parts` are asked for it leaves there what its rows add to the gradients of gain, shift and bias.
template <int HELD>
__device__ __forceinline__ void linear_norm_back(float* gradient, const float* sums,
                                                 const float* moments, const float* gain, float* parts,
                                                 int rows, int width, int lanes, int wide,
                                                 int activation, long long stride) {
    __shared__ __align__(16) float room[8][LINEAR_NARROW];
    int team = threadIdx.x / lanes, teams = blockDim.x / lanes, lane = threadIdx.x % lanes;
    int first = blockIdx.x * LINEAR_STRIP;
    int end = first + LINEAR_STRIP < rows ? first + LINEAR_STRIP : rows;
    float by_gain[HELD][4] = {}, by_shift[HELD][4] = {}, by_bias[HELD][4] = {};
    for (int row = first + team; row < end; row += teams) {
        float* its = own(gradient, stride) + (long long)row * width;
        float mean = own(moments, stride)[2 * row], inverse = own(moments, stride)[2 * row + 1];
        float e[HELD][4], z[HELD][4], slopes[HELD][4], sum = 0.0f, product = 0.0f;
#pragma unroll
        for (int held = 0; held < HELD; held++) {
            int at = 4 * (lane + lanes * held);
            fetch_four(e[held], its, at, width, wide);
            fetch_four(z[held], own(sums, stride) + (long long)row * width, at, width, wide);
        }
#pragma unroll
        for (int held = 0; held < HELD; held++) {
            float gains[4];
            fetch_four(gains, own(gain, stride), 4 * (lane + lanes * held), width, wide);
#pragma unroll
            for (int q = 0; q < 4; q++) {
                float g = e[held][q];
                float x = (linear_both(z[held][q], activation, slopes[held][q]) - mean) * inverse;
                by_shift[held][q] += g;
                by_gain[held][q] += g * x;
                e[held][q] = g * gains[q], z[held][q] = x;
                sum += e[held][q];
                product += e[held][q] * x;
            }
        }
        float centre = linear_row_sum(sum, lanes) / (float)width;
        float tilt = linear_row_sum(product, lanes) / (float)width;
#pragma unroll
        for (int held = 0; held < HELD; held++) {
#pragma unroll
            for (int q = 0; q < 4; q++) {
                e[held][q] = (e[held][q] - centre - z[held][q] * tilt) * inverse * slopes[held][q];
                by_bias[held][q] += e[held][q];
            }
            store_four(e[held], its, 4 * (lane + lanes * held), width, wide);
        }
    }
    if (!parts) return;
    parts = own(parts, stride) + (long long)blockIdx.x * 3 * width;
    auto leave = [&](const float (&by)[HELD][4], float* part) {
        if (teams > 1) __syncthreads();
#pragma unroll
        for (int held = 0; held < HELD; held++)
            store_four(by[held], teams > 1 ? room[team] : part, 4 * (lane + lanes * held), width,
                         teams > 1);
        if (teams == 1) return;
        __syncthreads();
        for (int column = threadIdx.x; column < width; column += blockDim.x) {
            float sum = 0.0f;
            for (int other = 0; other < teams; other++) sum += room[other][column];
            part[column] = sum;
        }
    };
    leave(by_gain, parts);
    leave(by_shift, parts + width);
    leave(by_bias, parts + 2 * width);
}

extern "C" __global__ void __launch_bounds__(256)
    linear_norm_backward(float* gradient, const float* sums, const float* moments, const float* gain,
                         float* parts, int rows, int width, int lanes, int wide, int activation,
                         long long stride) {
    linear_norm_back<2>(gradient, sums, moments, gain, parts, rows, width, lanes, wide, activation,
                        stride);
}

extern "C" __global__ void __launch_bounds__(512)
    linear_norm_backward_large(float* gradient, const float* sums, const float* moments,
                               const float* gain, float* parts, int rows, int width, int lanes,
                               int wide, int activation, long long stride) {
    linear_norm_back<4>(gradient, sums, moments, gain, parts, rows, width, lanes, wide, activation,
                        stride);
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

// Adds what strips of rows left for the gradients of gain, shift and bias, in order.
extern "C" __global__ void linear_norm_totals(const float* parts, float* gain, int keep_gain,
                                              float* shift, int keep_shift, float* bias,
                                              int keep_bias, int strips, int width,
                                              long long stride) {
    __shared__ float sums[8][33];
    int lane = threadIdx.x >> 5, inside = threadIdx.x & 31, column = blockIdx.x * 32 + inside;
    int which = blockIdx.y;
    float* target = own(which == 0 ? gain : which == 1 ? shift : bias, stride);
    int keep = which == 0 ? keep_gain : which == 1 ? keep_shift : keep_bias;
    if (!target) return;
    parts = own(parts, stride) + which * width + column;
    float sum = 0.0f;
    if (column < width)
#pragma unroll 8
        for (int strip = lane; strip < strips; strip += 8) sum += parts[(long long)strip * 3 * width];
    sums[lane][inside] = sum;
    __syncthreads();
    if (lane || column >= width) return;
    for (int other = 1; other < 8; other++) sum += sums[other][inside];
    put(target + column, sum, keep);
}
