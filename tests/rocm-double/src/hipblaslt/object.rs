//! Handles, descriptors, layouts and preferences: numbered attributes of at most eight bytes.
//!
//! A handle that was never given out, or was destroyed, is told from one that lives: the real library would crash or worse.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::{INVALID_VALUE, NOT_INITIALIZED};
use crate::abi::{Answer, Out, read_bytes, write_bytes};

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Handle,
    Layout,
    Desc,
    Preference,
}

/// `hipblasLtMatrixLayoutAttribute_t`.
pub mod layout {
    pub const BATCH_COUNT: i32 = 0;
    pub const STRIDED_BATCH_OFFSET: i32 = 1;
    pub const TYPE: i32 = 2;
    pub const ORDER: i32 = 3;
    pub const ROWS: i32 = 4;
    pub const COLS: i32 = 5;
    pub const LD: i32 = 6;
}

/// `hipblasLtMatmulDescAttributes_t`; what creation fixes has negative numbers here.
pub mod desc {
    pub const COMPUTE: i32 = -1;
    pub const SCALE_TYPE: i32 = -2;
    pub const TRANSA: i32 = 0;
    pub const TRANSB: i32 = 1;
    pub const EPILOGUE: i32 = 2;
    pub const BIAS_POINTER: i32 = 3;
    pub const BIAS_DATA_TYPE: i32 = 4;
    pub const A_SCALE_POINTER: i32 = 5;
    pub const B_SCALE_POINTER: i32 = 6;
    pub const D_SCALE_POINTER: i32 = 8;
    pub const POINTER_MODE: i32 = 13;
    pub const A_SCALE_MODE: i32 = 31;
    pub const B_SCALE_MODE: i32 = 32;
    /// A vector of scales of A before ROCm 7, an activation's argument since.
    pub const EXT_102: i32 = 102;
    /// As above, of B.
    pub const EXT_103: i32 = 103;
}

/// `hipblasLtMatmulPreferenceAttributes_t`.
pub mod preference {
    pub const MAX_WORKSPACE_BYTES: i32 = 1;
}

/// Bytes of an attribute; `None` where the library of that generation knows none of this number.
fn attribute_bytes(kind: Kind, attribute: i32, generation: u32) -> Option<usize> {
    Some(match (kind, attribute) {
        (Kind::Layout, 0 | 2 | 3) => 4,
        (Kind::Layout, 1 | 4..=6) => 8,
        (Kind::Desc, 0..=2 | 4 | 13 | 100 | 101) => 4,
        (Kind::Desc, 3 | 5..=12 | 14) => 8,
        (Kind::Desc, 22 | 31 | 32) if generation >= 7 => 4,
        (Kind::Desc, 102 | 103) => {
            if generation >= 7 {
                4
            } else {
                8
            }
        }
        (Kind::Preference, 0) => 4,
        (Kind::Preference, 1) => 8,
        _ => return None,
    })
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Object {
    pub kind: Kind,
    values: BTreeMap<i32, i64>,
}

impl Object {
    pub fn new(kind: Kind, values: &[(i32, i64)]) -> Object {
        Object { kind, values: values.iter().copied().collect() }
    }

    /// An attribute; 0 if it was not set.
    pub fn get(&self, attribute: i32) -> i64 {
        self.find(attribute).unwrap_or(0)
    }

    pub fn find(&self, attribute: i32) -> Option<i64> {
        self.values.get(&attribute).copied()
    }
}

static OBJECTS: LazyLock<Mutex<HashMap<usize, Object>>> = LazyLock::new(Mutex::default);

fn objects() -> MutexGuard<'static, HashMap<usize, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a new object into the caller's place.
pub fn create(place: &Out<usize>, object: Object) -> Answer {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0x1_0000);
    let handle = NEXT.fetch_add(0x10, std::sync::atomic::Ordering::Relaxed);
    if !place.put(handle) {
        return Err(INVALID_VALUE);
    }
    objects().insert(handle, object);
    Ok(())
}

/// The object of `kind`: a missing library handle is not initialised, anything else missing an invalid value.
pub fn find(handle: usize, kind: Kind) -> Result<Object, i32> {
    let absent = if kind == Kind::Handle { NOT_INITIALIZED } else { INVALID_VALUE };
    objects().get(&handle).filter(|object| object.kind == kind).cloned().ok_or(absent)
}

pub fn destroy(handle: usize, kind: Kind) -> Answer {
    find(handle, kind)?;
    objects().remove(&handle);
    Ok(())
}

/// Sets an attribute from `bytes` bytes at `from`.
pub fn set(handle: usize, kind: Kind, attribute: i32, from: usize, bytes: usize, generation: u32) -> Answer {
    let mut objects = objects();
    let object = objects.get_mut(&handle).filter(|object| object.kind == kind).ok_or(INVALID_VALUE)?;
    let needed = attribute_bytes(kind, attribute, generation).ok_or(INVALID_VALUE)?;
    if from == 0 || bytes < needed {
        return Err(INVALID_VALUE);
    }
    let mut value = [0u8; 8];
    value[..needed].copy_from_slice(&read_bytes(from, needed));
    let wide = i64::from_ne_bytes(value);
    // Numbers of four bytes are signed.
    object.values.insert(attribute, if needed == 4 { i64::from(wide as i32) } else { wide });
    Ok(())
}

/// Writes an attribute to `to`, and its length.
pub fn get(
    handle: usize,
    kind: Kind,
    attribute: i32,
    to: usize,
    bytes: usize,
    written: &Out<usize>,
    generation: u32,
) -> Answer {
    let object = find(handle, kind)?;
    let needed = attribute_bytes(kind, attribute, generation).ok_or(INVALID_VALUE)?;
    written.put(needed);
    if bytes == 0 && !written.is_null() {
        return Ok(());
    }
    if to == 0 || bytes < needed {
        return Err(INVALID_VALUE);
    }
    write_bytes(to, &object.get(attribute).to_ne_bytes()[..needed]);
    Ok(())
}
