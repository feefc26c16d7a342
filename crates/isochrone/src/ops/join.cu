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

// Shows `visit` every number that a thread has: its row, its column in all, its matrix and its
// place there.
template <class T, class Visit>
__device__ __forceinline__ void join_each(Joined<T> a, Joined<T> b, Joined<T> c, Joined<T> d, int rows,
                                          int lanes, long long stride, Visit visit) {
    long long row = first_index() >> lanes;
    if (row >= rows) return;
    a.matrix = own(a.matrix, stride), b.matrix = own(b.matrix, stride);
    c.matrix = own(c.matrix, stride), d.matrix = own(d.matrix, stride);
    int width = a.width + b.width + c.width + d.width;
#pragma unroll 4
    for (int at = threadIdx.x & (1 << lanes) - 1; at < width; at += 1 << lanes) {
        int column = at;
        Joined<T> found = join_find(column, a, b, c, d);
        visit(row, at, found, row * found.width + column);
    }
}

extern "C" __global__ void join_forward(const float* a, const float* b, const float* c,
                                        const float* d, int wa, int wb, int wc, int wd,
                                        float* out, int rows, int total, int first, int lanes,
                                        long long stride) {
    out = own(out, stride) + first;
    auto copy = [&](long long row, int at, const Joined<const float>& found, long long place) {
        out[row * total + at] = found.matrix[place];
    };
    join_each<const float>({a, wa}, {b, wb}, {c, wc}, {d, wd}, rows, lanes, stride, copy);
}

extern "C" __global__ void join_backward(float* a, float* b, float* c, float* d, int wa, int wb,
                                         int wc, int wd, int ka, int kb, int kc, int kd,
                                         const float* gradient, int rows, int total, int first,
                                         int lanes, long long stride) {
    gradient = own(gradient, stride) + first;
    auto hand_back = [&](long long row, int at, const Joined<float>& found, long long place) {
        if (found.matrix) put(found.matrix + place, gradient[row * total + at], found.keep);
    };
    join_each<float>({a, wa, ka}, {b, wb, kb}, {c, wc, kc}, {d, wd, kd}, rows, lanes, stride, hand_back);
}
