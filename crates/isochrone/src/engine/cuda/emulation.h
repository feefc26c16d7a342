// Kernels on a CPU, for tests: the threads of a block take turns, from one barrier to the next. Stands
// before the kernels and in place of `instructions.cu`; `launch_named`, which knows them all, comes after.

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

using std::max;
using std::min;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Three {
    unsigned x, y, z;
};
static Three blockIdx, threadIdx, blockDim, gridDim;

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};
static uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static float2 make_float2(float x, float y) { return {x, y}; }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// Those who wait for each other: a block or a warp.
struct Crowd {
    int members, arrived, round;
    void open() {
        if (arrived >= members) arrived = 0, round++;
    }
};

// A thread begins in a context of its own; later turns are jumps, which need no system call.
struct Thread {
    ucontext_t context;
    jmp_buf place;
    enum { WAITS, RUNS, ENDED } state;
};

static std::vector<Thread> threads;
static std::vector<Crowd> warps;
static Crowd block;
static jmp_buf scheduler;
static unsigned current;
static std::function<void()> work;

static void give_way() {
    if (!_setjmp(threads[current].place)) _longjmp(scheduler, 1);
}

static void take_turn(Thread& thread) {
    if (_setjmp(scheduler)) return;
    if (thread.state == Thread::RUNS) _longjmp(thread.place, 1);
    thread.state = Thread::RUNS;
    setcontext(&thread.context);
}

static void wait_for(Crowd& crowd) {
    int round = crowd.round;
    crowd.arrived++;
    crowd.open();
    while (round == crowd.round) give_way();
}

static void begin_thread() {
    work();
    Crowd& warp = warps[current / 32];
    if (--warp.members) warp.open();
    if (--block.members) block.open();
    threads[current].state = Thread::ENDED;
    give_way();
}

static void run_block(unsigned count) {
    static std::vector<std::vector<char>> stacks;
    while (stacks.size() < count) stacks.emplace_back(128 << 10);
    threads.resize(count);
    warps.assign((count + 31) / 32, {});
    block = {(int)count, 0, 0};
    for (unsigned at = 0; at < count; at++) {
        warps[at / 32].members++;
        threads[at].state = Thread::WAITS;
        getcontext(&threads[at].context);
        threads[at].context.uc_stack.ss_sp = stacks[at].data();
        threads[at].context.uc_stack.ss_size = stacks[at].size();
        makecontext(&threads[at].context, begin_thread, 0);
    }
    while (block.members)
        for (current = 0; current < count; current++)
            if (threads[current].state != Thread::ENDED) {
                threadIdx = {current, 0, 0};
                take_turn(threads[current]);
            }
}

static void __syncthreads() { wait_for(block); }
static void __syncwarp() { wait_for(warps[current / 32]); }
static void __threadfence() {}

// What every thread of a warp shows to the others, and what `see` makes of it.
template <class T, class See>
static auto exchange(const T& mine, See see) {
    static char shown[1024][64];
    static_assert(sizeof(T) <= 64, "room for what is shown");
    memcpy(shown[current], &mine, sizeof(T));
    __syncwarp();
    unsigned first = current / 32 * 32;
    auto of = [&](unsigned lane) {
        T other;
        memcpy(&other, shown[first + lane], sizeof(T));
        return other;
    };
    auto seen = see(of);
    __syncwarp();
    return seen;
}

template <class T>
static T __shfl_xor_sync(unsigned, T mine, int offset) {
    unsigned lane = current % 32 ^ offset;
    return exchange(mine, [&](auto of) { return of(lane); });
}

template <class T>
static T __shfl_sync(unsigned, T mine, int lane) {
    return exchange(mine, [&](auto of) { return of(lane); });
}

static unsigned __ballot_sync(unsigned, bool mine) {
    return exchange(mine, [&](auto of) {
        unsigned bits = 0;
        for (unsigned lane = 0; lane < 32; lane++) bits |= (unsigned)of(lane) << lane;
        return bits;
    });
}

static int __syncthreads_or(int mine) {
    static int any;
    __syncthreads();
    any = 0;
    __syncthreads();
    any |= mine;
    __syncthreads();
    return any;
}

static unsigned atomicInc(unsigned* counter, unsigned most) {
    unsigned before = *counter;
    *counter = before >= most ? 0 : before + 1;
    return before;
}

static int atomicAdd(int* place, int more) {
    int before = *place;
    *place = before + more;
    return before;
}

template <class T>
static T __ldcg(const T* place) {
    return *place;
}

template <class To, class From>
static To same_bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from, "as many bits");
    memcpy(&to, &from, sizeof to);
    return to;
}
static int __float_as_int(float x) { return same_bits<int>(x); }
static unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static float __int_as_float(int x) { return same_bits<float>(x); }
static float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static int __float2int_rn(float x) { return isnan(x) ? 0 : (int)rintf(x); }
static int __ffs(unsigned x) { return __builtin_ffs(x); }
static int __vimax3_s32(int a, int b, int c) { return max(a, max(b, c)); }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdividef(float a, float b) { return a / b; }
#define __expf expf

static float inverse_root(float x) { return 1.0f / sqrtf(x); }

// Whether factors lose the bits that TF32 has not, as on tensor cores: in no product, in those of the
// kernels, in all.
static enum { WHOLE, CUT_IN_KERNELS, CUT } factors;
static float cut_short(float x) { return same_bits<float>(same_bits<unsigned>(x) & 0xffffe000); }
static float as_factor(float x) { return factors >= CUT_IN_KERNELS ? cut_short(x) : x; }

struct Fragments {
    float a[4], b[2];
};
static void product_step(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
    Fragments mine;
    for (int at = 0; at < 4; at++) mine.a[at] = as_factor(a[at]);
    for (int at = 0; at < 2; at++) mine.b[at] = as_factor(b[at]);
    unsigned lane = current % 32;
    exchange(mine, [&](auto of) {
        for (int at = 0; at < 4; at++)
            for (int k = 0; k < 8; k++) {
                int row = lane / 4 + 8 * (at / 2), column = 2 * (lane % 4) + at % 2;
                c[at] += of(row % 8 * 4 + k % 4).a[row / 8 + k / 4 * 2] * of(column * 4 + k % 4).b[k / 4];
            }
        return 0;
    });
}

static void copy_ahead(float* shared, const float* from, int count, bool wide) {
    if (wide && count > 0) {
        if ((size_t)from % 16 || (size_t)shared % 16) fprintf(stderr, "a copy is not aligned\n"), exit(1);
        count = 4;
    }
    for (int at = 0; at < 4; at++) shared[at] = at < count ? from[at] : 0.0f;
}
static void copy_commit() {}
template <int NEWER>
static void copy_wait() {}

alignas(16) static float launch_room[58 << 10];

union Argument {
    void* pointer;
    int number;
    unsigned long long wide;
    long long stride;
    float single;
    double fine;
};

template <class T>
static T* as(const Argument& argument, T**) {
    return (T*)argument.pointer;
}
static int as(const Argument& argument, int*) { return argument.number; }
static unsigned long long as(const Argument& argument, unsigned long long*) { return argument.wide; }
static long long as(const Argument& argument, long long*) { return argument.stride; }
static float as(const Argument& argument, float*) { return argument.single; }
static double as(const Argument& argument, double*) { return argument.fine; }

template <class... T, size_t... AT>
static void call(void (*kernel)(T...), const Argument* arguments, std::index_sequence<AT...>) {
    kernel(as(arguments[AT], (T*)nullptr)...);
}

template <class... T>
static void launch(void (*kernel)(T...), Three blocks, unsigned threads, const Argument* arguments) {
    work = [=] { call(kernel, arguments, std::index_sequence_for<T...>()); };
    gridDim = blocks, blockDim = {threads, 1, 1};
    for (unsigned z = 0; z < blocks.z; z++)
        for (unsigned y = 0; y < blocks.y; y++)
            for (unsigned x = 0; x < blocks.x; x++) blockIdx = {x, y, z}, run_block(threads);
}

// A row of `columns` numbers is as long as that of the stored matrix, or of the one it is read across.
static float factor(const float* matrix, bool across, int rows, int columns, int row, int column) {
    float x = across ? matrix[(size_t)column * rows + row] : matrix[(size_t)row * columns + column];
    return factors == CUT ? cut_short(x) : x;
}

static void launch_named(const char* name, Three blocks, unsigned threads, const Argument* arguments);

// Puts what replicas share where the launches look for it.
static bool share(const char* path) {
    FILE* file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return false;
    size_t bytes = ftell(file);
    rewind(file);
    void* place = (void*)(1ull << 44);
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (bytes && mmap(place, bytes, PROT_READ | PROT_WRITE, how, -1, 0) != place) return false;
    bool whole = fread(place, 1, bytes, file) == bytes;
    return !fclose(file) && whole;
}

// Reads launches from a file, a line each, and runs them on the numbers of another, which it replaces,
// and on those of a third.
static int run(char** files, size_t stride, unsigned replicas) {
    std::vector<float> room(stride * replicas + 4);
    float* memory = room.data();
    while ((size_t)memory % 16) memory++;
    FILE* file = fopen(files[0], "rb");
    if (!file || fread(memory, 4, stride * replicas, file) != stride * replicas) return 1;
    fclose(file);
    if (!share(files[1])) return 1;
    FILE* list = fopen(files[2], "r");
    if (!list) return 1;
    char kind, name[100];
    while (fscanf(list, " %c", &kind) == 1) {
        if (kind == 'K') {
            unsigned x, y, threads, count;
            if (fscanf(list, "%99s %u %u %u %u", name, &x, &y, &threads, &count) != 5) return 1;
            std::vector<Argument> arguments(count + 1);
            for (unsigned at = 0; at < count; at++) {
                unsigned long long bits;
                if (fscanf(list, " %c%llu", &kind, &bits) != 2) return 1;
                arguments[at].wide = bits;
                if (kind == 'p') arguments[at].pointer = memory + bits;
            }
            arguments[count].stride = stride;
            launch_named(name, {x, y, replicas}, threads, arguments.data());
        } else {
            int m, k, n, across[2], keep, relu;
            size_t left, right, out;
            long long bias;
            unsigned scale;
            if (fscanf(list, "%d %d %d %d %zu %d %zu %zu %d %u %lld %d", &m, &k, &n, across, &left,
                       across + 1, &right, &out, &keep, &scale, &bias, &relu) != 12)
                return 1;
            for (unsigned z = 0; z < replicas; z++) {
                float* mine = memory + stride * z;
                for (int row = 0; row < m; row++)
                    for (int column = 0; column < n; column++) {
                        double sum = 0.0;
                        for (int at = 0; at < k; at++)
                            sum += (double)factor(mine + left, across[0], m, k, row, at) *
                                   factor(mine + right, across[1], k, n, at, column);
                        float& place = mine[out + (size_t)row * n + column];
                        float whole = (float)sum * same_bits<float>(scale);
                        if (bias >= 0) whole += mine[bias + column];
                        if (keep) whole += place;
                        place = relu && whole <= 0.0f ? 0.0f : whole;
                    }
            }
        }
    }
    fclose(list);
    file = fopen(files[0], "wb");
    if (!file || fwrite(memory, 4, stride * replicas, file) != stride * replicas) return 1;
    return fclose(file);
}

int main(int, char** arguments) {
    factors = (decltype(factors))atoi(arguments[6]);
    return run(arguments + 1, strtoull(arguments[4], nullptr, 10), atoi(arguments[5]));
}
