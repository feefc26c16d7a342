// What every kernel may use. The block's z is the replica; `stride` is the distance in numbers
// between the memories of two replicas and the last argument of every kernel.

typedef unsigned int u32;
typedef unsigned long long u64;

// The replica's own copy of a buffer; absent buffers stay absent.
template <class T>
__device__ __forceinline__ T* own(T* buffer, long long stride) {
    return buffer ? buffer + (long long)blockIdx.z * stride : buffer;
}

// Adds to what is there, or replaces it where this is the first to write.
__device__ __forceinline__ void put(float* target, float value, int keep) {
    *target = keep ? *target + value : value;
}

// Puts `count` numbers, of which a block has a portion and a thread four, a block's width apart. `value`
// reads what all four follow from before the first is written, so that many reads are under way at once.
template <class Value>
__device__ __forceinline__ void fill(float* target, int count, int portion, int keep, Value value) {
    int first = 4 * portion * blockDim.x + threadIdx.x;
    float found[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int at = first + k * blockDim.x;
        if (at >= count) continue;
        found[k] = value(at);
        if (keep) found[k] = target[at] + found[k];
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int at = first + k * blockDim.x;
        if (at < count) target[at] = found[k];
    }
}

// Four numbers of a row from number `at` on, zeros beyond its width; `wide` says that all rows begin and end
// at multiples of four numbers.
__device__ __forceinline__ void fetch_four(float (&x)[4], const float* row, int at, int width, int wide) {
    if (wide) {
        float4 four = at < width ? *(const float4*)(row + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    } else {
#pragma unroll
        for (int q = 0; q < 4; q++) x[q] = at + q < width ? row[at + q] : 0.0f;
    }
}

__device__ __forceinline__ void store_four(const float (&x)[4], float* row, int at, int width, int wide) {
    if (wide) {
        if (at < width) *(float4*)(row + at) = make_float4(x[0], x[1], x[2], x[3]);
    } else {
#pragma unroll
        for (int q = 0; q < 4; q++)
            if (at + q < width) row[at + q] = x[q];
    }
}

__device__ __forceinline__ int first_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Arguments beyond ±87 are held there, as on the CPU.
__device__ __forceinline__ float exponential(float x) {
    return expf(x < -87.0f ? -87.0f : (x > 87.0f ? 87.0f : x));
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

__device__ __forceinline__ float softplus(float x) {
    return (x > 0.0f ? x : 0.0f) + logf(1.0f + exponential(-fabsf(x)));
}

__device__ __forceinline__ float hyperbolic(float x) {
    return 1.0f - 2.0f / (exponential(x + x) + 1.0f);
}

template <class T>
__device__ __forceinline__ T warp_sum(T x) {
    for (int offset = 16; offset; offset >>= 1) x += __shfl_xor_sync(~0u, x, offset);
    return x;
}

// The largest over a warp and its place, of equal ones the first.
__device__ __forceinline__ void warp_largest(float& best, u32& place) {
    for (int offset = 16; offset; offset >>= 1) {
        float other = __shfl_xor_sync(~0u, best, offset);
        u32 its = __shfl_xor_sync(~0u, place, offset);
        if (other > best || (other == best && its < place)) best = other, place = its;
    }
}

// The sum over all threads of a one-dimensional block of whole warps, in a fixed order.
template <class T>
__device__ __forceinline__ T block_sum(T x) {
    __shared__ T parts[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? parts[lane] : T(0));
}

__device__ __forceinline__ float block_max(float x) {
    __shared__ float parts[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (int offset = 16; offset; offset >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
    __syncthreads();
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    x = parts[lane < warps ? lane : 0];
    for (int offset = 16; offset; offset >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
    return x;
}

// Whether this block is the last of `blocks` to arrive; the counter is ready for the next launch.
__device__ __forceinline__ bool last_block(u32* counter, u32 blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(counter, blocks - 1) == blocks - 1;
    __syncthreads();
    __threadfence();
    return last;
}
