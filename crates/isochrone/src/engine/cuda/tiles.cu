// Products whose results are too few for cuBLASLt to fill a GPU: TF32 on tensor cores, a block for a
// small tile of the result. Several warps share the sum over k and are added in order. The tensor cores
// leave out the last bits of factors that TF32 has not.

// A tile of LINES x LENGTH numbers that moves through a matrix along k: along its lines where ALONG, else
// from line to line. THREADS threads copy four numbers each, again and again, to shared memory in the
// background; what lies beyond the matrix becomes zero.
template <bool ALONG, int LINES, int LENGTH, int PITCH, int THREADS>
struct Tile {
    static constexpr int QUADS = LENGTH / 4, STEP = THREADS / QUADS;
    const float* source;
    int length, lines_left, left, place;
    bool wide;

    __device__ __forceinline__ Tile(const float* from, int first_line, int lines, int first, int length,
                                    bool wide)
        : length(length), wide(wide) {
        int line = threadIdx.x / QUADS, inside = 4 * (threadIdx.x % QUADS);
        source = from + (long long)(first_line + line) * length + first + inside;
        lines_left = lines - first_line - line, left = length - first - inside;
        place = line * PITCH + inside;
    }

    // Copies what it stands on and moves on.
    __device__ __forceinline__ void load(float* tile) {
#pragma unroll
        for (int k = 0; k < LINES / STEP; k++) {
            int count = STEP * k < lines_left ? left : 0;
            copy_ahead(tile + place + STEP * k * PITCH, source + (long long)(STEP * k) * length, count,
                       wide);
        }
        if (ALONG)
            source += LENGTH, left -= LENGTH;
        else
            source += (long long)LINES * length, lines_left -= LINES;
    }
};

// What one product is asked for. `told` is absent or says by its sign what remains of the result.
struct Asked {
    const float *left, *right, *bias, *told;
    float* out;
    int m, n, k, keep, relu, wide_left, wide_right;
    float scale;
};

// One block: BM x BN numbers of the result, by (BM / 32) (BN / 32) SPLIT warps of 32 x 32. Stages of BK
// numbers of k, STAGES of them in flight; SPLIT warps take turns over the eights of a stage. Within an
// eight a thread takes numbers 2t and 2t + 1 of k on both sides, so that they are read together.
template <bool LEFT_ACROSS, bool RIGHT_ACROSS, int BM, int BN, int SPLIT, int BK, int STAGES>
__device__ __forceinline__ void product(const Asked& asked) {
    constexpr int WARPS_N = BN / 32, TILES = BM / 32 * WARPS_N, THREADS = 32 * TILES * SPLIT;
    constexpr int LEFT_PITCH = LEFT_ACROSS ? BM + 4 : BK + 8, RIGHT_PITCH = RIGHT_ACROSS ? BK + 8 : BN + 4;
    constexpr int LEFT_SIZE = (LEFT_ACROSS ? BK : BM) * LEFT_PITCH;
    constexpr int STAGE = LEFT_SIZE + (RIGHT_ACROSS ? BN : BK) * RIGHT_PITCH;
    constexpr int OUT_PITCH = BN + 8, OUTS = BM * BN / THREADS;
    extern __shared__ __align__(16) float launch_room[];
    int first_row = blockIdx.y * BM, first_column = blockIdx.x * BN;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int tile = warp % TILES, share = warp / TILES;
    int tile_row = tile / WARPS_N * 32, tile_column = tile % WARPS_N * 32;
    int stages = (asked.k + BK - 1) / BK;
    using Left = Tile<!LEFT_ACROSS, LEFT_ACROSS ? BK : BM, LEFT_ACROSS ? BM : BK, LEFT_PITCH, THREADS>;
    using Right =
        Tile<RIGHT_ACROSS, RIGHT_ACROSS ? BN : BK, RIGHT_ACROSS ? BK : BN, RIGHT_PITCH, THREADS>;
    Left left = LEFT_ACROSS ? Left(asked.left, 0, asked.k, first_row, asked.m, asked.wide_left)
                            : Left(asked.left, first_row, asked.m, 0, asked.k, asked.wide_left);
    Right right = RIGHT_ACROSS
                      ? Right(asked.right, first_column, asked.n, 0, asked.k, asked.wide_right)
                      : Right(asked.right, 0, asked.k, first_column, asked.n, asked.wide_right);
    float sums[2][4][4] = {};
    auto room = [&](int stage) { return launch_room + stage % STAGES * STAGE; };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage < stages) {
            left.load(room(stage));
            right.load(room(stage) + LEFT_SIZE);
        }
        copy_commit();
    }
    float biases[OUTS], tolds[OUTS];
#pragma unroll
    for (int out = 0; out < OUTS; out++) {
        int at = threadIdx.x + THREADS * out, row = first_row + at / BN, column = first_column + at % BN;
        bool valid = row < asked.m && column < asked.n;
        biases[out] = asked.bias && valid ? asked.bias[column] : 0.0f;
        tolds[out] = asked.told && valid ? asked.told[(long long)row * asked.n + column] : 1.0f;
    }
    for (int stage = 0; stage < stages; stage++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        if (stage + STAGES - 1 < stages) {
            left.load(room(stage + STAGES - 1));
            right.load(room(stage + STAGES - 1) + LEFT_SIZE);
        }
        copy_commit();
        const float *rows = room(stage), *columns = rows + LEFT_SIZE;
#pragma unroll
        for (int eight = 0; eight < BK / 8 / SPLIT; eight++) {
            int k = 8 * (eight * SPLIT + share) + 2 * t;
            float a[2][4], b[4][2];
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    int row = tile_row + 16 * i + 8 * half + g;
                    const float* place = rows + (LEFT_ACROSS ? k * LEFT_PITCH + row : row * LEFT_PITCH + k);
                    float2 pair = LEFT_ACROSS ? make_float2(place[0], place[LEFT_PITCH])
                                              : *(const float2*)place;
                    a[i][half] = pair.x, a[i][2 + half] = pair.y;
                }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int column = tile_column + 8 * j + g;
                const float* place =
                    columns + (RIGHT_ACROSS ? column * RIGHT_PITCH + k : k * RIGHT_PITCH + column);
                float2 pair = RIGHT_ACROSS ? *(const float2*)place
                                           : make_float2(place[0], place[RIGHT_PITCH]);
                b[j][0] = pair.x, b[j][1] = pair.y;
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) product_step(sums[i][j], a[i], b[j]);
        }
    }
    copy_wait<0>();
    __syncthreads();
    float* mine = launch_room + share * BM * OUT_PITCH;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = tile_row + 16 * i + 8 * half + g, column = tile_column + 8 * j + 2 * t;
                *(float2*)(mine + row * OUT_PITCH + column) =
                    make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
            }
    __syncthreads();
#pragma unroll
    for (int out = 0; out < OUTS; out++) {
        int at = threadIdx.x + THREADS * out, inside = at / BN * OUT_PITCH + at % BN;
        int row = first_row + at / BN, column = first_column + at % BN;
        if (row >= asked.m || column >= asked.n) continue;
        float sum = launch_room[inside];
#pragma unroll
        for (int other = 1; other < SPLIT; other++) sum += launch_room[other * BM * OUT_PITCH + inside];
        float* place = asked.out + (long long)row * asked.n + column;
        sum = sum * asked.scale + biases[out];
        if (asked.keep) sum += *place;
        if ((asked.relu && sum <= 0.0f) || tolds[out] <= 0.0f) sum = 0.0f;
        *place = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    tiles_plain(const float* left, const float* right, const float* bias, const float* told, float* out,
                int m, int n, int k, float scale, int keep, int relu, int wide_left, int wide_right,
             long long stride) {
    product<false, false, 32, 32, 8, 64, 5>({own(left, stride), own(right, stride), own(bias, stride),
                                           own(told, stride), own(out, stride), m, n, k, keep, relu,
                                           wide_left, wide_right, scale});
}

extern "C" __global__ void __launch_bounds__(256)
    tiles_across(const float* left, const float* right, const float* bias, const float* told, float* out,
                 int m, int n, int k, float scale, int keep, int relu, int wide_left, int wide_right,
             long long stride) {
    product<false, true, 32, 32, 8, 64, 5>({own(left, stride), own(right, stride), own(bias, stride),
                                           own(told, stride), own(out, stride), m, n, k, keep, relu,
                                           wide_left, wide_right, scale});
}

extern "C" __global__ void __launch_bounds__(256)
    tiles_gradient(const float* left, const float* right, const float* bias, const float* told, float* out,
                   int m, int n, int k, float scale, int keep, int relu, int wide_left, int wide_right,
             long long stride) {
    product<true, false, 32, 32, 8, 64, 5>({own(left, stride), own(right, stride), own(bias, stride),
                                           own(told, stride), own(out, stride), m, n, k, keep, relu,
                                           wide_left, wide_right, scale});
}

// Many gradients of weights at once wait for what they read: tiles twice as large read half as much.
extern "C" __global__ void __launch_bounds__(256, 2)
    tiles_gradient_large(const float* left, const float* right, const float* bias, const float* told,
                         float* out, int m, int n, int k, float scale, int keep, int relu, int wide_left,
                         int wide_right, long long stride) {
    product<true, false, 64, 64, 2, 32, 5>({own(left, stride), own(right, stride), own(bias, stride),
                                            own(told, stride), own(out, stride), m, n, k, keep, relu,
                                            wide_left, wide_right, scale});
}

// Leaves of a gradient what `told` is positive for; four numbers per thread where `wide` says that both
// begin aligned.
extern "C" __global__ void tiles_gate(float* gradient, const float* told, int count, int wide,
                                      long long stride) {
    int at = 4 * first_index();
    gradient = own(gradient, stride) + at;
    told = own(told, stride) + at;
    if (wide && at + 4 <= count) {
        float4 g = *(float4*)gradient, z = *(const float4*)told;
        g.x = z.x > 0.0f ? g.x : 0.0f;
        g.y = z.y > 0.0f ? g.y : 0.0f;
        g.z = z.z > 0.0f ? g.z : 0.0f;
        g.w = z.w > 0.0f ? g.w : 0.0f;
        *(float4*)gradient = g;
    } else {
        for (int rest = 0; rest < 4 && at + rest < count; rest++)
            gradient[rest] = told[rest] > 0.0f ? gradient[rest] : 0.0f;
    }
}

// Adds the rows of a gradient to that of a bias, after leaving of it what `told`, where it is given, is
// positive for. A block has 32 columns of 128 rows, a thread four columns of every 32nd row; the last block
// of its columns adds the parts in order.
extern "C" __global__ void __launch_bounds__(256)
    tiles_down(float* gradient, const float* told, float* bias, int keep, float* parts, u32* counters,
               int rows, int width, int wide, long long stride) {
    __shared__ float sums[32][33];
    int inside = 4 * (threadIdx.x & 7), lane = threadIdx.x >> 3, column = blockIdx.x * 32 + inside;
    int first = blockIdx.y * 128 + lane, left = width - column;
    long long corner = (long long)first * width + column;
    gradient = own(gradient, stride) + corner;
    told = told ? own(told, stride) + corner : told;
    float g[4][4], z[4][4], down[4] = {};
    auto count = [&](int k) { return first + 32 * k < rows ? left : 0; };
#pragma unroll
    for (int k = 0; k < 4; k++) {
        long long row = (long long)(32 * k) * width;
        fetch_four(g[k], gradient + row, 0, count(k), wide);
        if (told) fetch_four(z[k], told + row, 0, count(k), wide);
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
#pragma unroll
        for (int q = 0; q < 4; q++) {
            if (told && !(z[k][q] > 0.0f)) g[k][q] = 0.0f;
            down[q] += g[k][q];
        }
        if (told) store_four(g[k], gradient + (long long)(32 * k) * width, 0, count(k), wide);
    }
#pragma unroll
    for (int q = 0; q < 4; q++) sums[lane][inside + q] = down[q];
    __syncthreads();
    column = blockIdx.x * 32 + threadIdx.x;
    bool adds = threadIdx.x < 32 && column < width;
    parts = own(parts, stride) + column;
    if (adds) {
        float sum = 0.0f;
        for (int row = 0; row < 32; row++) sum += sums[row][threadIdx.x];
        parts[blockIdx.y * width] = sum;
    }
    if (!last_block(own(counters, stride) + blockIdx.x, gridDim.y) || !adds) return;
    float sum = 0.0f;
    for (int part = 0; part < gridDim.y; part++) sum += __ldcg(parts + part * width);
    put(own(bias, stride) + column, sum, keep);
}
