//! Text to expression: tokens, then one function a level of precedence.

use super::{DEPTH_MAX, EXPR_BYTES_MAX, Expr, FIELDS, Field, FilterError, Op, Reason, Value, shorten};

/// Reads a whole expression.
pub(super) fn expression(text: &str) -> Result<Expr, FilterError> {
    if text.len() > EXPR_BYTES_MAX {
        return Err(FilterError::new(text, 0, Reason::TooLong { bytes: text.len() }));
    }
    let mut parser = Parser { text, at: 0, token: Token::End, next: 0 };
    parser.advance()?;
    let expr = parser.any(0)?;
    match parser.token {
        Token::End => Ok(expr),
        _ => Err(parser.expected("'and', 'or' or the end")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A name, keyword or bare value.
    Word(&'a str),
    /// A value between quotation marks.
    Quoted(&'a str),
    /// Digits, perhaps with `_` between them.
    Number(&'a str),
    Compare(Op),
    And,
    Or,
    Not,
    In,
    Open,
    Close,
    Comma,
    End,
}

struct Parser<'a> {
    text: &'a str,
    /// Where `token` begins.
    at: usize,
    /// The token looked at.
    token: Token<'a>,
    /// Where the next one may begin.
    next: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, reason: Reason) -> FilterError {
        FilterError::new(self.text, self.at, reason)
    }

    fn expected(&self, expected: impl Into<String>) -> FilterError {
        let found = match self.token {
            Token::End => "the end".into(),
            _ => format!("'{}'", shorten(&self.text[self.at..self.next])),
        };
        self.error(Reason::Expected { expected: expected.into(), found })
    }

    /// Goes on to the next token.
    fn advance(&mut self) -> Result<(), FilterError> {
        let rest = &self.text[self.next..];
        let trimmed = rest.trim_start();
        self.at = self.next + (rest.len() - trimmed.len());
        let (token, len) = self.lex(trimmed)?;
        self.token = token;
        self.next = self.at + len;
        Ok(())
    }

    /// The token that `rest` begins with, and its length in bytes.
    fn lex(&self, rest: &'a str) -> Result<(Token<'a>, usize), FilterError> {
        const SYMBOLS: &[(&str, Token<'static>)] = &[
            ("==", Token::Compare(Op::Eq)),
            ("!=", Token::Compare(Op::Ne)),
            ("<=", Token::Compare(Op::Le)),
            (">=", Token::Compare(Op::Ge)),
            ("&&", Token::And),
            ("||", Token::Or),
            ("=", Token::Compare(Op::Eq)),
            ("<", Token::Compare(Op::Lt)),
            (">", Token::Compare(Op::Gt)),
            ("!", Token::Not),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
        ];
        let Some(first) = rest.chars().next() else { return Ok((Token::End, 0)) };
        if let Some((symbol, token)) = SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol)) {
            return Ok((*token, symbol.len()));
        }
        if first == '\'' || first == '"' {
            let Some(len) = rest[1..].find(first) else { return Err(self.error(Reason::Unclosed)) };
            return Ok((Token::Quoted(&rest[1..1 + len]), len + 2));
        }
        if !first.is_ascii_alphanumeric() && first != '_' {
            return Err(self.error(Reason::Character(first)));
        }
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len());
        let word = &rest[..len];
        let token = match word.to_ascii_lowercase().as_str() {
            "and" => Token::And,
            "or" => Token::Or,
            "not" => Token::Not,
            "in" => Token::In,
            _ if first.is_ascii_digit() => Token::Number(word),
            _ => Token::Word(word),
        };
        Ok((token, len))
    }

    fn any(&mut self, depth: usize) -> Result<Expr, FilterError> {
        let mut parts = vec![self.all(depth)?];
        while self.token == Token::Or {
            self.advance()?;
            parts.push(self.all(depth)?);
        }
        Ok(single_or(parts, Expr::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Expr, FilterError> {
        let mut parts = vec![self.unary(depth)?];
        while self.token == Token::And {
            self.advance()?;
            parts.push(self.unary(depth)?);
        }
        Ok(single_or(parts, Expr::All))
    }

    fn unary(&mut self, depth: usize) -> Result<Expr, FilterError> {
        if depth > DEPTH_MAX {
            return Err(self.error(Reason::TooDeep));
        }
        match self.token {
            Token::Not => {
                self.advance()?;
                Ok(Expr::Not(Box::new(self.unary(depth + 1)?)))
            }
            Token::Open => {
                self.advance()?;
                let inner = self.any(depth + 1)?;
                self.take(Token::Close, "')'")?;
                Ok(inner)
            }
            Token::Word(name) => self.comparison(name),
            _ => Err(self.expected("a field, 'not' or '('")),
        }
    }

    /// `field op value`, `field [not] in (values)`, or a switch alone.
    fn comparison(&mut self, name: &str) -> Result<Expr, FilterError> {
        let Some(field) = Field::named(name) else {
            let known: Vec<_> = FIELDS.iter().map(|row| row.0).collect();
            return Err(self.error(Reason::UnknownField { name: shorten(name), known: known.join(", ") }));
        };
        self.advance()?;
        match self.token {
            Token::Compare(op) => {
                if op.needs_order() && !field.is_number() {
                    return Err(self.error(Reason::NoOrder { field: field.name() }));
                }
                self.advance()?;
                Ok(Expr::Compare { field, op, with: self.value(field)? })
            }
            Token::In => self.list(field),
            Token::Not => {
                self.advance()?;
                match self.token {
                    Token::In => Ok(Expr::Not(Box::new(self.list(field)?))),
                    _ => Err(self.expected("'in'")),
                }
            }
            _ if field.is_switch() => Ok(Expr::Compare { field, op: Op::Eq, with: Value::Switch(true) }),
            _ => Err(self.expected(format!("a comparison with '{}'", field.name()))),
        }
    }

    /// The rest of an `in`, which is the token looked at.
    fn list(&mut self, field: Field) -> Result<Expr, FilterError> {
        self.advance()?;
        self.take(Token::Open, "'('")?;
        let mut values = vec![self.value(field)?];
        while self.token == Token::Comma {
            self.advance()?;
            values.push(self.value(field)?);
        }
        self.take(Token::Close, "',' or ')'")?;
        Ok(Expr::In { field, values })
    }

    fn value(&mut self, field: Field) -> Result<Value, FilterError> {
        let wrong = |value: &str, why: String| Reason::Value { field: field.name(), value: shorten(value), why };
        let value = match self.token {
            Token::Number(digits) if field.is_number() => {
                let number = digits.replace('_', "").parse();
                Value::Number(number.map_err(|_| self.error(Reason::Number(shorten(digits))))?)
            }
            Token::Number(text) | Token::Word(text) | Token::Quoted(text) => {
                field.word(text).map_err(|why| self.error(wrong(text, why)))?
            }
            _ => return Err(self.expected(format!("a value for '{}'", field.name()))),
        };
        self.advance()?;
        Ok(value)
    }

    fn take(&mut self, token: Token<'_>, name: &str) -> Result<(), FilterError> {
        if self.token != token {
            return Err(self.expected(name));
        }
        self.advance()
    }
}

fn single_or(mut parts: Vec<Expr>, many: fn(Vec<Expr>) -> Expr) -> Expr {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            many(parts)
        }
    }
}
