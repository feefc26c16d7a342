// Adam over a whole arena, with what changes from update to update kept on the GPU.

// Schedules: 0 constant, 1 warmup, 2 tail, 3 cosine.
struct Rule {
    double rate, first_decay, second_decay, epsilon, clip, decay;
    u64 from, until, schedule;
};

__device__ __forceinline__ double schedule_factor(u64 schedule, u64 count, u64 total) {
    double all = (double)(total > 1 ? total : 1), share = (double)count / all;
    switch (schedule) {
        case 1: return fmin(20.0 * (double)(count + 1) / all, 1.0);
        case 2: return share < 0.8 ? 1.0 : 0.2;
        case 3: return 0.5 * (1.0 + cos(3.141592653589793238463 * fmin(share, 1.0)));
        default: return 1.0;
    }
}

__device__ __forceinline__ u64 clock_step(const u32* clock) {
    return (u64)clock[3] << 32 | clock[2];
}

// Writes what every arena's step needs: eight numbers an arena.
extern "C" __global__ void optimizer_begin(const Rule* rules, int count, const u32* clock, u64 ahead,
                                           float* constants, long long stride) {
    int at = first_index();
    if (at >= count) return;
    const Rule rule = rules[at];
    u64 done = clock_step(own(clock, stride)) + ahead - rule.from;
    double rate = rule.rate * schedule_factor(rule.schedule, done, rule.until - rule.from);
    double time = (double)(done + 1 < 2147483647ull ? done + 1 : 2147483647ull);
    float* out = own(constants, stride) + 8 * at;
    out[0] = (float)rule.first_decay;
    out[1] = (float)rule.second_decay;
    out[2] = (float)(rate / (1.0 - pow(rule.first_decay, time)));
    out[3] = (float)(1.0 / sqrt(1.0 - pow(rule.second_decay, time)));
    out[4] = (float)rule.epsilon;
    out[5] = (float)(1.0 - rate * rule.decay);
}

__device__ __forceinline__ void adam(float& value, float& first, float& second, float g,
                                     const float* c) {
    first = c[0] * first + (1.0f - c[0]) * g;
    second = c[1] * second + (1.0f - c[1]) * g * g;
    float root = sqrtf(second) * c[3] + c[4];
    value = value * c[5] - c[2] * first / root;
}

// Four numbers per thread. `norm` is absent where the gradient is not clipped.
extern "C" __global__ void optimizer_step(float* values, float* first, float* second,
                                          const float* gradient, const float* constants,
                                          const double* norm, double limit, int count,
                                          long long stride) {
    float c[6], clip = 1.0f;
    for (int at = 0; at < 6; at++) c[at] = own(constants, stride)[at];
    if (norm) {
        const double length = *(const double*)own((const float*)norm, stride);
        clip = (float)fmin(limit / fmax(length, 1e-30), 1.0);
    }
    int at = 4 * first_index();
    values = own(values, stride) + at;
    first = own(first, stride) + at;
    second = own(second, stride) + at;
    gradient = own(gradient, stride) + at;
    if (at + 4 <= count) {
        float4 v = *(float4*)values, m = *(float4*)first, s = *(float4*)second;
        float4 g = *(const float4*)gradient;
        adam(v.x, m.x, s.x, g.x * clip, c);
        adam(v.y, m.y, s.y, g.y * clip, c);
        adam(v.z, m.z, s.z, g.z * clip, c);
        adam(v.w, m.w, s.w, g.w * clip, c);
        *(float4*)values = v, *(float4*)first = m, *(float4*)second = s;
    } else {
        for (int rest = 0; at + rest < count; rest++)
            adam(values[rest], first[rest], second[rest], gradient[rest] * clip, c);
    }
}

// The Euclidean norm in double precision: blocks of 256 threads, the last adds them in order.
extern "C" __global__ void optimizer_norm(const float* gradient, float* parts, u32* counter,
                                          float* norm, int count, long long stride) {
    double* sums = (double*)own(parts, stride);
    double sum = 0.0;
    for (int at = first_index(); at < count; at += gridDim.x * blockDim.x) {
        double g = own(gradient, stride)[at];
        sum += g * g;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    if (!last_block(own(counter, stride), gridDim.x)) return;
    double total = 0.0;
    for (int at = threadIdx.x; at < gridDim.x; at += blockDim.x) total += __ldcg(sums + at);
    total = block_sum(total);
    if (threadIdx.x == 0) *(double*)own(norm, stride) = sqrt(total);
}

// Moves `target` a share of the way to `source`.
extern "C" __global__ void optimizer_follow(float* target, const float* source, float rate,
                                            int count, long long stride) {
    int at = first_index();
    if (at >= count) return;
    float value = own(target, stride)[at];
    own(target, stride)[at] = value + rate * (own(source, stride)[at] - value);
}

// Records the first loss that is not finite: its step (two words), its pass + 1 and its value.
extern "C" __global__ void optimizer_check(const u64* losses, int count, u64 active,
                                           const u32* clock, u64 ahead, const float* memory,
                                           u32* broken, long long stride) {
    broken = own(broken, stride);
    u64 step = clock_step(own(clock, stride)) + ahead;
    for (int pass = 0; pass < count; pass++) {
        float loss = own(memory, stride)[losses[pass]];
        if (active >> pass & 1 && !isfinite(loss) && !broken[2]) {
            broken[0] = (u32)step, broken[1] = (u32)(step >> 32);
            broken[2] = pass + 1, broken[3] = __float_as_uint(loss);
        }
    }
}

// Ends a list of `count` updates.
extern "C" __global__ void optimizer_advance(u32* clock, u64 count, long long stride) {
    clock = own(clock, stride);
    u64 step = clock_step(clock) + count;
    clock[2] = (u32)step, clock[3] = (u32)(step >> 32);
}
