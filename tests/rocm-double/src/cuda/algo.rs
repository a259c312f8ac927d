//! An algorithm of cuBLASLt as an index of hipBLASLt's: a hash of its nine configuration attributes.
//!
//! Another process that meets the same configuration gives it the same index, and an index is resolved by looking for its
//! configuration among what cuBLASLt offers.

use super::lt::Table;

/// `cublasLtMatmulAlgo_t`.
pub type CudaAlgo = [u64; 8];

/// `cublasLtMatmulHeuristicResult_t`: 96 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CudaResult {
    pub algo: CudaAlgo,
    pub workspace: u64,
    pub state: i32,
    pub waves: f32,
    reserved: [i32; 4],
}

const _: () = assert!(size_of::<CudaResult>() == 96);

/// (`cublasLtMatmulAlgoConfigAttributes_t`, its bytes, a word for it).
const ATTRIBUTES: [(i32, usize, &str); 9] = [
    (0, 4, "id"),
    (1, 4, "tile"),
    (6, 4, "stages"),
    (2, 4, "splitk"),
    (3, 4, "reduction"),
    (4, 4, "swizzle"),
    (5, 4, "custom"),
    (7, 2, "inner"),
    (8, 2, "cluster"),
];

/// The attributes in the order above.
pub fn config(table: &Table, algo: &CudaAlgo) -> Result<[u32; 9], i32> {
    let mut config = [0u32; 9];
    for (value, (attribute, bytes, _)) in config.iter_mut().zip(ATTRIBUTES) {
        let mut written = 0usize;
        let place = std::ptr::from_mut(value) as usize;
        table.config_get(algo.as_ptr() as usize, attribute, place, bytes, &raw mut written as usize)?;
    }
    Ok(config)
}

/// A positive number that the configuration determines.
pub fn index(config: &[u32; 9]) -> i32 {
    let bytes: Vec<u8> = config.iter().flat_map(|value| value.to_le_bytes()).collect();
    let hash = crate::solutions::hash(&bytes);
    ((hash ^ (hash >> 32)) as u32 & 0x7fff_ffff).max(1) as i32
}

/// The configuration in words.
pub fn name(config: &[u32; 9]) -> String {
    let words = config.iter().zip(ATTRIBUTES).map(|(value, (_, _, word))| format!("{word}_{value}"));
    words.collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_the_same_everywhere() {
        let config = [66, 20, 35, 1, 0, 0, 3, 0, 2];
        assert_eq!(index(&config), 1_304_201_043, "FNV-1a, folded; stored indices depend on it");
        assert_ne!(index(&config), index(&[66, 20, 35, 1, 0, 0, 3, 0, 3]));
        assert_eq!(name(&config), "id_66_tile_20_stages_35_splitk_1_reduction_0_swizzle_0_custom_3_inner_0_cluster_2");
    }
}
