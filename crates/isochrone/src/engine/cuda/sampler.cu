// Batches drawn on the GPU from the streams of `random.rs`: integers only, equal to the CPU's.

struct Data {
    const float *states, *actions, *shift, *scale;
    const u32 *last_rows, *starts, *cumulative;
    u32 rows, start_count, table, state_size, action_size, unused;
};

// Kinds: 0 start, 1 next, 2 future, 3 mixed, 4 random.
struct Choice {
    u32 kind, from_one, clip, unused;
    double future, both;
};

// Kinds: 0 state, 1 action, 2 permuted action, 3 rolled action, 4 noise. `out` is the place of the
// column in a replica's memory.
struct Filler {
    u32 kind, choice, width, purpose;
    u64 order, out;
};

__device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        if (round) key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
        u32 high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        u32 high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    }
    return counter;
}

// Four words for `index` of the update `ahead` of the clock's.
__device__ __forceinline__ uint4 block_of(const u32* clock, u64 ahead, u32 purpose, u32 index) {
    u64 step = ((u64)clock[3] << 32 | clock[2]) + ahead;
    u32 high = (u32)(step >> 32) & 0xffffu | purpose << 16;
    return philox(make_uint4(index, 0, (u32)step, high), make_uint2(clock[0], clock[1]));
}

__device__ __forceinline__ double unit(u32 word) { return ((double)word + 0.5) / 4294967296.0; }

__device__ __forceinline__ u32 future_row(const Data* data, const Choice* law, u32 start, u32 word) {
    u32 rest = data->last_rows[start] - start, last = data->table - 1;
    u32 low = law->from_one ? data->cumulative[0] : 0;
    u32 high = law->clip ? 0xffffffffu : data->cumulative[rest < last ? rest : last];
    u32 target = low + __umulhi(word, high - low), left = 0, right = data->table;
    while (left < right) {
        u32 middle = (left + right) / 2;
        if (data->cumulative[middle] <= target)
            left = middle + 1;
        else
            right = middle;
    }
    return start + (left < rest ? left : rest);
}

// y below `choices` draws rows; beyond, the words that permutations are sorted by.
extern "C" __global__ void sampler_draw(const Data* data, const Choice* choices, const u32* purposes,
                                        const u32* clock, u64 ahead, u32* rows, u32* words,
                                        int choice_count, int size, int first_purpose,
                                        long long stride) {
    int place = first_index(), choice = blockIdx.y;
    if (place >= size) return;
    clock = own(clock, stride);
    if (choice >= choice_count) {
        int order = choice - choice_count;
        own(words, stride)[order * size + place] = block_of(clock, ahead, purposes[order], place).x;
        return;
    }
    uint4 drawn = block_of(clock, ahead, first_purpose, place);
    u32 start = data->starts[__umulhi(drawn.x, data->start_count)], row = start;
    const Choice* law = choices + choice;
    if (choice) drawn = block_of(clock, ahead, first_purpose + choice, place);
    u32 anywhere = __umulhi(drawn.x, data->rows);
    switch (law->kind) {
        case 1: row = start + 1; break;
        case 2: row = future_row(data, law, start, drawn.x); break;
        case 3: {
            double share = unit(drawn.y);
            u32 rest = data->last_rows[start] - start;
            row = share < law->future  ? future_row(data, law, start, drawn.x)
                  : share < law->both ? start + 1 + __umulhi(drawn.x, rest)
                                      : anywhere;
            break;
        }
        case 4: row = anywhere; break;
    }
    own(rows, stride)[choice * size + place] = row;
}

// The place of a word among all words of its permutation, by counting; eight threads a word.
extern "C" __global__ void sampler_order(const u32* words, u32* orders, int size, long long stride) {
    int place = first_index() / 8, lane = threadIdx.x & 7;
    words = own(words, stride) + blockIdx.y * size;
    u32 word = place < size ? words[place] : 0, rank = 0;
    for (int other = lane; other < size; other += 8)
        rank += words[other] < word || (words[other] == word && other < place);
    for (int offset = 4; offset; offset >>= 1) rank += __shfl_xor_sync(~0u, rank, offset);
    if (lane == 0 && place < size) own(orders, stride)[blockIdx.y * size + rank] = place;
}

extern "C" __global__ void sampler_gather(const Data* data, const Filler* fillers, const u32* clock,
                                          u64 ahead, const u32* rows, const u32* orders,
                                          float* memory, int size, long long stride) {
    const Filler* filler = fillers + blockIdx.y;
    u32 at = first_index(), width = filler->width;
    if (at >= size * width) return;
    u32 place = at / width, inside = at % width;
    float* out = own(memory, stride) + filler->out;
    rows = own(rows, stride) + filler->choice * size;
    if (filler->kind == 4) {
        uint4 words = block_of(own(clock, stride), ahead, filler->purpose, at / 4);
        bool second = at & 2;
        double radius = sqrt(-2.0 * log(unit(second ? words.z : words.x)));
        double angle = 6.283185307179586476925 * unit(second ? words.w : words.y);
        out[at] = (float)(radius * (at & 1 ? sin(angle) : cos(angle)));
        return;
    }
    if (filler->kind == 0) {
        float x = data->states[(u64)rows[place] * width + inside];
        out[at] = __fmul_rn(__fsub_rn(x, data->shift[inside]), data->scale[inside]);
        return;
    }
    if (filler->kind == 2) place = own(orders, stride)[filler->order * size + place];
    if (filler->kind == 3) place = (place + 1) % size;
    out[at] = data->actions[(u64)rows[place] * width + inside];
}
