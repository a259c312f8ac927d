//! Names that are shared, not copied: a table has thousands of rows and a handful of kernels.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A text that many hold: to clone it costs a count, not an allocation. It compares, sorts, hashes and shows as the text.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Name(Arc<str>);

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        // The empty text is one for all.
        if text.is_empty() { Name::default() } else { Name(text.into()) }
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name::from(text.as_str())
    }
}

impl From<&String> for Name {
    fn from(text: &String) -> Name {
        Name::from(text.as_str())
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, text: &str) -> bool {
        &**self == text
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, text: &&str) -> bool {
        &**self == *text
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, text: &String) -> bool {
        **self == **text
    }
}

impl PartialEq<Name> for String {
    fn eq(&self, name: &Name) -> bool {
        **self == **name
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashMap};

    #[test]
    fn a_name_is_its_text() {
        let name = Name::from("Cijk");
        let again = name.clone();
        assert!(std::ptr::eq(name.as_ref(), again.as_ref()), "a clone shares");
        assert_eq!((&*name, name.to_string(), format!("{name:?}")), ("Cijk", "Cijk".into(), "\"Cijk\"".into()));
        assert_eq!(format!("{name:>6}|"), "  Cijk|");
        assert_eq!(HashMap::from([(name, 1)]).get("Cijk"), Some(&1));
        let order: BTreeSet<Name> = ["b", "", "a"].map(Name::from).into();
        assert_eq!(order.iter().map(Name::as_ref).collect::<Vec<_>>(), ["", "a", "b"]);
    }
}
