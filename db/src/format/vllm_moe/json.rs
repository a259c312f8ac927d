//! Just enough JSON: the members of one object in file order, each with its place in the text.
//!
//! A JSON library would give values without their spelling and, by default, without their order; a configuration is
//! written back as it was read, so both are kept.

/// How deep values may nest: a configuration has two levels.
const DEPTH_MAX: usize = 16;

/// One `"key": value` of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member<'t> {
    /// The key as spelled, without its quotes.
    pub(super) key: &'t str,
    /// The value as spelled.
    pub(super) value: &'t str,
    /// Where the key's opening quote stands.
    pub(super) start: usize,
    /// Where the value ends.
    pub(super) end: usize,
}

/// Why a text is no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The byte at which it is found out.
    pub(super) at: usize,
    pub(super) why: String,
}

/// The members of the one object that `text` holds, at most `members_max`.
pub(super) fn members(text: &str, members_max: usize) -> Result<Vec<Member<'_>>, Fault> {
    let mut scanner = Scanner { text, at: 0 };
    let mut members = Vec::new();
    scanner.blanks();
    scanner.demand(b'{')?;
    scanner.blanks();
    if scanner.peek() == Some(b'}') {
        scanner.at += 1;
    } else {
        loop {
            if members.len() == members_max {
                return Err(scanner.fault(format!("more than {members_max} members")));
            }
            members.push(scanner.member(1)?);
            scanner.blanks();
            match scanner.peek() {
                Some(b',') => scanner.at += 1,
                _ => break scanner.demand(b'}')?,
            }
            scanner.blanks();
        }
    }
    scanner.blanks();
    if scanner.at == text.len() { Ok(members) } else { Err(scanner.fault("text follows the object")) }
}

/// A word without its quotes; anything else as it is.
pub(super) fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scanner<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn fault(&self, why: impl Into<String>) -> Fault {
        Fault { at: self.at, why: why.into() }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn demand(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        let found = self.text[self.at..].chars().next();
        let found = found.map_or("the end of the text".to_owned(), |c| format!("'{}'", c.escape_debug()));
        Err(self.fault(format!("'{}' is expected, not {found}", char::from(byte))))
    }

    /// A member, blanks before it behind us.
    fn member(&mut self, depth: usize) -> Result<Member<'t>, Fault> {
        let start = self.at;
        self.string()?;
        let key = &self.text[start + 1..self.at - 1];
        self.blanks();
        self.demand(b':')?;
        self.blanks();
        let value_start = self.at;
        self.value(depth)?;
        Ok(Member { key, value: &self.text[value_start..self.at], start, end: self.at })
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.demand(b'"')?;
        loop {
            match self.peek() {
                Some(b'"') => break,
                // What is escaped is one ASCII letter, or stands in the text as it is.
                Some(b'\\') => self.at += 2,
                Some(byte) if byte >= b' ' => self.at += 1,
                _ => return Err(self.fault("a string does not end on its line")),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(self.fault(format!("values nest deeper than {DEPTH_MAX}")));
        }
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.sequence(b'}', |scanner| scanner.member(depth + 1).map(|_| ())),
            Some(b'[') => self.sequence(b']', |scanner| scanner.value(depth + 1)),
            _ => self.word(),
        }
    }

    /// An object or array, from its opening bracket on.
    fn sequence(
        &mut self,
        close: u8,
        mut element: impl FnMut(&mut Scanner<'t>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.at += 1;
        self.blanks();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            element(self)?;
            self.blanks();
            if self.peek() != Some(b',') {
                return self.demand(close);
            }
            self.at += 1;
            self.blanks();
        }
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<(), Fault> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len());
        let word = &rest[..end];
        let starts_number = word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
        let is_number = starts_number && word.parse::<f64>().is_ok_and(f64::is_finite);
        if !is_number && !matches!(word, "true" | "false" | "null") {
            return Err(self.fault("a value is expected"));
        }
        self.at += end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_keep_order_spelling_and_place() {
        let text = " {\"b\" : 1,\n \"a\\\"\": {\"x\": [1, {}]}, \"c\": \"t\"} ";
        let all = members(text, 9).unwrap();
        let told: Vec<_> = all.iter().map(|member| (member.key, member.value)).collect();
        assert_eq!(told, [("b", "1"), ("a\\\"", "{\"x\": [1, {}]}"), ("c", "\"t\"")]);
        assert_eq!(&text[all[0].start..all[0].end], "\"b\" : 1");
        assert_eq!(members("{}", 0), Ok(vec![]));
    }

    #[test]
    fn what_is_no_object_is_told_with_its_place() {
        let cases = [
            ("", 0, "'{' is expected, not the end of the text"),
            ("[]", 0, "'{' is expected, not '['"),
            ("{\"a\" 1}", 5, "':' is expected, not '1'"),
            ("{\"a\": }", 6, "a value is expected"),
            ("{\"a\": NaN}", 6, "a value is expected"),
            ("{\"a\": --1}", 6, "a value is expected"),
            ("{\"a\": 1,}", 8, "'\"' is expected, not '}'"),
            ("{\"a", 3, "a string does not end on its line"),
            ("{\"a\\", 5, "a string does not end on its line"),
            ("{} x", 3, "text follows the object"),
            ("{\"a\":1,\"b\":1,\"c\":1}", 13, "more than 2 members"),
        ];
        for (text, at, why) in cases {
            assert_eq!(members(text, 2), Err(Fault { at, why: why.into() }), "{text}");
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(999), "]".repeat(999));
        assert_eq!(members(&deep, 1).unwrap_err().why, "values nest deeper than 16");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[{}\\[\\]\",:\\\\ 0-9a-f\u{e9}\n-]{0,40}") {
            for member in members(&text, 9).unwrap_or_default() {
                prop_assert!(text[member.start..member.end].ends_with(member.value));
            }
        }
    }
}
