//! vLLM's configuration files out of choices.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use super::name::FileName;
use super::{LIBRARY, TRITON_VERSION, devices, json, launch_params, piece, tokens};
use crate::atomic::{self, WriteError};
use crate::choice::Choice;
use crate::format::Format;
use crate::format::aiter::NotExported;
use crate::origin::Origin;
use crate::solution::Params;

/// The order in which vLLM's tuner writes an entry's fields; others follow by name.
const FIELDS: [&str; 10] = [
    "BLOCK_SIZE_M",
    "BLOCK_SIZE_N",
    "BLOCK_SIZE_K",
    "GROUP_SIZE_M",
    "SPLIT_K",
    "num_warps",
    "num_stages",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
];

/// Libraries that a file can name: Triton by not naming one, the others as its `backend`.
const BACKENDS: [&str; 1] = ["flydsl"];

static FORMAT_WORD: LazyLock<String> = LazyLock::new(|| Format::VllmMoe.word());

/// One configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its name, by which vLLM finds it.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// The configurations of `choices`, one file a layer and device in order of first sight, and the choices that vLLM cannot
/// be told.
///
/// Files whose entries all came from one file are put together from that file's own pieces, so what did not change is
/// written byte by byte as it was. Of several choices for one M of one file the first is written.
pub fn to_files<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> (Vec<ConfigFile>, Vec<NotExported>) {
    let mut left_out = Vec::new();
    let mut files: Vec<(String, Vec<Entry<'a>>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for choice in choices {
        let leave_out = |reason| NotExported { problem: choice.problem, reason };
        let (name, entry) = match named(choice) {
            Ok(named) => named,
            Err(reason) => {
                left_out.push(leave_out(reason));
                continue;
            }
        };
        let place = *places.entry(name.clone()).or_insert_with(|| {
            files.push((name, Vec::new()));
            files.len() - 1
        });
        let entries = &mut files[place].1;
        if entries.iter().any(|have| have.m == entry.m) {
            left_out.push(leave_out(format!("an earlier choice has M={} in the same file", entry.m)));
        } else {
            entries.push(entry);
        }
    }
    let files = files.into_iter().map(|(name, entries)| ConfigFile { name, text: text(&entries) });
    (files.collect(), left_out)
}

/// Replaces the configurations of `choices` in `folder`, each atomically; returns the choices that vLLM cannot be told.
///
/// # Errors
/// A file cannot be written; what was there before is still there.
pub fn write<'a>(folder: &Path, choices: impl IntoIterator<Item = &'a Choice>) -> Result<Vec<NotExported>, WriteError> {
    let (files, left_out) = to_files(choices);
    for file in files {
        atomic::write(&folder.join(file.name), file.text.as_bytes())?;
    }
    Ok(left_out)
}

/// One entry on its way out.
struct Entry<'a> {
    m: u32,
    params: &'a Params,
    /// The pieces of the file that it was read from.
    origin: Option<&'a Origin>,
}

/// The file and the entry that a choice becomes, or why it cannot.
fn named(choice: &Choice) -> Result<(String, Entry<'_>), String> {
    let moe = choice.problem.moe().ok_or("not a fused MoE layer")?;
    let library = choice.solution.library();
    let backend = match library {
        LIBRARY => None,
        library if BACKENDS.contains(&library) => Some(library),
        library => return Err(format!("vLLM's configurations cannot name library {library}")),
    };
    let params = &choice.solution.params;
    if params.iter().all(|(name, _)| name == TRITON_VERSION) {
        return Err("it has no launch parameters".into());
    }
    let origin = choice.origin.as_ref().filter(|origin| origin.source.format == *FORMAT_WORD);
    // The file's own name holds what a device does not: which of its marketing names it was.
    let origin_name =
        origin.and_then(|origin| Path::new(&origin.source.file).file_name()?.to_str()?.parse::<FileName>().ok());
    let origin_name = origin_name.filter(|name| {
        name.site(&choice.device.arch) == Ok(moe.site)
            && devices::by_name(&name.device_name).is_ok_and(|device| device == *choice.device)
            && name.backend.as_deref() == backend
    });
    let name = match &origin_name {
        Some(name) => name.clone(),
        None => {
            let device = devices::name_of(&choice.device)
                .ok_or_else(|| format!("it is not certain how vLLM calls {}", choice.device))?;
            FileName::of(&moe.site, device, &choice.device.arch, backend)
                .ok_or("vLLM has no word for its element types")?
        }
    };
    let origin = origin.filter(|_| origin_name.is_some()).map(|origin| &**origin);
    Ok((name.to_string(), Entry { m: moe.m, params, origin }))
}

impl<'a> Entry<'a> {
    fn piece(&self, name: &str) -> Option<&'a str> {
        self.origin?.cell(name)
    }

    /// The entry as it was spelled, if it still says the same.
    fn spelled(&self) -> Option<&'a str> {
        let entry = self.piece(piece::ENTRY)?;
        let object = format!("{{{entry}}}");
        let members = json::members(&object, 1).ok()?;
        let member = members.first().filter(|member| tokens(member.key) == Some(self.m))?;
        let was = launch_params(member.value).ok()?;
        let now = self.params.iter().filter(|(name, _)| *name != TRITON_VERSION);
        was.iter().eq(now).then_some(entry)
    }

    fn write(&self, out: &mut String) {
        if let Some(spelled) = self.spelled() {
            out.push_str(spelled);
            return;
        }
        let rank = |name: &str| FIELDS.iter().position(|field| *field == name).unwrap_or(FIELDS.len());
        let mut fields: Vec<(&str, &str)> = self.params.iter().filter(|(name, _)| *name != TRITON_VERSION).collect();
        fields.sort_by_key(|(name, _)| rank(name));
        // Writing to a String cannot fail.
        let _ = write!(out, "\"{}\": {{", self.m);
        for (at, (name, value)) in fields.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let is_plain = value.parse::<i64>().is_ok() || matches!(*value, "true" | "false" | "null");
            let quote = if is_plain { "" } else { "\"" };
            let _ = write!(out, "{comma}\n        {}: {quote}{}{quote}", quoted(name), bare(value, is_plain));
        }
        out.push_str("\n    }");
    }
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    format!("\"{}\"", bare(text, false))
}

/// What stands between the quotes. Parameters hold no control characters.
fn bare(text: &str, is_plain: bool) -> String {
    if is_plain { text.to_owned() } else { text.replace('\\', "\\\\").replace('"', "\\\"") }
}

/// A whole file.
fn text(entries: &[Entry<'_>]) -> String {
    let first = entries.first();
    // Rows of one file share its frame; the first row's serves a mixed file as well.
    let mut out = match first.and_then(|entry| entry.piece(piece::HEAD)) {
        Some(head) => head.to_owned(),
        None => match first.and_then(|entry| entry.params.get(TRITON_VERSION)) {
            Some(version) => format!("{{\n    \"{TRITON_VERSION}\": {},\n    ", quoted(version)),
            None => "{\n    ".to_owned(),
        },
    };
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            out.push_str(entry.piece(piece::GAP).filter(|gap| !gap.is_empty()).unwrap_or(",\n    "));
        }
        entry.write(&mut out);
    }
    out.push_str(first.and_then(|entry| entry.piece(piece::TAIL)).unwrap_or("\n}\n"));
    out
}
