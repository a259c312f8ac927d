//! Memory.

use crate::abi::{Answer, Out, exports, hip_call};
use crate::host::{INVALID_VALUE, OUT_OF_MEMORY, Work};
use crate::state::Double;

fn allocate(double: &Double, place: &Out<usize>, bytes: usize, on_device: bool) -> Answer {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    let address = match double.host() {
        Ok(mut host) => {
            host.may_block()?;
            match bytes {
                0 => 0,
                _ => host.memory.allocate(bytes, on_device).ok_or(OUT_OF_MEMORY)?,
            }
        }
        Err(cuda) if on_device => cuda.allocate(bytes)?,
        Err(cuda) => cuda.host_allocate(bytes)?,
    };
    place.put(address);
    Ok(())
}

fn free(double: &Double, address: usize, on_device: bool) -> Answer {
    match double.host() {
        Ok(mut host) => {
            host.may_block()?;
            if address == 0 || host.memory.free(address, on_device) { Ok(()) } else { Err(INVALID_VALUE) }
        }
        Err(_) if address == 0 => Ok(()),
        Err(cuda) if on_device => cuda.enter()?.free(address),
        Err(cuda) => cuda.enter()?.host_free(address),
    }
}

/// `hipMemcpyKind`: host to host 0, to device 1, to host 2, within 3, by the addresses 4.
fn is_kind(kind: i32) -> Answer {
    if (0..=4).contains(&kind) { Ok(()) } else { Err(INVALID_VALUE) }
}

exports! { hip_call;
    fn hipMalloc(place: Out<usize>, bytes: usize) |double| { allocate(double, &place, bytes, true) }

    fn hipFree(address: usize) |double| { free(double, address, true) }

    fn hipHostMalloc(place: Out<usize>, bytes: usize, _flags: u32) |double| { allocate(double, &place, bytes, false) }

    fn hipHostFree(address: usize) |double| { free(double, address, false) }

    fn hipMemGetInfo(free: Out<usize>, total: Out<usize>) |double| {
        let (free_bytes, total_bytes) = match double.host() {
            Ok(host) => host.memory.info(),
            Err(cuda) => cuda.memory_info()?,
        };
        free.put(free_bytes as usize);
        total.put(total_bytes as usize);
        Ok(())
    }

    fn hipMemset(to: usize, byte: i32, bytes: usize) |double| {
        match double.host() {
            Ok(mut host) => {
                host.may_use_default_stream()?;
                host.enqueue(0, &Work::Set { to, byte: byte as u8, bytes })
            }
            Err(cuda) => cuda.enter()?.memset(to, byte as u8, bytes),
        }
    }

    fn hipMemsetAsync(to: usize, byte: i32, bytes: usize, stream: usize) |double| {
        match double.host() {
            Ok(mut host) => host.enqueue(stream, &Work::Set { to, byte: byte as u8, bytes }),
            Err(cuda) => cuda.enter()?.memset_async(to, byte as u8, bytes, stream),
        }
    }

    fn hipMemcpy(to: usize, from: usize, bytes: usize, kind: i32) |double| {
        is_kind(kind)?;
        match double.host() {
            Ok(mut host) => {
                host.may_use_default_stream()?;
                host.enqueue(0, &Work::Copy { to, from, bytes })?;
                host.synchronize(0)
            }
            Err(cuda) => cuda.enter()?.memcpy(to, from, bytes),
        }
    }

    fn hipMemcpyAsync(to: usize, from: usize, bytes: usize, kind: i32, stream: usize) |double| {
        is_kind(kind)?;
        match double.host() {
            Ok(mut host) => host.enqueue(stream, &Work::Copy { to, from, bytes }),
            Err(cuda) => cuda.enter()?.memcpy_async(to, from, bytes, stream),
        }
    }
}
