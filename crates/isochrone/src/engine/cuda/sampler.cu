// Batches drawn on the GPU from the streams of `random.rs`: integers only, equal to the CPU's.

// A recording. `seen` is what networks see of every state, `goals` what policies see of it as a goal;
// `states` are as they were recorded.
struct Data {
    const float *seen, *goals, *states, *actions;
    const u32 *last_rows, *starts, *cumulative, *waypoints;
    const u32 *lesson_goals, *lesson_owners, *lesson_columns;
    const float* lesson_nats;
    u32 rows, start_count, table, waypoint_table, state_size, evened, lesson_goal_count, landmarks;
};

// Kinds: 0 start, 1 next, 2 future, 3 mixed, 4 random, 5 waypoint, 6 ahead, 7 taught. `goal` is the choice
// whose row is the goal, `depth` how many goals stand behind each other.
struct Choice {
    u32 kind, from_one, clip, steps, goal, depth;
    double current, future, both, successor;
};

// Kinds: 0 state, 1 action, 2 permuted action, 3 rolled action, 4 noise, 5 gap, 6 reached, 7 goal,
// 8 lesson.
// `out` is the place of the column in a replica's memory.
struct Filler {
    u32 kind, choice, width, purpose;
    u64 order, out;
    u32 other;
    float within;
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

// How many entries of a table are at most `target`.
__device__ __forceinline__ u32 passed(const u32* table, u32 length, u32 target) {
    u32 left = 0, right = length;
    while (left < right) {
        u32 middle = (left + right) / 2;
        if (table[middle] <= target)
            left = middle + 1;
        else
            right = middle;
    }
    return left;
}

__device__ __forceinline__ u32 future_row(const Data* data, const Choice* law, u32 start, u32 word) {
    u32 rest = data->last_rows[start] - start, last = data->table - 1;
    u32 low = law->from_one ? data->cumulative[0] : 0;
    u32 high = law->clip ? 0xffffffffu : data->cumulative[rest < last ? rest : last];
    u32 offset = passed(data->cumulative, data->table, low + __umulhi(word, high - low));
    return start + (offset < rest ? offset : rest);
}

__device__ __forceinline__ u32 waypoint_row(const Data* data, u32 start, u32 last, u32 word) {
    u32 low = data->waypoints[0], high = data->waypoints[data->waypoint_table - 1];
    u32 target = low + __umulhi(word, high - low);
    return min(start + passed(data->waypoints, data->waypoint_table, target), last);
}

// The row of a choice, given the start and the goal that the choice names, if any.
__device__ u32 drawn_row(const Data* data, const Choice* law, u32 start, u32 goal, uint4 drawn) {
    u32 end = data->last_rows[start];
    u32 anywhere = data->evened ? data->starts[__umulhi(drawn.x, data->start_count)]
                                : __umulhi(drawn.x, data->rows);
    u32 bound = goal > start && goal < end ? goal : end;
    switch (law->kind) {
        case 1: return start + 1;
        case 2: return future_row(data, law, start, drawn.x);
        case 3: {
            double share = unit(drawn.y) - law->current;
            return share < 0.0           ? start
                   : share < law->future ? future_row(data, law, start, drawn.x)
                   : share < law->both   ? start + 1 + __umulhi(drawn.x, end - start)
                                         : anywhere;
        }
        case 4: return anywhere;
        case 5:
            if (unit(drawn.y) < law->successor) return start + 1;
            return waypoint_row(data, start, max(bound, start + 1), drawn.x);
        case 6: return start + min(law->steps, bound - start);
        case 7: return data->lesson_goals[__umulhi(drawn.x, data->lesson_goal_count)];
    }
    return start;
}

// The recording of a replica, whose number is the last word of its clock.
__device__ __forceinline__ const Data* recording(const Data* recordings, const u32* clock) {
    return recordings + clock[4];
}

// y below `choices` draws rows; beyond, the words that permutations are sorted by.
extern "C" __global__ void sampler_draw(const Data* recordings, const Choice* choices, const u32* purposes,
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
    const Data* data = recording(recordings, clock);
    uint4 drawn = block_of(clock, ahead, first_purpose, place);
    u32 start = data->starts[__umulhi(drawn.x, data->start_count)], row = start;
    // The goal that stands behind all others first; each is the goal of the next.
    for (int depth = choices[choice].depth; depth >= 0; depth--) {
        int at = choice;
        for (int behind = 0; behind < depth; behind++) at = choices[at].goal;
        if (at) drawn = block_of(clock, ahead, first_purpose + at, place);
        row = drawn_row(data, choices + at, start, row, drawn);
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

// Whether two states are one, or as recorded at most so far apart; sums in the CPU's order.
__device__ __forceinline__ bool reached(const Data* data, u32 one, u32 other, float within) {
    if (one == other) return true;
    if (within < 0.0f) return false;
    u32 size = data->state_size;
    const float *a = data->states + (u64)one * size, *b = data->states + (u64)other * size;
    float sum = 0.0f;
    for (u32 at = 0; at < size; at++) {
        float gap = __fsub_rn(a[at], b[at]);
        sum = __fadd_rn(sum, __fmul_rn(gap, gap));
    }
    return sum <= within;
}

extern "C" __global__ void sampler_gather(const Data* recordings, const Filler* fillers,
                                          const u32* clock, u64 ahead, const u32* rows, const u32* orders,
                                          float* memory, int size, long long stride) {
    const Filler* filler = fillers + blockIdx.y;
    u32 at = first_index(), width = filler->width;
    if (at >= size * width) return;
    u32 place = at / width, inside = at % width;
    float* out = own(memory, stride) + filler->out;
    const u32 *drawn = own(rows, stride), *chosen = drawn + filler->choice * size;
    clock = own(clock, stride);
    const Data* data = recording(recordings, clock);
    if (filler->kind == 4) {
        uint4 words = block_of(clock, ahead, filler->purpose, at / 4);
        bool second = at & 2;
        double radius = sqrt(-2.0 * log(unit(second ? words.z : words.x)));
        double angle = 6.283185307179586476925 * unit(second ? words.w : words.y);
        out[at] = (float)(radius * (at & 1 ? sin(angle) : cos(angle)));
        return;
    }
    if (filler->kind == 5) {
        u32 start = drawn[place], row = chosen[place];
        out[at] = (float)(row > start ? row - start : start - row);
        return;
    }
    if (filler->kind == 6) {
        u32 goal = drawn[filler->other * size + place];
        out[at] = reached(data, chosen[place], goal, filler->within) ? 1.0f : 0.0f;
        return;
    }
    if (filler->kind == 8) {
        u32 goal = drawn[filler->other * size + place];
        u64 column = data->lesson_columns[data->lesson_owners[goal]];
        out[at] = data->lesson_nats[column * data->landmarks + data->lesson_owners[chosen[place]]];
        return;
    }
    if (filler->kind == 0 || filler->kind == 7) {
        const float* seen = filler->kind == 0 ? data->seen : data->goals;
        out[at] = seen[(u64)chosen[place] * width + inside];
        return;
    }
    if (filler->kind == 2) place = own(orders, stride)[filler->order * size + place];
    if (filler->kind == 3) place = (place + 1) % size;
    out[at] = data->actions[(u64)chosen[place] * width + inside];
}
