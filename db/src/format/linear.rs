//! AITER's key columns `M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle`: how much of a problem they can say.

use super::cells::{Cells, LineWriter};
use super::column::flag_text;
use super::sheet::{Column, Header, Reason};
use crate::dtype::DType;
use crate::moe::{Moe, MoeQuant};
use crate::problem::{Problem, ScaleMode, Site};

/// The cells of the key columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Linear {
    m: u32,
    n: u32,
    k: u32,
    bias: bool,
    dtype: DType,
    outdtype: DType,
    scale_ab: bool,
    bpreshuffle: bool,
}

impl Linear {
    /// What the key columns show of `problem`; more than one problem may show the same.
    pub(crate) fn of(problem: &Problem) -> Linear {
        let gemm = match problem {
            Problem::Gemm(gemm) => gemm,
            Problem::Moe(moe) => return Linear::of_moe(moe),
        };
        let site = &gemm.site;
        Linear {
            m: gemm.m,
            n: site.n,
            k: site.k,
            bias: site.bias.is_some(),
            dtype: site.x,
            outdtype: site.out,
            scale_ab: site.scale != ScaleMode::None,
            bpreshuffle: site.preshuffled,
        }
    }

    /// M, N, K.
    pub(crate) fn extents(&self) -> [u32; 3] {
        [self.m, self.n, self.k]
    }

    /// Is the product scaled back (`scaleAB`)?
    pub(crate) fn is_scaled(&self) -> bool {
        self.scale_ab
    }

    /// A fused MoE layer in columns made for GEMMs: its inner features as N, the model's as K. The `problem` column beside
    /// them says the rest.
    fn of_moe(moe: &Moe) -> Linear {
        let site = &moe.site;
        let x = site.x.unwrap_or(DType::Bf16);
        Linear {
            m: moe.m,
            n: site.inter_dim,
            k: site.model_dim.max(1),
            bias: false,
            dtype: x,
            outdtype: x,
            scale_ab: site.quant != MoeQuant::None,
            bpreshuffle: false,
        }
    }

    /// The problem that AITER means by these columns: a packed linear layer of one input type, `scaleAB` being one
    /// factor for `x` and one for `w`.
    ///
    /// The bias has the input's type, as in torch's `F.linear`; beside inputs of 8 bits or fewer, the output's.
    pub(crate) fn problem(&self) -> Problem {
        let bias_dtype = if self.dtype.bits() <= 8 { self.outdtype } else { self.dtype };
        let site = Site {
            out: self.outdtype,
            bias: self.bias.then_some(bias_dtype),
            scale: if self.scale_ab { ScaleMode::Tensor } else { ScaleMode::None },
            preshuffled: self.bpreshuffle,
            ..Site::linear(self.n, self.k, self.dtype)
        };
        site.at(self.m).into()
    }

    /// Writes the eight cells in AITER's order.
    pub(crate) fn write(&self, line: &mut LineWriter<'_>) {
        line.cell(self.m).cell(self.n).cell(self.k).cell(flag_text(self.bias));
        line.cell(self.dtype.torch_name()).cell(self.outdtype.torch_name());
        line.cell(flag_text(self.scale_ab)).cell(flag_text(self.bpreshuffle));
    }
}

/// Where the key columns stand; files of before 2025 lack the later ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearColumns {
    m: Column,
    n: Column,
    k: Column,
    bias: Column,
    dtype: Column,
    outdtype: Option<Column>,
    scale_ab: Option<Column>,
    bpreshuffle: Option<Column>,
}

impl LinearColumns {
    pub(crate) fn of(header: &Header<'_>) -> LinearColumns {
        LinearColumns {
            m: header.get("M"),
            n: header.get("N"),
            k: header.get("K"),
            bias: header.get("bias"),
            dtype: header.get("dtype"),
            outdtype: header.find("outdtype"),
            scale_ab: header.find("scaleAB"),
            bpreshuffle: header.find("bpreshuffle"),
        }
    }

    /// Reads the cells; a column that the file lacks means what it meant before it was added: output of the input's
    /// type, not scaled, not shuffled.
    pub(crate) fn read(&self, row: &Cells) -> Result<Linear, Reason> {
        let dtype = self.dtype.torch_dtype(row)?;
        let flag = |column: Option<Column>| column.map_or(Ok(false), |column| column.flag(row));
        Ok(Linear {
            m: self.m.extent(row)?,
            n: self.n.extent(row)?,
            k: self.k.extent(row)?,
            bias: self.bias.flag(row)?,
            dtype,
            outdtype: self.outdtype.map_or(Ok(dtype), |column| column.torch_dtype(row))?,
            scale_ab: flag(self.scale_ab)?,
            bpreshuffle: flag(self.bpreshuffle)?,
        })
    }

    /// Reads `problem`, a canonical key, and checks that the columns beside it say the same.
    pub(crate) fn read_beside(&self, problem: Column, row: &Cells) -> Result<Problem, Reason> {
        let key: Problem = problem.parsed(row)?;
        let (shown, want) = (self.read(row)?, Linear::of(&key));
        if shown == want {
            return Ok(key);
        }
        Err(format!("columns disagree with problem '{key}': {}", shown.difference(&want)))
    }
}

impl Linear {
    /// The first column in which the row and its problem differ.
    fn difference(&self, problem: &Linear) -> String {
        let pairs: [(&str, String, String); 8] = [
            ("M", self.m.to_string(), problem.m.to_string()),
            ("N", self.n.to_string(), problem.n.to_string()),
            ("K", self.k.to_string(), problem.k.to_string()),
            ("bias", self.bias.to_string(), problem.bias.to_string()),
            ("dtype", self.dtype.torch_name(), problem.dtype.torch_name()),
            ("outdtype", self.outdtype.torch_name(), problem.outdtype.torch_name()),
            ("scaleAB", self.scale_ab.to_string(), problem.scale_ab.to_string()),
            ("bpreshuffle", self.bpreshuffle.to_string(), problem.bpreshuffle.to_string()),
        ];
        let differing = pairs.into_iter().find(|(_, row, key)| row != key);
        differing.map_or_else(String::new, |(name, row, key)| format!("{name} is {row}, the problem says {key}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Trans;

    #[test]
    fn aiters_layers_survive_their_columns_and_others_do_not() {
        let plain = Site::linear(256, 5120, DType::Bf16);
        let fp8 = Site { scale: ScaleMode::Tensor, ..Site::linear(64, 64, DType::F8E4m3Fnuz) }.with_out(DType::Bf16);
        let sites = [
            plain,
            plain.with_out(DType::F32),
            plain.with_bias(DType::Bf16).with_out(DType::F32),
            Site { preshuffled: true, ..plain },
            fp8.with_bias(DType::Bf16),
        ];
        for site in sites {
            let problem = site.at(7).into();
            assert_eq!(Linear::of(&problem).problem(), problem);
        }
        let other: Problem = Site { trans: Trans::W, ..plain }.at(7).into();
        assert_ne!(Linear::of(&other).problem(), other);
    }
}
