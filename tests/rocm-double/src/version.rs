//! What each generation of ROCm says of itself. The three are 7.2, 6.4 and 5.7.

/// The versions that the calls report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// 7, 6, 5.
    pub generation: u32,
    /// HIP: major · 10^7 + minor · 10^5 + patch.
    pub hip: i32,
    /// hipBLASLt: major · 10^5 + minor · 100 + patch: 1.2.1, 0.12.1, 0.3.0.
    pub hipblaslt: i32,
    /// rocBLAS, before its revision.
    pub rocblas: &'static str,
    /// The revision where the script has none.
    pub revision: &'static str,
}

const ALL: [Versions; 3] = [
    Versions { generation: 7, hip: 70_226_015, hipblaslt: 100_201, rocblas: "5.2.0", revision: "5b515cf1bc" },
    Versions { generation: 6, hip: 60_443_484, hipblaslt: 1201, rocblas: "4.4.1", revision: "c2bb1b5bb4" },
    Versions { generation: 5, hip: 50_731_921, hipblaslt: 300, rocblas: "3.1.0", revision: "aa8f3a3a10" },
];

impl Versions {
    /// Those of a generation.
    pub fn of(generation: &str) -> Option<Versions> {
        ALL.into_iter().find(|versions| versions.generation.to_string() == generation)
    }

    /// Those of the generation whose runtime is named like the loaded file: `libamdhip64.so.6` is 6.
    pub fn of_file(file: &str) -> Option<Versions> {
        let (_, number) = file.rsplit_once("libamdhip64.so.")?;
        Versions::of(number.split('.').next()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_tells_the_generation() {
        assert_eq!(Versions::of_file("/opt/rocm/lib/libamdhip64.so.6").map(|v| v.generation), Some(6));
        assert_eq!(Versions::of_file("/x/libamdhip64.so.7.2.26015").map(|v| v.generation), Some(7));
        assert_eq!(Versions::of_file("/x/libtgemm_rocm_double.so"), None);
        assert_eq!(Versions::of("8"), None);
    }
}
