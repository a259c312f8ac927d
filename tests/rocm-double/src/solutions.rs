//! The solutions of the two libraries: which product each takes, what it costs, and what the library believes it costs.

use std::sync::Arc;

use crate::gemm::Gemm;
use crate::script::{Cost, Device, Fault, Library, Noise, Only, Script, SolutionScript};
use crate::version::Versions;

/// FNV-1a: the same in every process.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Spreads the bits of `x` (splitmix64).
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn unit(x: u64) -> f64 {
    (mixed(x) >> 11) as f64 / (1u64 << 53) as f64
}

/// One way of one library.
#[derive(Clone, Debug)]
pub struct Solution {
    pub library: Library,
    /// As the library reports it.
    pub index: i32,
    pub name: String,
    pub tile: [u32; 2],
    pub split_k: u32,
    pub fault: Fault,
    cost: Cost,
    noise: Noise,
    workspace_bytes: Option<u64>,
    only: Only,
    /// One of the double's own set: its true cost differs from the library's belief by shape.
    is_own: bool,
}

/// What split-K of the default fault asks for.
const HUGE_WORKSPACE_BYTES: u64 = 1 << 30;

impl Solution {
    fn new(script: &SolutionScript, noise: Noise, base: i32) -> Solution {
        // rocRoller's and Tensile's negative numbers do not move with the table.
        let moves = script.library == Library::Hipblaslt && script.index >= 0;
        let [tile_m, tile_n] = script.tile;
        let own_name = || format!("Cijk_MT{tile_m}x{tile_n}x64_GSU{}_SI{}", script.split_k, script.index);
        Solution {
            library: script.library,
            index: if moves { script.index.saturating_add(base) } else { script.index },
            name: script.name.clone().unwrap_or_else(own_name),
            tile: [tile_m.max(1), tile_n.max(1)],
            split_k: script.split_k.max(1),
            fault: script.fault,
            cost: script.cost,
            noise: Noise { sigma: script.sigma.unwrap_or(noise.sigma), ..noise },
            workspace_bytes: script.workspace_bytes,
            only: script.only.clone(),
            is_own: false,
        }
    }

    /// Does it take the product?
    pub fn takes(&self, gemm: &Gemm) -> bool {
        let within =
            |range: Option<[usize; 2]>, size: usize| range.is_none_or(|[low, high]| (low..=high).contains(&size));
        let listed = |list: &[String], word: &str| list.is_empty() || list.iter().any(|have| have == word);
        listed(&self.only.types, gemm.a.element.name())
            && listed(&self.only.trans, gemm.trans())
            && within(self.only.m, gemm.m)
            && within(self.only.n, gemm.n)
            && within(self.only.k, gemm.k)
            && self.only.k_multiple.is_none_or(|multiple| multiple == 0 || gemm.k.is_multiple_of(multiple))
    }

    /// Workspace that it needs.
    pub fn workspace_bytes(&self, gemm: &Gemm) -> u64 {
        match (self.workspace_bytes, self.fault) {
            (Some(bytes), _) => bytes,
            (None, Fault::Workspace) => HUGE_WORKSPACE_BYTES,
            // Partial sums in f32.
            (None, _) if self.split_k > 1 => u64::from(self.split_k) * 4 * (gemm.m * gemm.n * gemm.batch) as u64,
            (None, _) => 0,
        }
    }

    /// The library's model: waves of tiles on the compute units, bounded by what memory moves.
    pub fn believed_us(&self, gemm: &Gemm, device: &Device) -> f64 {
        let [tile_m, tile_n] = self.tile.map(|side| side as usize);
        let tiles = gemm.m.div_ceil(tile_m) * gemm.n.div_ceil(tile_n) * gemm.batch * self.split_k as usize;
        let waves = tiles.div_ceil(device.cus.max(1) as usize) as f64;
        let width = gemm.a.element.bytes() as f64 / 2.0;
        let per_cu = device.tflops * 1e6 / width / f64::from(device.cus.max(1));
        let k = (gemm.k as f64 / f64::from(self.split_k)).max(1.0);
        // Small tiles reuse less of what they load.
        let reuse = 0.5 + 0.5 * ((tile_m * tile_n) as f64 / 65536.0).min(1.0).sqrt();
        let compute_us = waves * 2.0 * (tile_m * tile_n) as f64 * k / (per_cu * reuse);
        let operands = [(&gemm.a, 1), (&gemm.b, 1), (&gemm.d, 1)];
        let bytes: usize =
            operands.iter().map(|(matrix, _)| matrix.rows * matrix.cols * matrix.element.bytes() * gemm.batch).sum();
        let partial = if self.split_k > 1 { self.workspace_bytes(gemm) as f64 * 2.0 } else { 0.0 };
        let memory_us = (bytes as f64 + partial) / (device.gb_s * 1e3);
        let fixed_us = if self.split_k > 1 { 3.0 } else { 2.0 };
        fixed_us + compute_us.max(memory_us)
    }

    /// What it costs, without noise.
    pub fn cost_us(&self, gemm: &Gemm, device: &Device) -> f64 {
        if self.cost.base_us.is_some() || self.cost.tflops.is_some() {
            let compute_us = self.cost.tflops.map_or(0.0, |tflops| gemm.flops() / (tflops * 1e6));
            return self.cost.base_us.unwrap_or(0.0) + compute_us;
        }
        let believed_us = self.believed_us(gemm, device) * self.cost.times.unwrap_or(1.0);
        if !self.is_own {
            return believed_us;
        }
        let shape = hash(format!("{} {} {} {} {}", self.name, gemm.m, gemm.n, gemm.k, gemm.trans()).as_bytes());
        believed_us * (0.85 + 0.4 * unit(shape))
    }

    /// What the `launch`-th launch of the process costs.
    pub fn sample_us(&self, gemm: &Gemm, device: &Device, launch: u64) -> f64 {
        let exact_us = self.cost_us(gemm, device);
        if self.noise.sigma == 0.0 {
            return exact_us;
        }
        let seed = self.noise.seed ^ hash(self.name.as_bytes()) ^ mixed(launch);
        let (u, v) = (unit(seed).max(1e-12), unit(seed ^ 0x5bd1_e995));
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        exact_us * (self.noise.sigma * normal).exp()
    }
}

/// All solutions.
#[derive(Clone, Debug)]
pub struct Solutions {
    all: Vec<Arc<Solution>>,
    generation: u32,
    ranked: usize,
}

impl Solutions {
    pub fn new(script: &Script, versions: &Versions, base: i32) -> Solutions {
        let own = || own_set(versions.generation);
        let (scripts, is_own) = script.solutions.clone().map_or_else(|| (own(), true), |scripts| (scripts, false));
        let all = scripts.iter().map(|solution| Solution { is_own, ..Solution::new(solution, script.noise, base) });
        Solutions {
            all: all.map(Arc::new).collect(),
            generation: versions.generation,
            ranked: script.ranked.unwrap_or(10),
        }
    }

    /// The solution of hipBLASLt with `index`.
    pub fn of_index(&self, index: i32) -> Option<Arc<Solution>> {
        self.all.iter().find(|one| one.library == Library::Hipblaslt && one.index == index).cloned()
    }

    /// What hipBLASLt's heuristic lists where at most `workspace_bytes` are allowed: the best believed ones, then the
    /// others by index.
    pub fn listed(&self, gemm: &Gemm, device: &Device, workspace_bytes: u64) -> Vec<Arc<Solution>> {
        let fits = |one: &&Arc<Solution>| one.fault == Fault::Workspace || one.workspace_bytes(gemm) <= workspace_bytes;
        let mut listed = self.of(Library::Hipblaslt, gemm);
        listed = listed.iter().filter(fits).cloned().collect();
        listed.sort_by(|x, y| x.believed_us(gemm, device).total_cmp(&y.believed_us(gemm, device)));
        let ranked = self.ranked.min(listed.len());
        listed[ranked..].sort_by_key(|one| one.index);
        listed
    }

    /// The solutions of `library` that take `gemm`, in the order of the script.
    fn of(&self, library: Library, gemm: &Gemm) -> Vec<Arc<Solution>> {
        self.all.iter().filter(|one| one.library == library && one.takes(gemm)).cloned().collect()
    }

    /// All of hipBLASLt's, whatever they take.
    pub fn all_of_hipblaslt(&self) -> impl Iterator<Item = &Arc<Solution>> {
        self.all.iter().filter(|one| one.library == Library::Hipblaslt)
    }

    /// What rocBLAS lists: its own, and since ROCm 7 hipBLASLt's under their index + 1.
    pub fn rocblas_listed(&self, gemm: &Gemm) -> Vec<(i32, Arc<Solution>)> {
        let mut listed: Vec<_> = Vec::new();
        if self.generation >= 7 {
            listed.extend(self.of(Library::Hipblaslt, gemm).into_iter().map(|one| (one.index.wrapping_add(1), one)));
        }
        listed.extend(self.of(Library::Rocblas, gemm).into_iter().map(|one| (one.index, one)));
        listed
    }

    /// What rocBLAS runs for `index`; 0 is its own choice.
    pub fn rocblas_of_index(&self, gemm: &Gemm, device: &Device, index: i32) -> Option<(i32, Arc<Solution>)> {
        let mut listed = self.rocblas_listed(gemm);
        if index != 0 {
            return listed.into_iter().find(|(have, _)| *have == index);
        }
        listed.sort_by(|x, y| x.1.believed_us(gemm, device).total_cmp(&y.1.believed_us(gemm, device)));
        // rocBLAS can give Tensile no workspace of hipBLASLt's size.
        listed.into_iter().find(|(_, one)| one.workspace_bytes(gemm) == 0)
    }
}

/// Tiles and split-K factors as libraries have them.
fn own_set(generation: u32) -> Vec<SolutionScript> {
    let one = |index: i32, library: Library, tile: [u32; 2], split_k: u32| SolutionScript {
        index,
        library,
        name: None,
        tile,
        split_k,
        cost: Cost::default(),
        sigma: None,
        workspace_bytes: None,
        only: Only::default(),
        fault: Fault::None,
    };
    let sides = [16, 32, 64, 128, 256];
    let tiles = sides.into_iter().flat_map(|m| sides.into_iter().map(move |n| [m, n]));
    let tiles = tiles.filter(|[m, n]| m * n >= 1024 && m.max(n) / m.min(n) <= 8);
    let splits = tiles.flat_map(|tile| [1, 4].into_iter().map(move |split_k| (tile, split_k)));
    let mut set: Vec<_> =
        splits.zip(0..).map(|((tile, split_k), at)| one(200 + 3 * at, Library::Hipblaslt, tile, split_k)).collect();
    // Tensile's indices are positive before ROCm 7.
    let sign = if generation >= 7 { -1 } else { 1 };
    let tensile = [[64, 64], [128, 64], [64, 128], [128, 128], [256, 128], [32, 32]];
    set.extend(tensile.into_iter().zip(0..).map(|(tile, at)| one(sign * (620 + at), Library::Rocblas, tile, 1)));
    set
}
