//! vLLM's fused MoE configurations: one JSON file a layer and device, named after both
//! (`E=8,N=14336,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8.json`), which maps numbers of tokens to launch parameters.
//!
//! The name is the key, so a file under another name cannot be read. Each entry becomes a choice of library `triton` (or
//! of the name's `backend`) whose parameters are the entry's fields. The files hold no times: `time_us` is NaN, which the
//! store keeps as NULL and the lookup ranks last. `triton_version`, which vLLM reads and drops, is a parameter and no
//! build: the same fields launch under any Triton.
//!
//! A device is its marketing name here; `devices` says which names are certain to be which device.

mod devices;
mod json;
mod name;
mod write;

use std::path::Path;

use super::error::{Read, ReadError, Rejected, Sourced, Unreadable};
use super::limits::{FIELDS_MAX, excerpt};
use super::origin::Origins;
use super::{Content, Format, ReadOptions};
use crate::choice::Choice;
use crate::device::{Build, Device};
use crate::moe::MoeSite;
use crate::problem::EXTENT_MAX;
use crate::solution::{Params, Solution};
use json::Member;
use name::FileName;

pub use write::{ConfigFile, to_files, write};

/// The library of entries whose file names no `backend`.
pub const LIBRARY: &str = "triton";

/// The one member of a file that is no number of tokens, and the parameter that keeps it.
pub const TRITON_VERSION: &str = "triton_version";

/// Members of one file; vLLM's largest has 23.
pub const MEMBERS_MAX: usize = 1 << 12;

/// The names of an origin's cells: pieces of the file which, put together, are the file again.
mod piece {
    /// From the start of the file to its first entry, in every row.
    pub(super) const HEAD: &str = "head";
    /// From the end of the entry before to this one's key; empty in the first row.
    pub(super) const GAP: &str = "gap";
    /// The entry: key, colon, object.
    pub(super) const ENTRY: &str = "entry";
    /// From the last entry to the end of the file, in every row.
    pub(super) const TAIL: &str = "tail";
}

/// Is the file named as vLLM names its configurations? JSON under another name is ours to refuse.
pub(crate) fn recognise(name: &str, head: &[u8]) -> bool {
    let starts_object = head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    name.ends_with(".json") && (starts_object || name.contains(",device_name="))
}

/// Reads one configuration.
pub(crate) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    let malformed = |line, why| ReadError {
        file: file.into(),
        line,
        unreadable: Unreadable::Malformed { format: Format::VllmMoe, why },
    };
    let file_name = file.file_name().unwrap_or_default().to_string_lossy();
    let name: FileName = file_name.parse().map_err(|why| malformed(None, why))?;
    let device = devices::by_name(&name.device_name).map_err(|why| malformed(None, why))?;
    let site = name.site(&device.arch).map_err(|why| malformed(None, why))?;
    let text = std::str::from_utf8(bytes).map_err(|_| malformed(None, "is not text: JSON is expected".into()))?;
    let members = json::members(text, MEMBERS_MAX)
        .map_err(|fault| malformed(Some(line_of(text, fault.at)), format!("is no JSON object: {}", fault.why)))?;
    let config = Config { name, device, site, text, version: version(&members) };
    let origins = Origins::of(file, bytes, Format::VllmMoe, options);
    Ok(Content::Choices(config.read(file, &members, origins.as_ref())))
}

/// The line, from 1, of byte `at`.
fn line_of(text: &str, at: usize) -> u64 {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u64 + 1
}

/// The file's `triton_version`, if it has one.
fn version<'t>(members: &[Member<'t>]) -> Option<&'t str> {
    members.iter().find(|member| member.key == TRITON_VERSION).map(|member| json::unquoted(member.value))
}

/// What all entries of a file share.
struct Config<'t> {
    name: FileName,
    device: Device,
    site: MoeSite,
    text: &'t str,
    version: Option<&'t str>,
}

impl Config<'_> {
    fn read(&self, file: &Path, members: &[Member<'_>], origins: Option<&Origins>) -> Read<Choice> {
        let mut read: Read<Choice> = Read::new(file.into(), Format::VllmMoe);
        let is_entry = |member: &&Member<'_>| tokens(member.key).is_some();
        let head_end = members.iter().find(is_entry).map_or(0, |member| member.start);
        let tail_start = members.iter().rev().find(is_entry).map_or(0, |member| member.end);
        let mut previous_end = head_end;
        for (at, member) in members.iter().enumerate() {
            if member.key == TRITON_VERSION {
                continue;
            }
            let line = line_of(self.text, member.start);
            let is_repeated = members[at + 1..].iter().any(|later| later.key == member.key);
            let entry = if is_repeated {
                Err(format!("M={} stands again below, and JSON keeps the last", excerpt(member.key)))
            } else {
                self.choice(member)
            };
            match entry {
                Ok(mut choice) => {
                    choice.origin = origins.map(|origins| {
                        let pieces = [
                            (piece::HEAD, &self.text[..head_end]),
                            (piece::GAP, &self.text[previous_end..member.start]),
                            (piece::ENTRY, &self.text[member.start..member.end]),
                            (piece::TAIL, &self.text[tail_start..]),
                        ];
                        origins.at(line, pieces)
                    });
                    previous_end = member.end;
                    read.rows.push(Sourced { line, value: choice });
                }
                Err(reason) => read.rejected.push(Rejected { file: file.into(), line, reason }),
            }
        }
        read
    }

    fn choice(&self, member: &Member<'_>) -> Result<Choice, String> {
        let m = tokens(member.key).ok_or_else(|| {
            format!("'{}' is no number of tokens from 1 to {EXTENT_MAX}, nor {TRITON_VERSION}", excerpt(member.key))
        })?;
        let mut params = launch_params(member.value).map_err(|why| format!("M={m}: {why}"))?;
        if let Some(version) = self.version {
            params = params.with(TRITON_VERSION, version);
        }
        let solution = Solution {
            params,
            ..Solution::bare(Build::unknown(self.name.backend.as_deref().unwrap_or(LIBRARY)), 0, "")
        };
        Ok(Choice::uncompared(self.site.at(m).into(), self.device.clone(), solution, f64::NAN))
    }
}

/// A key as a number of tokens, as vLLM's `int(key)` takes it from its own files.
fn tokens(key: &str) -> Option<u32> {
    let is_plain = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    key.parse().ok().filter(|m| is_plain && (1..=EXTENT_MAX).contains(m))
}

/// The fields of an entry: numbers, words and flags by name.
fn launch_params(object: &str) -> Result<Params, String> {
    let members = json::members(object, FIELDS_MAX).map_err(|fault| fault.why)?;
    if members.is_empty() {
        return Err("an object of launch parameters is expected, this one is empty".into());
    }
    let mut params = Params::new();
    for member in &members {
        if member.value.starts_with(['{', '[']) {
            return Err(format!("{} is no plain value", excerpt(member.key)));
        }
        if params.get(member.key).is_some() {
            return Err(format!("{} stands twice", excerpt(member.key)));
        }
        params = params.with(member.key, json::unquoted(member.value));
    }
    Ok(params)
}

#[cfg(test)]
mod tests;
