//! What a caller says in each structure: mostly what can be, else anything.

use std::ffi::c_char;

use tgemm::constraints::TgemmLimits;
use tgemm::database::TgemmOptions;
use tgemm::device::{TgemmBuild, TgemmDevice};
use tgemm::problem::TgemmProblem;
use tgemm::recorder::TgemmCall;

use super::memory::{Memory, array, at, structure, text};
use crate::feed::Feed;

/// Elements of an array; a caller's real ones are a handful.
const COUNT_MAX: usize = 4;

/// A structure with whatever it points to, which must live as long.
pub(super) struct Given {
    structure: Option<Memory>,
    _behind: Vec<Memory>,
}

impl Given {
    fn new<T: Copy>(value: &T, behind: Vec<Memory>, feed: &mut Feed<'_>) -> Given {
        let structure = (!feed.rarely(32)).then(|| structure(value, feed));
        Given { structure, _behind: behind }
    }

    pub(super) fn pointer<T>(&self) -> *const T {
        self.structure.as_ref().map_or(std::ptr::null(), |memory| memory.pointer::<T>().cast_const())
    }
}

/// A word of an enumeration with `last` as its last.
fn word(last: u32, feed: &mut Feed<'_>) -> u32 {
    match feed.below(16) {
        0 => feed.word(),
        1 => last + 1,
        2..8 => feed.below(last as usize + 1) as u32,
        _ => 0,
    }
}

fn flag(feed: &mut Feed<'_>) -> u32 {
    match feed.below(16) {
        0 => feed.word(),
        1..4 => 1,
        _ => 0,
    }
}

/// A size: small, as it was tuned, or anything.
fn size(feed: &mut Feed<'_>) -> u32 {
    match feed.below(8) {
        0 => feed.word(),
        1 => feed.byte().into(),
        2 => feed.one(&[0, 1, i32::MAX as u32, 1 << 31, u32::MAX]),
        3 => feed.one(&[4, 8, 9, 16, 33, 40, 512]),
        4 => feed.one(&[80, 96, 65]),
        _ => 64,
    }
}

/// A row length or stride: nearly always 0.
fn length(feed: &mut Feed<'_>) -> u64 {
    match feed.below(16) {
        0 => feed.long(),
        1 => feed.one(&[64, 65, 128, 4096, u64::from(u32::MAX), u64::MAX, 1 << 63]),
        _ => 0,
    }
}

pub(super) fn problem(feed: &mut Feed<'_>) -> Given {
    let is_plain = feed.rarely(2);
    let value = TgemmProblem {
        size: 0,
        m: if is_plain { feed.one(&[4, 9, 33, 512, 0, 1, 16, 40, 100_000]) } else { size(feed) },
        n: if is_plain { feed.one(&[64, 80, 96]) } else { size(feed) },
        k: if is_plain { 64 } else { size(feed) },
        x: if is_plain { 2 } else { word(16, feed) },
        w: 0,
        out: 0,
        compute: 0,
        bias: 0,
        scale: 0,
        scale_dtype: 0,
        activation: 0,
        alpha: 0,
        beta: 0,
        out_of_place: 0,
        fast_accumulation: 0,
        preshuffled: 0,
        trans: 0,
        align: 0,
        ldx: 0,
        ldw: 0,
        ldo: 0,
        batch_count: 0,
        stride_x: 0,
        stride_w: 0,
        stride_out: 0,
    };
    if is_plain {
        return Given::new(&value, Vec::new(), feed);
    }
    let value = TgemmProblem {
        w: word(16, feed),
        out: word(16, feed),
        compute: word(5, feed),
        bias: word(16, feed),
        scale: word(4, feed),
        scale_dtype: word(16, feed),
        activation: word(5, feed),
        alpha: word(3, feed),
        beta: word(3, feed),
        out_of_place: flag(feed),
        fast_accumulation: flag(feed),
        preshuffled: flag(feed),
        trans: word(3, feed),
        align: word(3, feed),
        ldx: length(feed) as u32,
        ldw: length(feed) as u32,
        ldo: length(feed) as u32,
        batch_count: length(feed) as u32,
        stride_x: length(feed),
        stride_w: length(feed),
        stride_out: length(feed),
        ..value
    };
    Given::new(&value, Vec::new(), feed)
}

pub(super) fn limits(feed: &mut Feed<'_>) -> Given {
    let (libraries, library_count, behind) = texts(&["gemm", "hipblaslt", "onednn"], feed);
    let value = TgemmLimits {
        size: 0,
        libraries,
        library_count,
        weight_forms: word(7, feed),
        numerics: word(2, feed),
        deterministic: flag(feed),
        graph_safe: flag(feed),
        has_workspace_max: flag(feed),
        reserved: u32::from(feed.rarely(32)),
        workspace_bytes_max: length(feed),
    };
    Given::new(&value, behind, feed)
}

pub(super) fn options(feed: &mut Feed<'_>) -> Given {
    let value = TgemmOptions {
        size: 0,
        levels: word(15, feed),
        use_environment: flag(feed),
        strict: flag(feed),
        // All of them are allocated at once: few, or more than there may be.
        misses_max: match feed.below(16) {
            0 => feed.word() | (1 << 20) + 1,
            _ => feed.below(64) as u32,
        },
    };
    Given::new(&value, Vec::new(), feed)
}

pub(super) fn call(feed: &mut Feed<'_>) -> Given {
    let value = TgemmCall {
        size: 0,
        via: word(6, feed),
        captured: flag(feed),
        calls: length(feed),
        has_workspace_max: flag(feed),
        reserved: u32::from(feed.rarely(32)),
        workspace_bytes_max: length(feed),
    };
    Given::new(&value, Vec::new(), feed)
}

pub(super) fn device(feed: &mut Feed<'_>) -> Given {
    let mut behind = Vec::new();
    let mut said = |known: &[&str], feed: &mut Feed<'_>| {
        let text = text(known, feed);
        let pointer = at(&text);
        behind.extend(text);
        pointer
    };
    let is_plain = !feed.rarely(4);
    let (arch, partition) = match is_plain {
        true => (c"x86_64-v4".as_ptr(), std::ptr::null()),
        false => (said(&["x86_64-v4", "gfx942"], feed), said(&["SPX/NPS1"], feed)),
    };
    let builds: Vec<TgemmBuild> = match is_plain {
        true => Vec::new(),
        false => (0..feed.below(COUNT_MAX))
            .map(|_| TgemmBuild {
                library: said(&["gemm", "hipblaslt"], feed),
                version: said(&["1.0", "2.0"], feed),
                revision: said(&["ab"], feed),
            })
            .collect(),
    };
    let (pointer, count) = counted(&builds, &mut behind, feed);
    let value = TgemmDevice {
        size: 0,
        arch,
        vendor: if is_plain { 3 } else { word(3, feed) },
        compute_units: if is_plain { 2 } else { size(feed) },
        memory_gib: if is_plain { 0 } else { size(feed) },
        chip_id: if is_plain { 0 } else { size(feed) },
        partition,
        builds: pointer,
        build_count: count,
    };
    Given::new(&value, behind, feed)
}

/// An array of texts with its count.
pub(super) fn texts(known: &[&str], feed: &mut Feed<'_>) -> (*const *const c_char, usize, Vec<Memory>) {
    let mut behind = Vec::new();
    let pointers: Vec<*const c_char> = (0..feed.below(COUNT_MAX))
        .map(|_| {
            let text = text(known, feed);
            let pointer = at(&text);
            behind.extend(text);
            pointer
        })
        .collect();
    let (pointer, count) = counted(&pointers, &mut behind, feed);
    (pointer, count, behind)
}

/// Puts an array where a caller has it. Its count is right, or impossible, or that of no array at all.
fn counted<T: Copy>(values: &[T], behind: &mut Vec<Memory>, feed: &mut Feed<'_>) -> (*const T, usize) {
    match feed.below(32) {
        0 => return (std::ptr::null(), feed.one(&[0, 1, usize::MAX])),
        1 => return (std::ptr::dangling(), usize::MAX / size_of::<T>() + 1),
        2 => return (std::ptr::dangling(), 0),
        _ => {}
    }
    let memory = array(values, feed);
    let pointer = memory.pointer::<T>().cast_const();
    behind.push(memory);
    (pointer, values.len())
}
