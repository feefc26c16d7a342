//! Matrix products through cuBLASLt: C ← α A B + β C, with bias and ReLU fused.
//!
//! cuBLASLt reads matrices column after column, so a product of row-major matrices is asked for as
//! its transpose: Cᵀ = Bᵀ Aᵀ. All replicas are one strided batch.

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;

use super::machine::{DeviceMemory, Machine};
use super::memory::Share;
use crate::engine::Product;
use crate::engine::launches::{Buffer, Factor, Finish, Multiply, Precision};
use crate::error::{Error, Result};

type Key = ([usize; 3], Factor, Factor, Buffer, bool, Finish, Share);

/// cuBLASLt with a plan for every product it has seen.
pub(super) struct Products {
    handle: sys::cublasLtHandle_t,
    pub precision: Precision,
    plans: HashMap<Key, ProductPlan>,
}

/// How one product is computed.
struct ProductPlan {
    description: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    room: DeviceMemory,
}

/// The most room a product may ask for: 32 MiB.
const MOST_ROOM: usize = 32 << 20;

fn broken(error: CublasError) -> Error {
    Error::input(format!("cuBLASLt does not work: {error}"))
        .hint("install the `nvidia-cublas` package of your driver's CUDA version")
}

impl Products {
    pub fn new(precision: Precision) -> Result<Self> {
        let handle = result::create_handle().map_err(broken)?;
        Ok(Self { handle, precision, plans: HashMap::new() })
    }

    /// Makes the plan of a product, and runs it once so that its kernels are loaded. Its output is
    /// overwritten.
    pub fn prepare(&mut self, machine: &Machine, share: &Share, product: &Multiply) -> Result<()> {
        let key = key(share, product);
        if !self.plans.contains_key(&key) {
            let plan = self.plan(machine, share, product)?;
            self.plans.insert(key, plan);
            self.queue(machine, share, product)?;
        }
        Ok(())
    }

    /// Queues a product that was prepared.
    pub fn queue(&self, machine: &Machine, share: &Share, product: &Multiply) -> Result<()> {
        let plan = self.plans.get(&key(share, product)).expect("products are prepared before");
        let address = |buffer: Buffer| share.address(buffer) as *mut c_void;
        let (scale, keep) = (product.scale, if product.out.keep { 1.0f32 } else { 0.0 });
        let out = address(product.out.buffer);
        // SAFETY: the plan's descriptions live in `self`; every matrix of every replica lies inside
        // the block by the layouts made from the shape; the two factors are read at the call.
        unsafe {
            result::matmul(
                self.handle,
                plan.description,
                std::ptr::from_ref(&scale).cast(),
                std::ptr::from_ref(&keep).cast(),
                address(product.right.buffer()),
                plan.layouts[0],
                address(product.left.buffer()),
                plan.layouts[1],
                out,
                plan.layouts[2],
                out,
                plan.layouts[2],
                &plan.algorithm,
                plan.room.address as *mut c_void,
                plan.room.bytes,
                machine.stream().cast(),
            )
        }
        .map_err(broken)
    }

    fn plan(&self, machine: &Machine, share: &Share, product: &Multiply) -> Result<ProductPlan> {
        let Product { m, k, n } = product.shape;
        assert_eq!(product.left.buffer().length, m * k, "the left side of {:?}", product.shape);
        assert_eq!(product.right.buffer().length, k * n, "the right side of {:?}", product.shape);
        assert_eq!(product.out.buffer.length, m * n, "the result of {:?}", product.shape);
        let right = match product.right {
            Factor::Plain(_) => layout(share, n, k)?,
            Factor::Across(_) => layout(share, k, n)?,
        };
        let left = match product.left {
            Factor::Plain(_) => layout(share, k, m)?,
            Factor::Across(_) => layout(share, m, k)?,
        };
        let layouts = [right, left, layout(share, n, m)?];
        let description = self.description(share, product)?;
        let (algorithm, bytes) = self.choose(share, product, description, layouts)?;
        Ok(ProductPlan { description, layouts, algorithm, room: machine.memory(bytes)? })
    }

    fn description(&self, share: &Share, product: &Multiply) -> Result<sys::cublasLtMatmulDesc_t> {
        use sys::cublasLtEpilogue_t as Epilogue;
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let compute = match self.precision {
            Precision::Tf32 if !product.exact => {
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
            }
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let description = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F);
        let description = description.map_err(broken)?;
        let set = |attribute, value: &dyn Bytes| {
            let (pointer, size) = value.bytes();
            // SAFETY: the description was just created; the value is of the attribute's type.
            unsafe { result::set_matmul_desc_attribute(description, attribute, pointer, size) }
                .map_err(broken)
        };
        let transposed = |factor: Factor| i32::from(matches!(factor, Factor::Across(_)));
        set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &transposed(product.right))?;
        set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &transposed(product.left))?;
        let epilogue = match product.finish {
            Finish::None => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
            Finish::Bias(_) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
            Finish::BiasRelu(_) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
        };
        set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue as i32))?;
        if let Some(bias) = product.finish.bias() {
            set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &share.address(bias))?;
            if share.replicas > 1 {
                let stride = share.stride as u64;
                set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &stride)?;
            }
        }
        Ok(description)
    }

    /// The algorithm cuBLASLt holds for the fastest, and the room it needs. The choice is a function
    /// of shape and machine, never of a clock, so that the same run gives the same bits.
    fn choose(
        &self,
        share: &Share,
        product: &Multiply,
        description: sys::cublasLtMatmulDesc_t,
        [a, b, c]: [sys::cublasLtMatrixLayout_t; 3],
    ) -> Result<(sys::cublasLtMatmulAlgo_t, usize)> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = result::create_matmul_pref().map_err(broken)?;
        let alignment = |buffer: Buffer| {
            let address = share.address(buffer) | (4 * share.stride as u64);
            1u32 << address.trailing_zeros().min(8)
        };
        let settings: [(_, &dyn Bytes); 5] = [
            (Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &(MOST_ROOM as u64)),
            (
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                &alignment(product.right.buffer()),
            ),
            (
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                &alignment(product.left.buffer()),
            ),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment(product.out.buffer)),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment(product.out.buffer)),
        ];
        // SAFETY: all descriptions were created by this library and are alive; every value is of
        // its attribute's type; the preference is destroyed once, after its last use.
        let found = unsafe {
            for (attribute, value) in settings {
                let (pointer, size) = value.bytes();
                result::set_matmul_pref_attribute(preference, attribute, pointer, size)
                    .map_err(broken)?;
            }
            let found =
                result::get_matmul_algo_heuristic(self.handle, description, a, b, c, c, preference);
            result::destroy_matmul_pref(preference).map_err(broken)?;
            found.map_err(broken)?
        };
        Ok((found.algo, found.workspaceSize))
    }
}

fn key(share: &Share, product: &Multiply) -> Key {
    let Multiply { shape, left, right, out, finish, exact, .. } = *product;
    ([shape.m, shape.k, shape.n], left, right, out.buffer, exact, finish, *share)
}

/// A column-major matrix of every replica.
fn layout(share: &Share, rows: usize, columns: usize) -> Result<sys::cublasLtMatrixLayout_t> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
    let real = sys::cudaDataType::CUDA_R_32F;
    let layout = result::create_matrix_layout(real, rows as u64, columns as u64, rows as i64);
    let layout = layout.map_err(broken)?;
    let settings: [(_, &dyn Bytes); 2] = [
        (Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &(share.replicas as i32)),
        (Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &(share.stride as u64)),
    ];
    for (attribute, value) in settings {
        let (pointer, size) = value.bytes();
        // SAFETY: the layout was just created; the value is of the attribute's type.
        unsafe { result::set_matrix_layout_attribute(layout, attribute, pointer, size) }
            .map_err(broken)?;
    }
    Ok(layout)
}

/// A plain number as cuBLASLt takes it: a pointer and a size.
trait Bytes {
    fn bytes(&self) -> (*const c_void, usize);
}

impl<T: Copy> Bytes for T {
    fn bytes(&self) -> (*const c_void, usize) {
        (std::ptr::from_ref(self).cast(), size_of::<T>())
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: everything destroyed here was created by this library, is owned by `self` and not
        // used again. A refusal leaves nothing to do.
        unsafe {
            for plan in self.plans.values() {
                let _ = result::destroy_matmul_desc(plan.description);
                for layout in plan.layouts {
                    let _ = result::destroy_matrix_layout(layout);
                }
            }
            let _ = result::destroy_handle(self.handle);
        }
    }
}
