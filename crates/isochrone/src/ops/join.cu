// Up to four matrices side by side, into columns `first` and on of rows of `total` numbers. 2^lanes threads
// have a row, and each of them every 2^lanes-th column.

template <class T>
struct Joined {
    T* matrix;
    int width, keep;
};

// Goes on to the next matrix if the column lies beyond this one.
template <class T>
__device__ __forceinline__ void join_next(Joined<T>& found, int& column, bool& beyond,
                                          const Joined<T>& next) {
    beyond = beyond && column >= found.width;
    if (beyond) column -= found.width, found = next;
}

// The matrix that a column falls in; leaves the column within it.
template <class T>
__device__ __forceinline__ Joined<T> join_find(int& column, const Joined<T>& a, const Joined<T>& b,
                                               const Joined<T>& c, const Joined<T>& d) {
    Joined<T> found = a;
    bool beyond = true;
    join_next(found, column, beyond, b);
    join_next(found, column, beyond, c);
    join_next(found, column, beyond, d);
    return found;
}

__device__ __forceinline__ int join_row(int lanes) { return first_index() >> lanes; }

extern "C" __global__ void join_forward(const float* a, const float* b, const float* c,
                                        const float* d, int wa, int wb, int wc, int wd,
                                        float* out, int rows, int total, int first, int lanes,
                                        long long stride) {
    long long row = join_row(lanes);
    if (row >= rows) return;
    out = own(out, stride) + row * total + first;
    a = own(a, stride), b = own(b, stride), c = own(c, stride), d = own(d, stride);
#pragma unroll 4
    for (int at = threadIdx.x & (1 << lanes) - 1; at < wa + wb + wc + wd; at += 1 << lanes) {
        int column = at;
        auto found = join_find<const float>(column, {a, wa}, {b, wb}, {c, wc}, {d, wd});
        out[at] = found.matrix[row * found.width + column];
    }
}

extern "C" __global__ void join_backward(float* a, float* b, float* c, float* d, int wa, int wb,
                                         int wc, int wd, int ka, int kb, int kc, int kd,
                                         const float* gradient, int rows, int total, int first,
                                         int lanes, long long stride) {
    long long row = join_row(lanes);
    if (row >= rows) return;
    gradient = own(gradient, stride) + row * total + first;
    a = own(a, stride), b = own(b, stride), c = own(c, stride), d = own(d, stride);
#pragma unroll 4
    for (int at = threadIdx.x & (1 << lanes) - 1; at < wa + wb + wc + wd; at += 1 << lanes) {
        int column = at;
        auto found = join_find<float>(column, {a, wa, ka}, {b, wb, kb}, {c, wc, kc}, {d, wd, kd});
        if (found.matrix) put(found.matrix + row * found.width + column, gradient[at], found.keep);
    }
}
