//! cuBLASLt's algorithms by their nine configuration attributes: what names one across processes and, for the same
//! version, across machines. The opaque bytes are never stored.

use std::ffi::c_void;

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

    /// The algorithm of `config` for `product`, not yet checked.
    pub fn configure(&self, product: &Product, config: &Config) -> Result<Algo, CallError> {
        let mut algo = self.init(product, config.id)?;
        let mut set = |attribute: i32, value: *const c_void, bytes: usize| {
            // SAFETY: `value` points to `bytes` bytes of the attribute's type.
            unsafe { self.table.algo_set(algo.as_mut_ptr(), attribute, value, bytes) }
        };
        set(TILE, (&raw const config.tile).cast(), 4)?;
        set(STAGES, (&raw const config.stages).cast(), 4)?;
        set(SPLIT_K, (&raw const config.split_k).cast(), 4)?;
        set(REDUCTION, (&raw const config.reduction).cast(), 4)?;
        set(SWIZZLE, (&raw const config.swizzle).cast(), 4)?;
        set(CUSTOM, (&raw const config.custom).cast(), 4)?;
        // Since 11.8; what an older version gave as 0 need not be set.
        if config.inner != 0 {
            set(INNER, (&raw const config.inner).cast(), 2)?;
        }
        if config.cluster != 0 {
            set(CLUSTER, (&raw const config.cluster).cast(), 2)?;
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
