//! The choices in one value, as a lookup reads them: to step through a hundred thousand rows of eighteen columns takes longer
//! than everything that is done with them.
//!
//! It is derived, and never more than the rows say: triggers drop it in the transaction that changes a choice or a problem; a
//! writer that closes makes it anew; who finds none, or one of another layout or with a wrong digest, reads the rows. Devices
//! and solutions are not in it, but their numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable, bytes_of, pod_read_unaligned};
use rusqlite::{Connection, OptionalExtension, params};

use super::choices::{self, Places, dangling};
use super::error::Fault;
use super::known::{ById, GEMM, split_gemm};
use super::words;
use crate::choice::{Choice, Ratio, Verdict};
use crate::problem::{Gemm, Problem, Site};
use crate::solution::{Numerics, Solution};

/// More than an engine serves. An import of millions is read by its rows, and holds no second copy of them when it closes.
const CHOICES_MAX: i64 = 300_000;

/// How many of what follow: texts, sites, rows.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Head {
    text_bytes: u64,
    sites: u64,
    rows: u64,
}

/// Where a text lies among all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
struct Text {
    start: u32,
    bytes: u32,
}

/// A choice without its baselines and its origin.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Row {
    workspace_bytes: u64,
    count: u64,
    time_us: f64,
    ratio: [f64; 3],
    error_over_bound: f64,
    err_ratio: f64,
    /// Not a number where nothing is packed.
    pack_us: f64,
    tuned_at: Text,
    environment: u32,
    solution: u32,
    site: u32,
    /// 0 where the site's text is a whole key.
    m: u32,
    /// Positions among [`Numerics::ALL`] and [`Verdict::ALL`].
    numerics: u8,
    verdict: u8,
    /// 0 no, 1 yes, 2 not known.
    deterministic: u8,
    graph_safe: u8,
    nothing: u32,
}

/// What a value was written as; another build may have other words, another machine another order of bytes.
fn layout() -> String {
    let names = |words: &mut dyn Iterator<Item = &'static str>| words.collect::<Vec<_>>().join(",");
    let order = if cfg!(target_endian = "little") { "little" } else { "big" };
    let numerics = names(&mut Numerics::ALL.iter().map(|word| word.name()));
    let verdicts = names(&mut Verdict::ALL.iter().map(|word| word.name()));
    format!("1 {order} row={} numerics={numerics} verdict={verdicts}", size_of::<Row>())
}

fn known(value: Option<bool>) -> u8 {
    value.map_or(2, u8::from)
}

fn is_known(value: u8) -> Option<bool> {
    (value < 2).then_some(value == 1)
}

/// Texts that are there once.
#[derive(Default)]
struct Texts {
    all: String,
    places: HashMap<String, Text>,
}

impl Texts {
    /// `None` beyond 4 GB.
    fn place(&mut self, text: &str) -> Option<Text> {
        if let Some(place) = self.places.get(text) {
            return Some(*place);
        }
        let place = Text { start: u32::try_from(self.all.len()).ok()?, bytes: u32::try_from(text.len()).ok()? };
        self.all.push_str(text);
        self.places.insert(text.to_owned(), place);
        Some(place)
    }
}

/// All choices of a database; `None` where they are none, too many, or numbered beyond 32 bits.
fn content(connection: &Connection) -> Result<Option<Vec<u8>>, Fault> {
    if connection.query_row("SELECT count(*) FROM choice", [], |row| row.get::<_, i64>(0))? > CHOICES_MAX {
        return Ok(None);
    }
    let (mut texts, mut sites, mut rows) = (Texts::default(), Vec::new(), Vec::new());
    let mut served = Vec::new();
    let mut site_of: HashMap<Text, u32> = HashMap::new();
    let mut fits = true;
    choices::each_numbered(connection, |environment, solution, choice| {
        let mut row = || {
            let key = choice.problem.to_string();
            let (m, site) = match split_gemm(&key) {
                Some((m, rest)) => (m.parse().ok()?, rest),
                None => (0, key.as_str()),
            };
            let place = texts.place(site)?;
            let site = match site_of.entry(place) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    served.push(Served::of(site)?);
                    sites.push(place);
                    *new.insert(u32::try_from(sites.len() - 1).ok()?)
                }
            };
            // What is read must be what was chosen for.
            served.get(site as usize)?.at(m).filter(|problem| *problem == choice.problem)?;
            let Ratio { estimate, low, high } = choice.ratio;
            Some(Row {
                workspace_bytes: choice.solution.workspace_bytes,
                count: choice.count,
                time_us: choice.time_us,
                ratio: [estimate, low, high],
                error_over_bound: choice.error_over_bound,
                err_ratio: choice.err_ratio,
                pack_us: choice.pack_us.unwrap_or(f64::NAN),
                tuned_at: texts.place(&choice.tuned_at)?,
                environment: u32::try_from(environment).ok()?,
                solution: u32::try_from(solution).ok()?,
                site,
                m,
                numerics: position(Numerics::ALL, choice.solution.numerics)?,
                verdict: position(Verdict::ALL, choice.verdict)?,
                deterministic: known(choice.solution.deterministic),
                graph_safe: known(choice.solution.graph_safe),
                nothing: 0,
            })
        };
        match row() {
            Some(row) if fits => rows.push(row),
            _ => fits = false,
        }
    })?;
    if !fits || rows.is_empty() {
        return Ok(None);
    }
    let bytes = size_of::<Head>() + texts.all.len() + sites.len() * size_of::<Text>() + rows.len() * size_of::<Row>();
    let head = Head { text_bytes: texts.all.len() as u64, sites: sites.len() as u64, rows: rows.len() as u64 };
    let mut content = Vec::with_capacity(bytes);
    content.extend_from_slice(bytes_of(&head));
    content.extend_from_slice(texts.all.as_bytes());
    content.extend_from_slice(bytemuck::cast_slice(&sites));
    content.extend_from_slice(bytemuck::cast_slice(&rows));
    Ok(Some(content))
}

fn position<T: PartialEq>(words: &[T], word: T) -> Option<u8> {
    u8::try_from(words.iter().position(|have| *have == word)?).ok()
}

/// Makes the value if there is none, within the caller's transaction.
pub(super) fn make(connection: &Connection) -> Result<(), Fault> {
    let have: bool = connection.query_row("SELECT EXISTS (SELECT 1 FROM serving)", [], |row| row.get(0))?;
    if have {
        return Ok(());
    }
    let Some(content) = content(connection)? else { return Ok(()) };
    let digest = blake3::hash(&content);
    let values = params![layout(), digest.as_bytes(), content];
    connection.execute("INSERT INTO serving (id, layout, digest, content) VALUES (1, ?1, ?2, ?3)", values)?;
    Ok(())
}

/// Every choice goes to `take` if the value is there, in the order of the rows; else nothing does, and the answer is no.
pub(super) fn each(connection: &Connection, take: &mut impl FnMut(Choice)) -> Result<bool, Fault> {
    let mut select = connection.prepare_cached("SELECT layout, digest, content FROM serving")?;
    let mut rows = select.query([])?;
    let Some(row) = rows.next()? else { return Ok(false) };
    let (said, digest, content) = (row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?);
    let (Ok(said), Ok(digest), Ok(content)) = (said.as_str(), digest.as_blob(), content.as_blob()) else {
        return Ok(false);
    };
    if said != layout() || digest != blake3::hash(content).as_bytes() {
        return Ok(false);
    }
    let whole = Whole::of(content).ok_or_else(|| Fault::Damaged("the value of serving is not what it says".into()))?;
    whole.each(connection, take)?;
    Ok(true)
}

/// Does the value, if there is one, say what the rows say?
pub(super) fn check(connection: &Connection) -> Result<(), Fault> {
    let find = "SELECT content FROM serving WHERE layout = ?1";
    let stored: Option<Vec<u8>> = connection.query_row(find, [layout()], |row| row.get(0)).optional()?;
    match stored {
        Some(stored) if content(connection)?.is_none_or(|content| content != stored) => {
            Err(Fault::Damaged("serving does not say what the choices say".into()))
        }
        _ => Ok(()),
    }
}

/// The parts of a value.
struct Whole<'c> {
    texts: &'c str,
    sites: &'c [u8],
    rows: &'c [u8],
}

impl<'c> Whole<'c> {
    /// `None` if the parts are not as long as the head says.
    fn of(content: &'c [u8]) -> Option<Whole<'c>> {
        let (head, rest) = content.split_at_checked(size_of::<Head>())?;
        let head: Head = pod_read_unaligned(head);
        let bytes = |count: u64, each: usize| usize::try_from(count).ok()?.checked_mul(each);
        let (texts, rest) = rest.split_at_checked(bytes(head.text_bytes, 1)?)?;
        let (sites, rows) = rest.split_at_checked(bytes(head.sites, size_of::<Text>())?)?;
        let is_whole = rows.len() == bytes(head.rows, size_of::<Row>())?;
        is_whole.then_some(Whole { texts: std::str::from_utf8(texts).ok()?, sites, rows })
    }

    fn text(&self, Text { start, bytes }: Text) -> Option<&'c str> {
        let start = start as usize;
        self.texts.get(start..start.checked_add(bytes as usize)?)
    }

    fn each(&self, connection: &Connection, take: &mut impl FnMut(Choice)) -> Result<(), Fault> {
        let wrong = || Fault::Damaged("the value of serving refers to what is not in it".into());
        let identities = words::solutions(connection, "", [])?;
        let places = choices::places(connection)?;
        let mut sites = Vec::new();
        for site in self.sites.chunks_exact(size_of::<Text>()) {
            sites.push(self.text(pod_read_unaligned(site)).and_then(Served::of).ok_or_else(wrong)?);
        }
        for (at, row) in (1i64..).zip(self.rows.chunks_exact(size_of::<Row>())) {
            let row: Row = pod_read_unaligned(row);
            let problem = sites.get(row.site as usize).and_then(|site| site.at(row.m)).ok_or_else(wrong)?;
            let tuned_at = self.text(row.tuned_at).ok_or_else(wrong)?;
            take(row.choice(at, problem, tuned_at, &identities, &places)?);
        }
        Ok(())
    }
}

/// What the text of a site stands for.
enum Served {
    Site(Site),
    Whole(Problem),
}

impl Served {
    fn of(text: &str) -> Option<Served> {
        match text.parse() {
            Ok(problem) => Some(Served::Whole(problem)),
            Err(_) => format!("{GEMM}1,{text}").parse::<Gemm>().ok().map(|gemm| Served::Site(gemm.site)),
        }
    }

    fn at(&self, m: u32) -> Option<Problem> {
        match self {
            Served::Whole(problem) => (m == 0).then_some(*problem),
            Served::Site(site) => (m > 0).then(|| site.at(m).into()),
        }
    }
}

impl Row {
    fn choice(
        &self,
        at: i64,
        problem: Problem,
        tuned_at: &str,
        identities: &ById<Solution>,
        places: &Places,
    ) -> Result<Choice, Fault> {
        let identity = identities.get(i64::from(self.solution)).ok_or_else(|| dangling(at, "solution"))?;
        let (_, device) = places.get(i64::from(self.environment)).ok_or_else(|| dangling(at, "environment"))?;
        let word = || Fault::Damaged(format!("choice {at} has a word that nobody knows"));
        let [estimate, low, high] = self.ratio;
        Ok(Choice {
            problem,
            device: Arc::clone(device),
            solution: Solution {
                workspace_bytes: self.workspace_bytes,
                numerics: *Numerics::ALL.get(usize::from(self.numerics)).ok_or_else(word)?,
                deterministic: is_known(self.deterministic),
                graph_safe: is_known(self.graph_safe),
                ..identity.clone()
            },
            time_us: self.time_us,
            ratio: Ratio { estimate, low, high },
            verdict: *Verdict::ALL.get(usize::from(self.verdict)).ok_or_else(word)?,
            baselines: Vec::new(),
            error_over_bound: self.error_over_bound,
            err_ratio: self.err_ratio,
            pack_us: (!self.pack_us.is_nan()).then_some(self.pack_us),
            count: self.count,
            tuned_at: tuned_at.to_owned(),
            origin: None,
        })
    }
}
