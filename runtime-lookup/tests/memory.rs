//! What a choice takes, in the index that every lookup touches and in all.

mod counting;

use std::fmt::Write as _;

use counting::bytes;
use tgemm_db::format::aiter;
use tgemm_db::{Device, Environment, Vendor};
use tgemm_lookup::Database;

const CHOICES: usize = 100_000;
/// The most that the index takes, bytes a choice: one line of cache.
const INDEX_BYTES_MAX: f64 = 64.0;
/// The most that everything takes.
const ALL_BYTES_MAX: f64 = 512.0;

/// AITER's table of [`CHOICES`] rows over so many sites.
fn table(sites: usize) -> String {
    let mut text = format!("{}\n", aiter::COLUMNS.join(","));
    for row in 0..CHOICES {
        let (m, site) = (1 + row / sites, row % sites);
        let (n, k) = (256 + 8 * site, 1024 + 128 * (site % 31));
        let (index, kernel) = (row % 42, 32 * (1 + row % 42));
        let _ = writeln!(
            text,
            "gfx950,256,{m},{n},{k},False,torch.bfloat16,torch.bfloat16,False,False,asm,{index},{},{}.5,\
             _ZN5aiter39bf16gemm_fp32bf16_tn_{kernel}x64_splitk_cleanE,0.0,21.19,417.92",
            row % 2,
            5 + row % 900,
        );
    }
    text
}

#[test]
fn a_choice_takes_no_more_than_a_line_of_cache_in_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let here = Environment {
        device: Device::named(Vendor::Amd, "gfx950", 256),
        builds: Vec::new(),
        driver: String::new(),
        vars: Default::default(),
    };
    for sites in [500, 5000] {
        std::fs::write(&path, table(sites)).unwrap();
        let paths = [path.clone()];
        let before = bytes();
        let (database, report) = Database::open(&paths, &here);
        drop(report);
        let taken = (bytes() - before) as f64 / CHOICES as f64;
        assert_eq!(database.len(), CHOICES);
        let index = database.index_bytes() as f64 / CHOICES as f64;
        let record = size_of::<tgemm_db::Choice>();
        println!(
            "{sites} sites: {index:.1} bytes a choice in the index, {taken:.1} in all, {record} of them its record"
        );
        assert!(index <= INDEX_BYTES_MAX, "{index}");
        assert!(taken <= ALL_BYTES_MAX, "{taken}");
        assert!(taken > index + record as f64, "the counter counts nothing");
    }
}
