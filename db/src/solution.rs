//! Solutions: one way to solve a problem, named so exactly that it can be found again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::device::Build;
use crate::dtype::word_enum;
use crate::name::Name;

word_enum! {
    /// In which form a solution takes the weights.
    pub enum WeightForm("weight form") {
        /// As the problem says: row-major.
        Plain = "plain",
        /// Shuffled for the matrix cores by the engine (AITER's `bpreshuffle`).
        Preshuffled = "preshuffled",
        /// Packed once by the solution itself, before the first launch.
        Prepacked = "prepacked",
    }
}

word_enum! {
    /// How faithful a solution's arithmetic is, best first; a constraint admits its own class and the better ones.
    pub enum Numerics("numerics class") {
        /// Sums in the problem's compute type throughout.
        Exact = "exact",
        /// Sums in fewer bits than asked for, partial sums in at least 32 bits.
        ReducedAccumulation = "reduced_accumulation",
        /// Partial sums leave the accumulator in 16 bits (split-K through the output type).
        Partial16 = "partial16",
    }
}

/// Parameters of a solution by name, sorted: `split_k=4;threads=2`. A clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Params(Arc<Vec<(String, String)>>);

impl Params {
    /// No parameters.
    pub fn new() -> Params {
        Params::default()
    }

    /// These parameters and one more; a name that stands already is replaced.
    ///
    /// Separators of the text form (`;`, `=`) and control characters in either part become `_`.
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Params {
        let clean = |text: String| text.replace(|c: char| c == ';' || c == '=' || c.is_control(), "_");
        let (name, value) = (clean(name.to_owned()), clean(value.to_string()));
        let pairs = Arc::make_mut(&mut self.0);
        match pairs.binary_search_by(|(have, _)| have.as_str().cmp(&name)) {
            Ok(at) => pairs[at].1 = value,
            Err(at) => pairs.insert(at, (name, value)),
        }
        self
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// The value of `name`, read as `T`.
    pub fn parse<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// Where they lie: what lies in one place is the same, as long as it is kept.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// All pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { "" } else { ";" })?;
        }
        Ok(())
    }
}

/// A parameter text that is not `name=value;…`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not name=value")]
pub struct NotAParameter(pub String);

impl FromStr for Params {
    type Err = NotAParameter;
    fn from_str(text: &str) -> Result<Params, NotAParameter> {
        let mut params = Params::new();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| NotAParameter(part.into()))?;
            params = params.with(name, value);
        }
        Ok(params)
    }
}

/// One way to solve a problem.
///
/// The key is build, index, name and parameters together; [`Solution::key`] writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Solution {
    /// The library and its exact build; solutions of one build share it.
    pub build: Arc<Build>,
    /// The library's own number for it: signed (rocBLAS has negative ones), meaningless without the build.
    pub index: i64,
    /// The library's own name for it: a checksum of the index.
    pub name: Name,
    /// What else selects it: threads, split-K, configuration attributes.
    pub params: Params,
    /// How it takes the weights.
    pub weight_form: WeightForm,
    /// Scratch memory that each launch needs.
    pub workspace_bytes: u64,
    /// How faithful its arithmetic is.
    pub numerics: Numerics,
    /// Does it give the same bits every time? `None`: not known.
    pub deterministic: Option<bool>,
    /// May it be captured into a graph and replayed? `None`: not known.
    pub graph_safe: Option<bool>,
}

impl Solution {
    /// A library's solution of which no more is known than its number and name: it takes the weights as they are, needs no
    /// memory and trades nothing away.
    pub fn bare(build: impl Into<Arc<Build>>, index: i64, name: impl Into<Name>) -> Solution {
        Solution {
            build: build.into(),
            index,
            name: name.into(),
            params: Params::new(),
            weight_form: WeightForm::Plain,
            workspace_bytes: 0,
            numerics: Numerics::Exact,
            deterministic: None,
            graph_safe: None,
        }
    }

    /// Who computes.
    pub fn library(&self) -> &str {
        &self.build.library
    }

    /// Is it the same one, whatever problem each was made for? A library's opaque bytes hold something of the problem, so they
    /// are left out.
    pub fn is_same_as(&self, other: &Solution) -> bool {
        fn named(params: &Params) -> impl Iterator<Item = (&str, &str)> {
            params.iter().filter(|(name, _)| *name != ALGO_PARAM)
        }
        self.index == other.index
            && self.weight_form == other.weight_form
            && self.name == other.name
            && (Arc::ptr_eq(&self.params.0, &other.params.0) || named(&self.params).eq(named(&other.params)))
            && (Arc::ptr_eq(&self.build, &other.build) || self.build == other.build)
    }

    /// Build, index, name and parameters as one text: what must be equal for two solutions to be the same.
    pub fn key(&self) -> String {
        format!(
            "{}|{}|{}|{}|{}|{}|{}",
            self.build.library,
            self.build.version,
            self.build.revision,
            self.index,
            self.name,
            self.params,
            self.weight_form
        )
    }
}

/// The parameter that holds a library's own opaque bytes of an algorithm, in hexadecimal (hipBLASLt).
pub const ALGO_PARAM: &str = "algo";

/// A short form for people: `onednn brg:avx512_core_bf16 prepacked threads=2`.
impl fmt::Display for Solution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.library())?;
        if !self.name.is_empty() && self.name != self.library() {
            write!(f, " {}", self.name)?;
        } else if self.name.is_empty() && self.index != 0 {
            write!(f, " #{}", self.index)?;
        }
        if self.weight_form != WeightForm::Plain {
            write!(f, " {}", self.weight_form)?;
        }
        // An opaque value names nothing to a person.
        for (name, value) in self.params.iter().filter(|(name, _)| *name != ALGO_PARAM) {
            write!(f, " {name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_sort_replace_and_round_trip() {
        let params = Params::new().with("threads", 2).with("split_k", 4).with("threads", 1);
        assert_eq!(params.to_string(), "split_k=4;threads=1");
        assert_eq!("threads=1;split_k=4;".parse::<Params>(), Ok(params.clone()));
        assert_eq!(params.parse::<u32>("threads"), Some(1));
        assert_eq!("x".parse::<Params>(), Err(NotAParameter("x".into())));
        let dirty = Params::new().with("a;b", "c=d\n");
        assert_eq!(dirty.to_string().parse::<Params>(), Ok(dirty));
    }

    #[test]
    fn a_solution_is_the_same_for_other_problems_but_not_in_other_words() {
        let of = |params: Params| Solution { params, ..Solution::bare(Build::unknown("hipblaslt"), 7, "tile_64") };
        let one = of(Params::new().with("split_k", 2).with(ALGO_PARAM, "00ff"));
        let same = Solution { workspace_bytes: 64, ..of(Params::new().with("split_k", 2).with(ALGO_PARAM, "aa")) };
        assert!(one.is_same_as(&same) && same.is_same_as(&one) && one.is_same_as(&one.clone()));
        let others = [
            Solution { index: 8, ..one.clone() },
            Solution { name: "tile_128".into(), ..one.clone() },
            Solution { weight_form: WeightForm::Prepacked, ..one.clone() },
            Solution { build: Build { version: "2".into(), ..Build::unknown("hipblaslt") }.into(), ..one.clone() },
            of(Params::new().with("split_k", 4)),
            of(Params::new()),
        ];
        for other in others {
            assert!(!one.is_same_as(&other) && !other.is_same_as(&one), "{}", other.key());
        }
    }
}
