//! Stream capture and graphs, of the CUDA runtime and driver and of HIP.
//!
//! Only what was linked is seen: a runtime that finds the driver's functions at run time is seen at its own.

use std::ffi::c_void;

use tgemm_vendor::gpu::Dialect;

use super::watch;
use crate::captures;
use crate::state;
use crate::stream::capture_of;

/// The handle that a call wrote.
///
/// # Safety
/// The call succeeded and has written it.
unsafe fn written(place: *const usize) -> Option<usize> {
    // SAFETY: the contract of this function; where the host wanted none there is none.
    (!place.is_null()).then(|| unsafe { place.read() })
}

macro_rules! runtime {
    ($dialect:ident; begin $($begin:ident)*; end $($end:ident)*; launch $($launch:ident)*;
     instantiate $($instantiate:ident)*; destroy $destroy:ident, $exec_destroy:ident;
     clone $clone:ident; nest $nest:ident; update $update:ident;) => {
        watch! {
            $(fn $begin(stream: usize, mode: i32) -> i32, || captures::began();)*
            // Versions differ in what follows the graph: three registers are passed on, whatever is in them.
            $(fn $instantiate(exec: *mut usize, graph: usize, third: usize, fourth: usize, fifth: usize) -> i32, || {
                // SAFETY: the call has written it.
                if let Some(exec) = unsafe { written(exec) } {
                    captures::instantiated(exec, graph);
                }
            };)*
            fn $destroy(graph: usize) -> i32, || captures::graph_gone(graph);
            fn $exec_destroy(exec: usize) -> i32, || captures::executable_gone(exec);
            fn $clone(copy: *mut usize, graph: usize) -> i32, || {
                // SAFETY: the call has written it.
                if let Some(copy) = unsafe { written(copy) } {
                    captures::copied(copy, graph);
                }
            };
            fn $nest(node: *mut c_void, graph: usize, needs: *const c_void, needs_len: usize, child: usize) -> i32, || {
                state::decide(|shim| Some(captures::nested(shim.recorder, graph, child)));
            };
            fn $update(exec: usize, graph: usize, result: usize, node: usize) -> i32, || captures::instantiated(exec, graph);
        }
        watch! { before
            $(fn $end(stream: usize, graph: *mut usize) -> i32,
                || capture_of(Dialect::$dialect, stream),
                |capture, is_taken| {
                    // SAFETY: the call has written it if it succeeded.
                    let graph = if is_taken { unsafe { written(graph) } } else { None };
                    captures::ended(capture, graph);
                };)*
            $(fn $launch(exec: usize, stream: usize) -> i32,
                || if captures::any() { capture_of(Dialect::$dialect, stream) } else { None },
                |capture, is_taken| if is_taken {
                    state::decide(|shim| Some(captures::launched(shim, exec, capture)));
                };)*
        }
    };
}

runtime! { Cuda;
    begin cudaStreamBeginCapture cudaStreamBeginCapture_ptsz;
    end cudaStreamEndCapture cudaStreamEndCapture_ptsz;
    launch cudaGraphLaunch cudaGraphLaunch_ptsz;
    instantiate cudaGraphInstantiate cudaGraphInstantiateWithFlags cudaGraphInstantiateWithParams
        cudaGraphInstantiateWithParams_ptsz;
    destroy cudaGraphDestroy, cudaGraphExecDestroy;
    clone cudaGraphClone; nest cudaGraphAddChildGraphNode; update cudaGraphExecUpdate;
}

runtime! { Cuda;
    begin cuStreamBeginCapture_v2 cuStreamBeginCapture_v2_ptsz;
    end cuStreamEndCapture cuStreamEndCapture_ptsz;
    launch cuGraphLaunch cuGraphLaunch_ptsz;
    instantiate cuGraphInstantiateWithFlags cuGraphInstantiateWithParams cuGraphInstantiateWithParams_ptsz;
    destroy cuGraphDestroy, cuGraphExecDestroy;
    clone cuGraphClone; nest cuGraphAddChildGraphNode; update cuGraphExecUpdate_v2;
}

runtime! { Hip;
    begin hipStreamBeginCapture hipStreamBeginCapture_spt;
    end hipStreamEndCapture hipStreamEndCapture_spt;
    launch hipGraphLaunch hipGraphLaunch_spt;
    instantiate hipGraphInstantiate hipGraphInstantiateWithFlags hipGraphInstantiateWithParams;
    destroy hipGraphDestroy, hipGraphExecDestroy;
    clone hipGraphClone; nest hipGraphAddChildGraphNode; update hipGraphExecUpdate;
}
