//! A product as the BLAS calls describe it: D = scale_d · act(alpha · scale_a · scale_b · op(A) op(B) + beta · C + bias),
//! column-major.

use crate::abi::read_at;
use crate::element::Element;

/// One operand: `batch` matrices of `rows` × `cols` as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    pub address: usize,
    pub element: Element,
    pub rows: usize,
    pub cols: usize,
    /// Elements from one column to the next.
    pub ld: usize,
    /// Elements from one matrix of a batch to the next.
    pub stride: usize,
}

impl Matrix {
    /// Elements from the first to behind the last of all matrices.
    pub fn span(&self, batch: usize) -> usize {
        if self.rows == 0 || self.cols == 0 || batch == 0 {
            return 0;
        }
        (batch - 1) * self.stride + (self.cols - 1) * self.ld + self.rows
    }

    /// As above, bytes.
    pub fn span_bytes(&self, batch: usize) -> usize {
        self.span(batch) * self.element.bytes()
    }
}

/// alpha or beta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Factor {
    /// Bits of an f64.
    Value(u64),
    /// To be read from memory when the launch runs.
    At(usize, Element),
}

impl Factor {
    pub fn of(value: f64) -> Factor {
        Factor::Value(value.to_bits())
    }

    /// Its value now.
    pub fn value(self) -> f64 {
        match self {
            Factor::Value(bits) => f64::from_bits(bits),
            Factor::At(address, Element::F64) => read_at::<f64>(address).unwrap_or(0.0),
            Factor::At(address, _) => read_at::<f32>(address).unwrap_or(0.0).into(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    None,
    Relu,
    Gelu,
    Swish,
    Sigmoid,
}

/// The scales of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scale {
    None,
    /// One f32.
    Tensor(usize),
    /// An f32 for each row of op(A), or each column of op(B).
    Outer(usize),
}

/// A product.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    pub trans_a: bool,
    pub trans_b: bool,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub batch: usize,
    pub a: Matrix,
    pub b: Matrix,
    pub c: Matrix,
    pub d: Matrix,
    pub alpha: Factor,
    pub beta: Factor,
    pub activation: Activation,
    /// m elements.
    pub bias: Option<(usize, Element)>,
    pub scale_a: Scale,
    pub scale_b: Scale,
    /// Address of an f32.
    pub scale_d: Option<usize>,
}

impl Gemm {
    /// `TN` and the like.
    pub fn trans(&self) -> &'static str {
        match (self.trans_a, self.trans_b) {
            (false, false) => "NN",
            (true, false) => "TN",
            (false, true) => "NT",
            (true, true) => "TT",
        }
    }

    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64 * self.batch as f64
    }

    /// Do the sizes and leading dimensions agree, as the libraries demand?
    pub fn is_consistent(&self) -> bool {
        let stored = |trans: bool, rows: usize, cols: usize| if trans { (cols, rows) } else { (rows, cols) };
        let fits = |matrix: &Matrix, shape: (usize, usize)| {
            (matrix.rows, matrix.cols) == shape && matrix.ld >= matrix.rows.max(1)
        };
        fits(&self.a, stored(self.trans_a, self.m, self.k))
            && fits(&self.b, stored(self.trans_b, self.k, self.n))
            && fits(&self.c, (self.m, self.n))
            && fits(&self.d, (self.m, self.n))
            && self.batch > 0
    }

    /// Can the libraries compute with these types on `arch` at all?
    pub fn is_typed_for(&self, arch: &str) -> bool {
        let (a, b, c, d) = (self.a.element, self.b.element, self.c.element, self.d.element);
        // gfx942 has FNUZ arithmetic, gfx950 and gfx12 OCP; older parts have neither.
        let has_fnuz = arch.starts_with("gfx94");
        let has_ocp = arch.starts_with("gfx950") || arch.starts_with("gfx12");
        if a.is_fp8() {
            let known = |element: Element| element.is_fp8() && if element.is_fnuz() { has_fnuz } else { has_ocp };
            let output = |element: Element| element != Element::F64 && (!element.is_fp8() || known(element));
            return known(a) && known(b) && output(c) && output(d);
        }
        let narrow = matches!(a, Element::F16 | Element::Bf16);
        a == b && c == d && (c == a || (narrow && c == Element::F32))
    }
}
