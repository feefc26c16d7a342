//! A list of launches as one CUDA graph, with exactly the waits that its buffers demand.
//!
//! The list is captured on one stream; before each launch the stream is told which nodes the next
//! one waits for, so that no order is imposed beyond reads and writes. Where several can begin, those
//! that the same update waits for go before gradients of parameters and steps.

use std::ops::Range;
use std::ptr;
use std::time::Duration;

use cudarc::driver::{result, sys};

use super::machine::{Machine, broken};
use super::memory::Share;
use super::products::Products;
use crate::engine::launches::{Argument, Buffer, Launch, Work};
use crate::error::Result;

/// For every launch, the earlier ones it must wait for; what is waited for through others is left
/// out.
pub(super) fn waits(launches: &[Launch]) -> Vec<Vec<usize>> {
    let words = launches.len().div_ceil(64);
    let mut before: Vec<Vec<u64>> = Vec::with_capacity(launches.len());
    let mut waits = Vec::with_capacity(launches.len());
    for (at, launch) in launches.iter().enumerate() {
        let (mut known, mut direct) = (vec![0u64; words], Vec::new());
        for earlier in (0..at).rev() {
            let reached = known[earlier / 64] >> (earlier % 64) & 1 == 1;
            if !reached && launch.follows(&launches[earlier]) {
                direct.push(earlier);
                known[earlier / 64] |= 1 << (earlier % 64);
                known.iter_mut().zip(&before[earlier]).for_each(|(known, more)| *known |= more);
            }
        }
        before.push(known);
        waits.push(direct);
    }
    waits
}

/// The longest sum of `times` along launches that wait for each other.
pub(super) fn longest(waits: &[Vec<usize>], times: &[Duration]) -> Duration {
    let mut ends: Vec<Duration> = Vec::with_capacity(times.len());
    for (waits, &time) in waits.iter().zip(times) {
        let begin = waits.iter().map(|&earlier| ends[earlier]).max().unwrap_or_default();
        ends.push(begin + time);
    }
    ends.into_iter().max().unwrap_or_default()
}

/// Queues one launch.
pub(super) fn issue(
    machine: &Machine,
    share: &Share,
    products: &Products,
    launch: &Launch,
) -> Result<()> {
    match &launch.work {
        Work::Product(product) => products.queue(machine, share, product),
        Work::Kernel { name, grid, arguments } => {
            let word = |argument: &Argument| match *argument {
                Argument::Read(buffer) | Argument::Write(buffer) | Argument::Part(buffer, _) => {
                    Some(share.address(buffer))
                }
                Argument::Absent => Some(0),
                Argument::Touch(..) => None,
                Argument::Origin => Some(share.address(Buffer::NONE)),
                Argument::Shared(address) | Argument::Long(address) => Some(address),
                Argument::Int(number) => Some(u64::from(number.cast_unsigned())),
                Argument::Float(number) => Some(u64::from(number.to_bits())),
                Argument::Wide(number) => Some(number.to_bits()),
            };
            let stride = std::iter::once(share.stride as u64);
            let mut words: Vec<u64> = arguments.iter().filter_map(word).chain(stride).collect();
            machine.launch(name, *grid, share.replicas, &mut words)
        }
    }
}

const INVALIDATED: sys::CUresult = sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

/// A captured list, ready to run again and again.
pub(super) struct CudaGraph {
    graph: sys::CUgraph,
    ready: sys::CUgraphExec,
}

/// How often a capture is tried, and how long to wait in between.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(5);

impl CudaGraph {
    /// Captures `launches`, whose products were prepared; those that write numbers of `moves` go last
    /// where several can begin. Where several runs share a process, one that begins or ends (kernels
    /// are loaded, memory is given back) may break the captures of the others: they are tried again.
    pub fn capture(
        machine: &Machine,
        shares: &[Share],
        products: &Products,
        (launches, moves): (&[Launch], &[Range<usize>]),
    ) -> Result<Self> {
        for _ in 0..TRIES {
            if let Some(graph) = Self::attempt(machine, shares, products, (launches, moves))? {
                return Ok(graph);
            }
            std::thread::sleep(PAUSE);
        }
        Err(broken(result::DriverError(INVALIDATED)))
    }

    /// A capture; `None` if somebody else broke it.
    fn attempt(
        machine: &Machine,
        shares: &[Share],
        products: &Products,
        (launches, moves): (&[Launch], &[Range<usize>]),
    ) -> Result<Option<Self>> {
        let stream = machine.stream();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is the machine's and idle or queued in order.
        unsafe { result::stream::begin_capture(stream, mode) }.map_err(broken)?;
        // By launch, then by share.
        let mut nodes: Vec<Vec<sys::CUgraphNode>> = Vec::new();
        let captured = launches.iter().zip(waits(launches)).try_for_each(|(launch, waits)| {
            for (at, share) in shares.iter().enumerate() {
                let mut before: Vec<sys::CUgraphNode> = waits
                    .iter()
                    .flat_map(|&earlier| nodes[earlier * shares.len() + at].iter().copied())
                    .collect();
                wait_for(stream, &mut before)?;
                issue(machine, share, products, launch)?;
                nodes.push(last_nodes(stream)?);
            }
            Ok(())
        });
        // A capture whose ends are not all joined cannot be ended, so all are joined here.
        let joined = captured.and_then(|()| wait_for(stream, &mut nodes.concat()));
        // SAFETY: the capture that began above ends, whatever happened in between; the graph it
        // gives is owned by what is returned.
        let graph = unsafe { result::stream::end_capture(stream) };
        if graph.as_ref().is_err_and(|error| error.0 == INVALIDATED) {
            return Ok(None);
        }
        joined?;
        let graph = graph.map_err(broken)?;
        for (launch, nodes) in launches.iter().zip(nodes.chunks(shares.len())) {
            if !moves.iter().any(|numbers| launch.changes(numbers)) {
                nodes.iter().flatten().try_for_each(|&node| hurry(node))?;
            }
        }
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        // SAFETY: `graph` is the one just captured.
        let ready = unsafe { result::graph::instantiate(graph, flags) }.map_err(broken)?;
        Ok(Some(Self { graph, ready }))
    }

    /// Queues the whole list.
    pub fn launch(&self, machine: &Machine) -> Result<()> {
        // SAFETY: the graph is alive and its buffers live as long as the executor that owns both.
        unsafe { result::graph::launch(self.ready, machine.stream()) }.map_err(broken)
    }
}

/// Lets a kernel's blocks begin before those of others.
fn hurry(node: sys::CUgraphNode) -> Result<()> {
    use sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY as PRIORITY;
    let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    let (mut least, mut most) = (0, 0);
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    // SAFETY: the node is of a graph that is alive, and all outputs are pointers to places of their
    // types; the value is of the attribute's type.
    unsafe {
        sys::cuGraphNodeGetType(node, &mut kind).result().map_err(broken)?;
        if kind != sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL {
            return Ok(());
        }
        sys::cuCtxGetStreamPriorityRange(&mut least, &mut most).result().map_err(broken)?;
        value.priority = most;
        sys::cuGraphKernelNodeSetAttribute(node, PRIORITY, &value).result().map_err(broken)
    }
}

/// Says which nodes the next captured launch waits for.
fn wait_for(stream: sys::CUstream, nodes: &mut [sys::CUgraphNode]) -> Result<()> {
    let replace = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES;
    // SAFETY: the stream is capturing, and the nodes are of the graph it captures.
    unsafe {
        sys::cuStreamUpdateCaptureDependencies_v2(
            stream,
            nodes.as_mut_ptr(),
            ptr::null(),
            nodes.len(),
            replace as u32,
        )
    }
    .result()
    .map_err(broken)
}

/// The nodes that the next captured launch would wait for: those just captured.
fn last_nodes(stream: sys::CUstream) -> Result<Vec<sys::CUgraphNode>> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut graph) = (0, ptr::null_mut());
    let (mut nodes, mut edges, mut count) = (ptr::null(), ptr::null(), 0);
    // SAFETY: all outputs are pointers to places of their types; the array is the driver's and
    // copied before the next call.
    unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            stream,
            &mut status,
            &mut id,
            &mut graph,
            &mut nodes,
            &mut edges,
            &mut count,
        )
        .result()
        .map_err(broken)?;
        Ok(if count == 0 { Vec::new() } else { std::slice::from_raw_parts(nodes, count).to_vec() })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: both handles are owned and destroyed once; a refusal leaves nothing to do.
        unsafe {
            let _ = sys::cuGraphExecDestroy(self.ready);
            let _ = sys::cuGraphDestroy(self.graph);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::launches::Grid;

    #[test]
    fn only_direct_waits_are_kept_and_independent_launches_wait_for_nothing() {
        let buffer = |at: usize| Buffer { offset: 10 * at, length: 10 };
        let launch = |read: usize, write: usize| {
            let arguments = [Argument::Read(buffer(read)), Argument::Write(buffer(write))];
            Launch::kernel("any", Grid::one(32), &arguments)
        };
        // 0 → 1 → 2 is a chain that reads what 0 wrote twice; 3 is apart; 4 joins both.
        let mut join = launch(3, 5);
        join.reads.push(buffer(7).range());
        let mut second = launch(2, 3);
        second.reads.push(buffer(1).range());
        let list = [launch(0, 1), launch(1, 2), second, launch(6, 7), join];
        assert_eq!(waits(&list), [vec![], vec![0], vec![1], vec![], vec![3, 2]]);
        let times = [1, 2, 4, 6, 8].map(Duration::from_micros);
        assert_eq!(longest(&waits(&list), &times), Duration::from_micros(1 + 2 + 4 + 8));
        let times = [1, 2, 4, 9, 8].map(Duration::from_micros);
        assert_eq!(longest(&waits(&list), &times), Duration::from_micros(9 + 8));
        assert_eq!(longest(&[], &[]), Duration::ZERO);
    }
}
