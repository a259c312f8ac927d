//! Streams, events, capture and graphs.

use crate::abi::{Answer, Out, exports, hip_call};
use crate::host::INVALID_VALUE;

fn put<T>(place: &Out<T>, value: T) -> Answer {
    if place.put(value) { Ok(()) } else { Err(INVALID_VALUE) }
}

exports! { hip_call;
    fn hipStreamCreate(place: Out<usize>) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.stream_create(0)?),
            Err(cuda) => cuda.enter()?.stream_create(place.address(), 0),
        }
    }

    fn hipStreamCreateWithFlags(place: Out<usize>, flags: u32) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.stream_create(flags)?),
            Err(cuda) => cuda.enter()?.stream_create(place.address(), flags),
        }
    }

    fn hipStreamSynchronize(stream: usize) |double| {
        match double.host() {
            Ok(mut host) => host.synchronize(stream),
            Err(cuda) => cuda.enter()?.stream_synchronize(stream),
        }
    }

    fn hipStreamDestroy(stream: usize) |double| {
        match double.host() {
            Ok(mut host) => host.stream_destroy(stream),
            Err(cuda) => cuda.enter()?.stream_destroy(stream),
        }
    }

    fn hipStreamIsCapturing(stream: usize, place: Out<i32>) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.capture_status(stream)?),
            Err(cuda) => cuda.enter()?.stream_is_capturing(stream, place.address()),
        }
    }

    fn hipThreadExchangeStreamCaptureMode(place: Out<i32>) |double| {
        match double.host() {
            Ok(_) => match place.get().and_then(crate::host::exchange_thread_mode) {
                Some(old) => put(&place, old),
                None => Err(INVALID_VALUE),
            },
            Err(cuda) => cuda.enter()?.exchange_capture_mode(place.address()),
        }
    }

    fn hipStreamGetCaptureInfo(stream: usize, status: Out<i32>, id: Out<u64>) |double| {
        match double.host() {
            Ok(mut host) => {
                let (now, number) = host.capture_info(stream)?;
                if let Some(number) = number {
                    id.put(number);
                }
                put(&status, now)
            }
            Err(cuda) => cuda.enter()?.stream_capture_info(stream, status.address(), id.address(), 0, 0, 0),
        }
    }

    fn hipStreamGetCaptureInfo_v2(
        stream: usize, status: Out<i32>, id: Out<u64>, graph: Out<usize>, needs: Out<usize>, needs_len: Out<usize>,
    ) |double| {
        match double.host() {
            Ok(mut host) => {
                let (now, number) = host.capture_info(stream)?;
                if let Some(number) = number {
                    id.put(number);
                    // The graph of a capture under way can only be asked how many nodes it has.
                    graph.put(stream);
                }
                put(&status, now)
            }
            Err(cuda) => cuda.enter()?.stream_capture_info(
                stream,
                status.address(),
                id.address(),
                graph.address(),
                needs.address(),
                needs_len.address(),
            ),
        }
    }

    fn hipGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) |double| {
        match double.host() {
            Ok(host) if nodes.address() == 0 => put(&count, host.node_count(graph)?),
            Ok(_) => Err(INVALID_VALUE),
            Err(cuda) => cuda.enter()?.graph_nodes(graph, nodes.address(), count.address()),
        }
    }

    fn hipDeviceSynchronize() |double| {
        match double.host() {
            Ok(mut host) => host.synchronize_all(),
            Err(cuda) => cuda.enter()?.synchronize(),
        }
    }

    fn hipEventCreate(place: Out<usize>) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.event_create(0)),
            Err(cuda) => cuda.enter()?.event_create(place.address(), 0),
        }
    }

    fn hipEventCreateWithFlags(place: Out<usize>, flags: u32) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.event_create(flags)),
            // The flags above 4 are about AMD's fences.
            Err(cuda) => cuda.enter()?.event_create(place.address(), flags & 7),
        }
    }

    fn hipEventRecord(event: usize, stream: usize) |double| {
        match double.host() {
            Ok(mut host) => host.event_record(event, stream),
            Err(cuda) => cuda.enter()?.event_record(event, stream),
        }
    }

    fn hipEventSynchronize(event: usize) |double| {
        match double.host() {
            Ok(mut host) => host.event_synchronize(event),
            Err(cuda) => cuda.enter()?.event_synchronize(event),
        }
    }

    fn hipEventQuery(event: usize) |double| {
        match double.host() {
            Ok(host) => host.event_query(event),
            Err(cuda) => cuda.enter()?.event_query(event),
        }
    }

    fn hipEventElapsedTime(place: Out<f32>, start: usize, end: usize) |double| {
        match double.host() {
            Ok(host) => put(&place, host.elapsed_ms(start, end)?),
            Err(cuda) => cuda.enter()?.event_elapsed(place.address(), start, end),
        }
    }

    fn hipEventDestroy(event: usize) |double| {
        match double.host() {
            Ok(mut host) => host.event_destroy(event),
            Err(cuda) => cuda.enter()?.event_destroy(event),
        }
    }

    fn hipStreamBeginCapture(stream: usize, mode: i32) |double| {
        match double.host() {
            Ok(mut host) => host.capture_begin(stream, mode),
            Err(cuda) => cuda.enter()?.capture_begin(stream, mode),
        }
    }

    fn hipStreamEndCapture(stream: usize, place: Out<usize>) |double| {
        match double.host() {
            Ok(mut host) => {
                let ended = host.capture_end(stream);
                put(&place, ended.unwrap_or(0))?;
                ended.map(|_| ())
            }
            Err(cuda) => cuda.enter()?.capture_end(stream, place.address()),
        }
    }

    fn hipGraphInstantiate(place: Out<usize>, graph: usize, _node: usize, _log: usize, _log_bytes: usize) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.graph_instantiate(graph)?),
            Err(cuda) => cuda.enter()?.graph_instantiate(place.address(), graph, 0),
        }
    }

    fn hipGraphInstantiateWithFlags(place: Out<usize>, graph: usize, flags: u64) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.graph_instantiate(graph)?),
            Err(cuda) => cuda.enter()?.graph_instantiate(place.address(), graph, flags),
        }
    }

    fn hipGraphClone(place: Out<usize>, graph: usize) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.graph_clone(graph)?),
            Err(cuda) => cuda.enter()?.graph_clone(place.address(), graph),
        }
    }

    fn hipGraphAddChildGraphNode(place: Out<usize>, graph: usize, needs: usize, needs_len: usize, child: usize) |double| {
        match double.host() {
            Ok(mut host) => put(&place, host.graph_nest(graph, child)?),
            Err(cuda) => cuda.enter()?.graph_nest(place.address(), graph, needs, needs_len, child),
        }
    }

    fn hipGraphExecUpdate(exec: usize, graph: usize, node: Out<usize>, result: Out<i32>) |double| {
        let updated = match double.host() {
            Ok(mut host) => host.exec_update(exec, graph),
            Err(cuda) => {
                // `CUgraphExecUpdateResultInfo`: the result and two nodes.
                let mut told = [0usize; 3];
                cuda.enter()?.exec_update(exec, graph, told.as_mut_ptr() as usize)
            }
        };
        node.put(0);
        // `hipGraphExecUpdateSuccess`, `hipGraphExecUpdateError`.
        result.put(i32::from(updated.is_err()));
        updated
    }

    fn hipGraphLaunch(exec: usize, stream: usize) |double| {
        match double.host() {
            Ok(mut host) => host.graph_launch(exec, stream),
            Err(cuda) => cuda.enter()?.graph_launch(exec, stream),
        }
    }

    fn hipGraphExecDestroy(exec: usize) |double| {
        match double.host() {
            Ok(mut host) => host.exec_destroy(exec),
            Err(cuda) => cuda.enter()?.exec_destroy(exec),
        }
    }

    fn hipGraphDestroy(graph: usize) |double| {
        match double.host() {
            Ok(mut host) => host.graph_destroy(graph),
            Err(cuda) => cuda.enter()?.graph_destroy(graph),
        }
    }
}
