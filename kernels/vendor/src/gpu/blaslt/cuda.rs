//! cuBLASLt's algorithms by their nine configuration attributes: what names one across processes and, for the same
//! version, across machines. The opaque bytes are never stored.

use super::product::Product;
use super::{Algo, BlasLt, CallError};
use crate::gpu::numbers;

/// `cublasLtMatmulAlgoConfigAttributes_t`.
const ID: i32 = 0;
const TILE: i32 = 1;
const SPLIT_K: i32 = 2;
const REDUCTION: i32 = 3;
const SWIZZLE: i32 = 4;
const CUSTOM: i32 = 5;
const STAGES: i32 = 6;
const INNER: i32 = 7;
const CLUSTER: i32 = 8;

/// `cublasLtMatmulAlgoCapAttributes_t`.
const CAP_TILES: i32 = 6;
const CAP_CUSTOM_MAX: i32 = 7;
const CAP_STAGES: i32 = 13;

/// One configuration of one algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Config {
    /// Family of kernels.
    pub id: i32,
    /// `cublasLtMatmulTile_t`.
    pub tile: u32,
    /// `cublasLtMatmulStages_t`.
    pub stages: u32,
    /// In how many parts K is summed.
    pub split_k: i32,
    /// How the parts are added: 0 none, 1 in place, 2 in the compute type, 4 in the output's type.
    pub reduction: u32,
    /// Order of blocks.
    pub swizzle: u32,
    /// The family's own variants.
    pub custom: u32,
    /// `cublasLtMatmulInnerShape_t`.
    pub inner: u16,
    /// `cublasLtClusterShape_t`.
    pub cluster: u16,
}

/// What a family of kernels can be configured to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Its tiles.
    pub tiles: Vec<u32>,
    /// Its stages.
    pub stages: Vec<u32>,
    /// Its variants are 0 to this.
    pub custom_max: u32,
}

impl BlasLt {
    /// The configuration in `algo`. Attributes that this version does not know are 0.
    pub fn config(&self, algo: &Algo) -> Result<Config, CallError> {
        Ok(Config {
            id: self.read(algo, ID)?,
            tile: self.read(algo, TILE)?,
            stages: self.read(algo, STAGES)?,
            split_k: self.read(algo, SPLIT_K)?,
            reduction: self.read(algo, REDUCTION)?,
            swizzle: self.read(algo, SWIZZLE)?,
            custom: self.read(algo, CUSTOM)?,
            inner: self.read(algo, INNER).unwrap_or(0),
            cluster: self.read(algo, CLUSTER).unwrap_or(0),
        })
    }

    fn read<T: Copy + Default>(&self, algo: &Algo, attribute: i32) -> Result<T, CallError> {
        let (mut value, mut written) = (T::default(), 0usize);
        // SAFETY: `value` has the attribute's type, and its size is told.
        unsafe {
            self.table.algo_get(algo.as_ptr(), attribute, (&raw mut value).cast(), size_of::<T>(), &raw mut written)
        }?;
        Ok(value)
    }

    fn write<T>(&self, algo: &mut Algo, attribute: i32, value: &T) -> Result<(), CallError> {
        // SAFETY: `value` has the attribute's type, and its size is told.
        unsafe { self.table.algo_set(algo.as_mut_ptr(), attribute, (&raw const *value).cast(), size_of::<T>()) }
    }

    /// The algorithm of `config` for `product`, not yet checked.
    pub fn configure(&self, product: &Product, config: &Config) -> Result<Algo, CallError> {
        let mut algo = self.init(product, config.id)?;
        self.write(&mut algo, TILE, &config.tile)?;
        self.write(&mut algo, STAGES, &config.stages)?;
        self.write(&mut algo, SPLIT_K, &config.split_k)?;
        self.write(&mut algo, REDUCTION, &config.reduction)?;
        self.write(&mut algo, SWIZZLE, &config.swizzle)?;
        self.write(&mut algo, CUSTOM, &config.custom)?;
        // Since 11.8; what an older version gave as 0 need not be set.
        if config.inner != 0 {
            self.write(&mut algo, INNER, &config.inner)?;
        }
        if config.cluster != 0 {
            self.write(&mut algo, CLUSTER, &config.cluster)?;
        }
        Ok(algo)
    }

    fn init(&self, product: &Product, id: i32) -> Result<Algo, CallError> {
        let call = product.call();
        let dialect = self.dialect;
        let unknown = CallError::Missing("a word for these types");
        let data_type = |dtype| numbers::data_type(dialect, dtype).ok_or(unknown.clone());
        let (compute, scale) = numbers::compute_type(dialect, call.compute).ok_or(unknown.clone())?;
        let mut algo = Algo::ZERO;
        let (a, b, c) = (data_type(call.a)?, data_type(call.b)?, data_type(call.c)?);
        // SAFETY: the algorithm has its 64 bytes.
        unsafe { self.table.algo_init(self.handle, compute, scale, a, b, c, c, id, algo.as_mut_ptr()) }?;
        Ok(algo)
    }

    /// What family `id` can be configured to for `product`.
    pub fn capabilities(&self, product: &Product, id: i32) -> Result<Capabilities, CallError> {
        let algo = self.init(product, id)?;
        let mut custom_max = 0i32;
        let mut written = 0usize;
        // SAFETY: one 32-bit integer is written.
        unsafe {
            self.table.algo_cap(algo.as_ptr(), CAP_CUSTOM_MAX, (&raw mut custom_max).cast(), 4, &raw mut written)
        }?;
        Ok(Capabilities {
            tiles: self.list(&algo, CAP_TILES)?,
            stages: self.list(&algo, CAP_STAGES)?,
            custom_max: u32::try_from(custom_max).unwrap_or(0),
        })
    }

    fn list(&self, algo: &Algo, attribute: i32) -> Result<Vec<u32>, CallError> {
        /// Far more than the enumerations have.
        const ENTRIES_MAX: usize = 4096;
        let mut bytes = 0usize;
        // SAFETY: with no room given, the size that would be needed is written.
        unsafe { self.table.algo_cap(algo.as_ptr(), attribute, std::ptr::null_mut(), 0, &raw mut bytes) }?;
        let mut entries = vec![0u32; (bytes / 4).min(ENTRIES_MAX)];
        if !entries.is_empty() {
            // SAFETY: the list has room for the bytes that are told.
            unsafe {
                let room = entries.len() * 4;
                self.table.algo_cap(algo.as_ptr(), attribute, entries.as_mut_ptr().cast(), room, &raw mut bytes)
            }?;
            entries.truncate(bytes / 4);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::cublaslt::sys::cublasLtMatmulAlgoCapAttributes_t as Cap;
    use cudarc::cublaslt::sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;

    #[test]
    fn the_attributes_are_those_of_the_header() {
        for (ours, theirs) in [
            (ID, Attribute::CUBLASLT_ALGO_CONFIG_ID),
            (TILE, Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID),
            (SPLIT_K, Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
            (REDUCTION, Attribute::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
            (SWIZZLE, Attribute::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
            (CUSTOM, Attribute::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
            (STAGES, Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID),
            (INNER, Attribute::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
            (CLUSTER, Attribute::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
        ] {
            assert_eq!(ours, theirs as i32, "{theirs:?}");
        }
        for (ours, theirs) in [
            (CAP_TILES, Cap::CUBLASLT_ALGO_CAP_TILE_IDS),
            (CAP_CUSTOM_MAX, Cap::CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX),
            (CAP_STAGES, Cap::CUBLASLT_ALGO_CAP_STAGES_IDS),
        ] {
            assert_eq!(ours, theirs as i32, "{theirs:?}");
        }
    }

    #[test]
    fn a_configuration_has_the_types_that_the_header_tells() {
        // `cublasLt.h`, at each attribute: 32 bits each, but for the two shapes, which are uint16_t.
        let c = Config::default();
        let words = [size_of_val(&c.tile), size_of_val(&c.stages), size_of_val(&c.reduction), size_of_val(&c.swizzle)];
        assert_eq!((words, size_of_val(&c.custom)), ([4; 4], 4));
        assert_eq!((size_of_val(&c.id), size_of_val(&c.split_k)), (4, 4));
        assert_eq!((size_of_val(&c.inner), size_of_val(&c.cluster)), (2, 2));
    }
}
