//! A GPU with its loaded kernels: takes memory, copies, launches.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaModule, CudaStream, sys};
use cudarc::nvrtc::Ptx;

use super::compiler;
use crate::engine::Gpu;
use crate::engine::launches::Grid;
use crate::error::{Error, Result};

/// A GPU, one queue on it and the kernels of a program.
pub(super) struct Machine {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    functions: RefCell<HashMap<&'static str, CudaFunction>>,
}

/// A place in the queue.
pub(super) struct Marker(CudaEvent);

impl Marker {
    /// Waits until everything before it is done.
    pub fn wait(&self) -> Result<()> {
        self.0.synchronize().map_err(broken)
    }
}

/// What to do where the GPU has no room.
const LESS: &str = "lower `train.batch_size` or the number of seeds, or use `--device cpu`";

/// Turns what the driver says into an error of ours.
pub(super) fn broken(error: DriverError) -> Error {
    if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return Error::memory("the GPU has no memory left").hint(LESS);
    }
    Error::input(format!("the GPU stopped: {error}"))
        .hint("look at `nvidia-smi`, or use `--device cpu`")
}

impl Machine {
    /// Compiles and loads the kernels of `sources`; the note says that they could not be kept.
    ///
    /// # Errors
    /// The GPU or its libraries do not work.
    pub fn new(gpu: &Gpu, sources: &[&str]) -> Result<(Self, Option<String>)> {
        let compiled = compiler::compile(sources, gpu.capability)?;
        let context = CudaContext::new(gpu.number).map_err(broken)?;
        // SAFETY: no slice of `cudarc` is made here, so there are no events to track.
        unsafe { context.disable_event_tracking() };
        // Who waits for a GPU leaves its core to others: many runs share a machine.
        context.set_blocking_synchronize().map_err(broken)?;
        let stream = context.new_stream().map_err(broken)?;
        let module = context.load_module(Ptx::from_binary(compiled.image)).map_err(broken)?;
        let functions = RefCell::default();
        Ok((Self { context, stream, module, functions }, compiled.note))
    }

    /// Makes the GPU's context the calling thread's.
    pub fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(broken)
    }

    pub fn stream(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }

    /// Waits until everything queued is done.
    pub fn wait(&self) -> Result<()> {
        self.stream.synchronize().map_err(broken)
    }

    /// Marks what is queued by now.
    pub fn mark(&self) -> Result<Marker> {
        // Who waits for it leaves its core to others.
        let blocking = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
        self.stream.record_event(Some(blocking)).map(Marker).map_err(broken)
    }

    /// Takes so many bytes, all zeros.
    ///
    /// # Errors
    /// The GPU has no room.
    pub fn memory(&self, bytes: usize) -> Result<DeviceMemory> {
        let bytes = bytes.max(4);
        // SAFETY: the context is the thread's; the memory is owned by what is returned and cleared
        // before anyone reads it.
        let address = unsafe {
            let address = result::malloc_sync(bytes).map_err(|error| no_room(error, bytes))?;
            result::memset_d8_async(address, 0, bytes, self.stream()).map_err(broken)?;
            address
        };
        self.wait()?;
        Ok(DeviceMemory { address, bytes, owner: self.context.clone() })
    }

    /// Makes sure that data of so many bytes fit, before they are brought into order.
    ///
    /// # Errors
    /// They do not; says what to do.
    pub fn has_room(&self, bytes: usize) -> Result<()> {
        let (free, _) = result::mem_get_info().map_err(broken)?;
        if bytes <= free {
            return Ok(());
        }
        Err(Error::memory(format!(
            "the data take {} of the GPU's memory, of which {} are free",
            in_gib(bytes),
            in_gib(free)
        ))
        .hint("use `--device cpu`: on a GPU batches are drawn from data that lie there"))
    }

    /// Copies numbers to the GPU once everything queued is done.
    pub fn write<T: Copy>(&self, address: u64, numbers: &[T]) -> Result<()> {
        self.wait()?;
        if numbers.is_empty() {
            return Ok(());
        }
        // The driver's own copy of numbers like these returns before they have arrived, and our stream
        // does not wait for its stream.
        // SAFETY: callers pass an address inside a `DeviceMemory` with room for `numbers`; the copy is
        // waited for before they can go.
        unsafe { result::memcpy_htod_async(address, numbers, self.stream()) }.map_err(broken)?;
        self.wait()
    }

    /// Copies numbers from the GPU once everything queued is done.
    pub fn read<T: Copy>(&self, address: u64, numbers: &mut [T]) -> Result<()> {
        self.wait()?;
        if numbers.is_empty() {
            return Ok(());
        }
        // SAFETY: as for `write`; the numbers are plain words of which every pattern is valid.
        unsafe { result::memcpy_dtoh_sync(numbers, address) }.map_err(broken)
    }

    /// Queues a kernel; `replicas` is the grid's z.
    pub fn launch(
        &self,
        name: &'static str,
        grid: Grid,
        replicas: usize,
        arguments: &mut [u64],
    ) -> Result<()> {
        let function = self.function(name, grid.shared)?;
        let mut pointers: Vec<*mut c_void> =
            arguments.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        let blocks = (grid.blocks.0 as u32, grid.blocks.1 as u32, replicas as u32);
        let threads = (grid.threads as u32, 1, 1);
        // SAFETY: the arguments are copied at the call, in the order and of the sizes that the
        // kernel declares (each at the start of its own eight bytes), and point into memory that
        // lives as long as the executor.
        unsafe {
            let shared = grid.shared as u32;
            result::launch_kernel(function, blocks, threads, shared, self.stream(), &mut pointers)
        }
        .map_err(broken)
    }

    /// The kernel of this name, allowed so many bytes of shared memory beside its own.
    fn function(&self, name: &'static str, shared: usize) -> Result<sys::CUfunction> {
        let mut functions = self.functions.borrow_mut();
        if let Some(function) = functions.get(name) {
            return Ok(function.cu_function());
        }
        let function = self.module.load_function(name).map_err(|error| {
            Error::input(format!("the kernel `{name}` cannot be loaded: {error}"))
                .hint("please report this line")
        })?;
        if shared > 0 {
            let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(most, shared as i32).map_err(broken)?;
        }
        let handle = function.cu_function();
        functions.insert(name, function);
        Ok(handle)
    }
}

/// A piece of the GPU's memory, given back when dropped.
pub(super) struct DeviceMemory {
    pub address: u64,
    pub bytes: usize,
    pub owner: Arc<CudaContext>,
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let bound = self.owner.bind_to_thread();
        if bound.is_ok() && self.address != 0 {
            // SAFETY: the address came from `Machine::memory` and is freed once; freeing waits for
            // everything queued. Nothing can be done about a refusal here.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

fn no_room(error: DriverError, bytes: usize) -> Error {
    if error.0 != sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return broken(error);
    }
    let free = result::mem_get_info().map_or(0, |(free, _)| free);
    let (free, bytes) = (in_gib(free), in_gib(bytes));
    Error::memory(format!("the GPU has {free} free, {bytes} more are needed")).hint(LESS)
}

fn in_gib(bytes: usize) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}
