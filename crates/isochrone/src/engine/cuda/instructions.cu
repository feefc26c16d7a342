// What C++ has no words for: instructions of the GPU. `emulation.h` has others in their place.

// One over the root, to two units in the last place; denormal numbers count as zero.
__device__ __forceinline__ float inverse_root(float x) {
    float root;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

// c += a b for 16 x 8 x 8 numbers, in the order of registers that the tensor cores ask for.
__device__ __forceinline__ void product_step(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// Copies four floats to shared memory in the background, or as many of them as `count` says and zeros
// for the rest; all at once where `wide` says that addresses are aligned and never one to three asked for.
__device__ __forceinline__ void copy_ahead(float* shared, const float* from, int count, bool wide) {
    u32 place = (u32)__cvta_generic_to_shared(shared);
    if (wide) {
        int bytes = count > 0 ? 16 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from),
                     "r"(bytes));
        return;
    }
#pragma unroll
    for (int at = 0; at < 4; at++) {
        int bytes = at < count ? 4 : 0;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place + 4 * at),
                     "l"(bytes ? from + at : from), "r"(bytes));
    }
}

__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;"); }

// Waits until at most NEWER of the groups committed last are still under way.
template <int NEWER>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWER) : "memory");
}
