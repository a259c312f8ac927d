//! Programs that call ROCm's libraries, which the double plays: what they did, by which call and with which workspace, is what
//! is recorded; a graph's calls count once a replay, each after the call that it followed.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, counts, expected, rows, run, said};
use tgemm_db::Via;

/// A bench with "ROCm 7" in it, and the client linked to that.
struct Rocm {
    bench: Bench,
    client: PathBuf,
}

impl Rocm {
    fn new() -> Option<Rocm> {
        let bench = Bench::new()?;
        let double = tgemm_rocm_double::built().expect("cargo builds the double with this test");
        let libraries = bench.path("rocm");
        tgemm_rocm_double::install(&libraries, &double, 7).unwrap();
        let folder = format!("-L{}", libraries.display());
        let named: Vec<String> =
            tgemm_rocm_double::sonames(7).unwrap().iter().map(|name| format!("-l:{name}")).collect();
        let flags: Vec<&str> = [folder.as_str()].into_iter().chain(named.iter().map(String::as_str)).collect();
        let client = bench.build("rocm-client", "rocm.c", &flags);
        Some(Rocm { bench, client })
    }

    fn ready(&self, mut command: Command) -> Command {
        command.env("LD_LIBRARY_PATH", self.bench.path("rocm")).env_remove(tgemm_rocm_double::SCRIPT_VAR);
        command
    }

    /// Runs `mode` without us, with us switched off, and recording: alike.
    fn check(&self, mode: &str) {
        let alone = said(&run(self.ready(self.bench.alone(&self.client)), &[mode]));
        assert!(alone.lines().count() > 1, "{alone}");
        assert_eq!(said(&run(self.ready(self.bench.off(&self.client)), &[mode])), alone);
        assert_eq!(said(&run(self.ready(self.bench.recording(&self.client, "recorded")), &[mode])), alone);
    }
}

const BF16: &str = "x=bf16,w=bf16,out=bf16,compute=f32";

/// What `eager` does, as keys.
fn eager() -> BTreeMap<String, u64> {
    expected(
        &"
        3 gemm_ex gemm,m=4,n=96,k=64,BF16
        1 gemm_ex gemm,m=4,n=96,k=64,BF16,alpha=other
        1 gemm_ex gemm,m=5,n=48,k=32,x=f32,w=f32,out=f32,compute=f32
        2 rocblas_gemm_ex gemm,m=6,n=96,k=64,BF16
        2 gemm_ex gemm,m=4,n=32,k=16,BF16,batch=3:64:512:128
        1 rocblas_gemm_ex gemm,m=4,n=32,k=16,BF16,batch=3:64:512:128
        6 lt_matmul gemm,m=7,n=96,k=64,BF16
        1 lt_matmul gemm,m=7,n=96,k=64,x=bf16,w=bf16,out=bf16,compute=f32,bias=bf16
        1 lt_matmul gemm,m=7,n=96,k=64,x=bf16,w=bf16,out=bf16,compute=f32,bias=bf16,act=gelu
        1 lt_matmul gemm,m=4,n=32,k=16,BF16,batch=3:64:512:128
        1 gemm_ex gemm,m=9,n=96,k=64,BF16,alpha=other,beta=other"
            .replace("BF16", BF16),
    )
}

#[test]
fn every_call_is_recorded_as_what_it_is() {
    let Some(rocm) = Rocm::new() else { return };
    rocm.check("eager");
    let place = rocm.bench.path("recorded");
    assert_eq!(counts(&place), eager());
    let rows = rows(&place);
    assert!(rows.iter().all(|row| !row.captured));
    // Only one call tells its workspace; a problem with two of them is two rows.
    let plain = format!("gemm,m=7,n=96,k=64,{BF16}");
    let mut workspaces = BTreeMap::<Option<u64>, u64>::new();
    for row in rows.iter().filter(|row| row.problem.to_string() == plain) {
        *workspaces.entry(row.workspace_bytes_max).or_default() += row.count;
    }
    assert_eq!(workspaces, [(Some(0), 1), (Some(4096), 5)].into());
    assert!(rows.iter().all(|row| row.workspace_bytes_max.is_some() == (row.via == Via::LtMatmul)));
    // The libraries are one file here, under the runtime's name.
    let file = rocm.bench.path("rocm/libamdhip64.so.7").canonicalize().unwrap();
    assert!(rows.iter().all(|row| row.library_file == file.to_string_lossy()), "{rows:?}");
    let versions: BTreeSet<(Via, &str)> = rows.iter().map(|row| (row.via, row.library_build.as_str())).collect();
    let wanted = [(Via::GemmEx, ""), (Via::LtMatmul, "1.2.1"), (Via::RocblasGemmEx, "5.2.0.5b515cf1bc")];
    assert_eq!(versions, wanted.into_iter().collect());
}

#[test]
fn what_a_graph_holds_counts_once_a_replay() {
    let Some(rocm) = Rocm::new() else { return };
    rocm.check("replay");
    let place = rocm.bench.path("recorded");
    let mut wanted = BTreeMap::new();
    // M, replays, and calls outside of graphs.
    for (m, replays, eager) in [(3, 7, 1), (11, 0, 0), (5, 2, 0), (13, 4 + 3, 0), (17, 4 + 3, 0)] {
        for (via, calls, eager) in [("gemm_ex", 2, eager), ("rocblas_gemm_ex", 1, 0), ("lt_matmul", 1, 0)] {
            wanted.insert(format!("{via} gemm,m={m},n=96,k=64,{BF16}"), replays * calls + eager);
        }
    }
    assert_eq!(counts(&place), wanted);
    // What was only captured is known too, and all of it is known to have been captured.
    let captured: BTreeSet<u32> = rows(&place).iter().filter(|row| row.captured).map(|row| row.problem.m()).collect();
    assert_eq!(captured, [3, 5, 11, 13, 17].into());
}

/// A call that followed another one in a graph: its M, its API, the other's M, and the nodes between them.
type Following = (u32, Via, u32, Option<u32>);

/// How often which call followed which.
fn followers(place: &Path) -> BTreeMap<Following, u64> {
    let mut found = BTreeMap::new();
    for row in rows(place) {
        if let Some(follows) = row.follows {
            let following = (row.problem.m(), row.via, follows.problem.m(), follows.nodes_between);
            *found.entry(following).or_default() += row.count;
        }
    }
    found
}

/// What the client's graphs of one M have in them, as often as they ran.
fn inside(m: u32, runs: u64) -> [(Following, u64); 3] {
    let nodes_before = [(Via::GemmEx, 0), (Via::RocblasGemmEx, 1), (Via::LtMatmul, 2)];
    nodes_before.map(|(via, nodes)| ((m, via, m, Some(nodes)), runs))
}

#[test]
fn each_call_of_a_graph_follows_the_one_before_it() {
    let Some(rocm) = Rocm::new() else { return };
    rocm.check("replay");
    let place = rocm.bench.path("recorded");
    let mut wanted: BTreeMap<Following, u64> =
        [(3, 7), (5, 2), (13, 4 + 3), (17, 4 + 3)].into_iter().flat_map(|(m, runs)| inside(m, runs)).collect();
    // First calls follow the last of the launch before, whichever graph's that was, and those of a child what it was put behind:
    // nodes of two graphs are not counted together. M, the other's M, how often.
    for (m, before, times) in [(3, 3, 6), (5, 3, 1), (5, 5, 1), (13, 5, 1), (13, 17, 3 + 3), (17, 13, 4 + 3)] {
        wanted.insert((m, Via::GemmEx, before, None), times);
    }
    assert_eq!(followers(&place), wanted);
    let rows = rows(&place);
    // The first launch of all follows nothing, nor does the call outside of graphs.
    let mut alone = BTreeMap::new();
    for row in rows.iter().filter(|row| row.follows.is_none() && row.count > 0) {
        *alone.entry((row.problem.m(), row.via)).or_default() += row.count;
    }
    assert_eq!(alone, [((3, Via::GemmEx), 2)].into());
    // All else is known of them as well.
    let followers = || rows.iter().filter(|row| row.follows.is_some());
    assert!(followers().all(|row| row.captured && !row.library_file.is_empty()), "{rows:?}");
    assert!(followers().all(|row| row.workspace_bytes_max == (row.via == Via::LtMatmul).then_some(4096)), "{rows:?}");
}

#[test]
fn a_graph_launched_among_the_calls_of_a_capture_has_its_place_there() {
    let Some(rocm) = Rocm::new() else { return };
    rocm.check("among");
    let mut wanted: BTreeMap<Following, u64> = inside(5, 2).into();
    // Between the inner graph and the calls around it are the nodes that the outer one has there.
    wanted.insert((5, Via::GemmEx, 3, Some(3)), 2);
    wanted.insert((7, Via::GemmEx, 5, Some(1)), 2);
    // The second launch follows the first.
    wanted.insert((3, Via::GemmEx, 7, None), 1);
    assert_eq!(followers(&rocm.bench.path("recorded")), wanted);
}
