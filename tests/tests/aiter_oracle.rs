//! A lookup through AITER's own bf16 tables answers what AITER's rules say, row for row.
//!
//! The oracle shares no code with the crates: it cuts lines at commas, keeps the key cells as text and pads M by the rule
//! in AITER's `gemm_common.cu`: exact M; then M up to a multiple of 16, 32, 64 or 128; then 8192 if M > 8192 and N > 4096,
//! else the next power of two; all other key columns equal at every step. Rows without a time (`us` not above 0) are
//! hand-routed in AITER and refused here on import, so neither side has them; how many answers that changes is printed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use tgemm_db::problem::ScaleMode;
use tgemm_db::{Constraints, DType, Device, Environment, Numerics, Problem, Site, Vendor, WeightForm};
use tgemm_lookup::{Database, HitKind, Levels};

const CONFIGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/aiter/aiter/configs");
const QUERIES: usize = 10_000;
const SEED: u64 = 0x5eed_2026_1130;

/// gfx, cu_num, N, K, and the five cells `bias,dtype,outdtype,scaleAB,bpreshuffle`: AITER's key without M.
type Key = (String, u32, u32, u32, String);

/// What AITER would run: libtype, solidx, splitK, kernelName, and whether the row has a time.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    library: String,
    index: i64,
    split_k: i64,
    kernel: String,
    is_timed: bool,
}

/// AITER's tables merged: per key the rows by M.
type Tables = HashMap<Key, BTreeMap<u32, Row>>;

/// The general table and the models' tables, as AITER globs for them.
fn files() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(CONFIGS).join("bf16_tuned_gemm.csv")];
    let models = std::fs::read_dir(PathBuf::from(CONFIGS).join("model_configs")).unwrap();
    found.extend(models.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.contains("bf16_tuned_gemm") && !name.contains("untuned")
    }));
    found.sort();
    found
}

fn tables(files: &[PathBuf]) -> Tables {
    let mut tables = Tables::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').map(str::trim).collect();
        let at = |name: &str| names.iter().position(|have| *have == name).unwrap();
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let number = |name: &str| cells[at(name)].parse::<i64>().unwrap();
            let size = |name: &str| u32::try_from(number(name)).unwrap();
            let types = ["bias", "dtype", "outdtype", "scaleAB", "bpreshuffle"].map(|name| cells[at(name)]).join(",");
            let us: f64 = cells[at("us")].parse().unwrap();
            let kernel = cells[at("kernelName")];
            let row = Row {
                library: cells[at("libtype")].into(),
                index: number("solidx"),
                split_k: number("splitK"),
                kernel: if ["Null", "None", "nan"].contains(&kernel) { "" } else { kernel }.into(),
                is_timed: us.is_finite() && us > 0.0,
            };
            let key = (cells[at("gfx")].to_owned(), size("cu_num"), size("N"), size("K"), types);
            let before = tables.entry(key).or_default().insert(size("M"), row);
            assert!(before.is_none(), "{}: a key stands twice, AITER would refuse to start: {line}", file.display());
        }
    }
    tables
}

/// Where AITER looks after M itself.
fn padded(m: u32, n: u32) -> [u32; 2] {
    let grain = match m {
        0..=256 => 16,
        257..=1024 => 32,
        1025..=4096 => 64,
        _ => 128,
    };
    let fine = m.div_ceil(grain) * grain;
    let mut coarse = 1;
    while coarse < m {
        coarse *= 2;
    }
    [fine, if m > 8192 && n > 4096 { 8192 } else { coarse }]
}

#[test]
fn padding_has_the_values_that_were_worked_out_by_hand() {
    let cases = [
        (1, 9, [16, 1]),
        (9, 9, [16, 16]),
        (17, 9, [32, 32]),
        (257, 9, [288, 512]),
        (300, 9, [320, 512]),
        (1000, 9, [1024, 1024]),
        (1025, 9, [1088, 2048]),
        (4097, 9, [4224, 8192]),
        (8193, 4096, [8320, 16384]),
        (8193, 4097, [8320, 8192]),
        (20_000, 8192, [20_096, 8192]),
        (40_000, 2048, [40_064, 65_536]),
    ];
    for (m, n, want) in cases {
        assert_eq!(padded(m, n), want, "M={m} N={n}");
    }
}

/// Which row answers, how, and tuned at which M; with or without the rows that have no time.
fn oracle<'t>(tables: &'t Tables, key: &Key, m: u32, untimed: bool) -> Option<(HitKind, u32, &'t Row)> {
    let rows = tables.get(key)?;
    let [fine, coarse] = padded(m, key.2);
    [(HitKind::Exact, m), (HitKind::Padded, fine), (HitKind::Padded, coarse)]
        .into_iter()
        .find_map(|(kind, m)| rows.get(&m).filter(|row| untimed || row.is_timed).map(|row| (kind, m, row)))
}

/// The problem that the cells mean, by our own words.
fn problem(key: &Key, m: u32) -> Problem {
    let cells: Vec<&str> = key.4.split(',').collect();
    let dtype = |text: &str| match text {
        "torch.bfloat16" => DType::Bf16,
        "torch.float16" => DType::F16,
        "torch.float32" => DType::F32,
        other => panic!("{other} is not in AITER's bf16 tables"),
    };
    let x = dtype(cells[1]);
    let mut site = Site::linear(key.2, key.3, x).with_out(dtype(cells[2]));
    if cells[0] == "True" {
        site = site.with_bias(x);
    }
    if cells[3] == "True" {
        site.scale = ScaleMode::Tensor;
    }
    site.preshuffled = cells[4] == "True";
    site.at(m).into()
}

/// xorshift64*: the same queries every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// Any magnitude from 1 to 100,000 alike.
    fn m(&mut self) -> u32 {
        let bits = 1 + self.below(17);
        (1 + self.below(1 << bits)).min(100_000) as u32
    }
}

struct Vocabulary {
    rows: Vec<(Key, u32)>,
    devices: Vec<(String, u32)>,
    ns: Vec<u32>,
    ks: Vec<u32>,
    types: Vec<String>,
}

impl Vocabulary {
    fn of(tables: &Tables) -> Vocabulary {
        let mut rows: Vec<(Key, u32)> =
            tables.iter().flat_map(|(key, rows)| rows.keys().map(|m| (key.clone(), *m))).collect();
        rows.sort();
        let of = |cell: fn(&Key) -> u32| -> Vec<u32> {
            tables.keys().map(cell).collect::<BTreeSet<_>>().into_iter().collect()
        };
        let mut devices: BTreeSet<(String, u32)> = tables.keys().map(|key| (key.0.clone(), key.1)).collect();
        // Devices that no row has, of which one shares its architecture and one its compute units with others.
        devices.extend([("gfx942".to_owned(), 304), ("gfx90a".to_owned(), 256)]);
        let mut types: BTreeSet<String> = tables.keys().map(|key| key.4.clone()).collect();
        types.extend(
            [
                "False,torch.float16,torch.float16,False,False",
                "True,torch.bfloat16,torch.float32,False,False",
                "False,torch.bfloat16,torch.bfloat16,True,False",
                "False,torch.bfloat16,torch.bfloat16,False,True",
            ]
            .map(str::to_owned),
        );
        Vocabulary {
            rows,
            devices: devices.into_iter().collect(),
            ns: of(|key| key.2),
            ks: of(|key| key.3),
            types: types.into_iter().collect(),
        }
    }

    /// Half the queries lie at or near a row, half anywhere.
    fn query(&self, random: &mut Random) -> (Key, u32) {
        if random.below(2) == 0 {
            let (gfx, cu) = random.of(&self.devices).clone();
            let key = (gfx, cu, *random.of(&self.ns), *random.of(&self.ks), random.of(&self.types).clone());
            return (key, random.m());
        }
        let (mut key, m) = random.of(&self.rows).clone();
        match random.below(12) {
            0 => key.2 = key.2.saturating_add(1),
            1 => key.3 = *random.of(&self.ks),
            2 => key.4 = random.of(&self.types).clone(),
            3 => (key.0, key.1) = random.of(&self.devices).clone(),
            _ => {}
        }
        let m = match random.below(6) {
            0 => m,
            1 => m + 1,
            2 => m.saturating_sub(1).max(1),
            3 => m.saturating_sub(random.below(16) as u32).max(1),
            4 => (m / 2 + 1 + random.below(u64::from(m / 2 + 1)) as u32).min(m),
            _ => random.m(),
        };
        (key, m)
    }
}

fn here(gfx: &str, cu: u32) -> Environment {
    let device = Device {
        vendor: Vendor::Amd,
        arch: gfx.into(),
        compute_units: cu,
        memory_gib: None,
        chip_id: None,
        partition: None,
        last_level_cache_bytes: 0,
    };
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

#[test]
fn ten_thousand_lookups_equal_aiters_rules() {
    if !PathBuf::from(CONFIGS).is_dir() {
        eprintln!("skipped: AITER's tables are not at {CONFIGS}");
        return;
    }
    let files = files();
    let tables = tables(&files);
    let vocabulary = Vocabulary::of(&tables);
    let databases: HashMap<(String, u32), Database> = vocabulary
        .devices
        .iter()
        .map(|(gfx, cu)| ((gfx.clone(), *cu), Database::open(&files, &here(gfx, *cu)).0.with_levels(Levels::AITER)))
        .collect();
    let anything = Constraints {
        weight_forms: WeightForm::ALL.iter().copied().collect(),
        numerics: Numerics::Partial16,
        ..Constraints::default()
    };
    let mut random = Random(SEED);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut changed_by_untimed = 0;
    for at in 0..QUERIES {
        let (key, m) = vocabulary.query(&mut random);
        let hit = databases[&(key.0.clone(), key.1)].lookup(&problem(&key, m), &anything);
        let got = hit.choice.map(|choice| {
            let solution = &choice.solution;
            let row = Row {
                library: solution.library().into(),
                index: solution.index,
                split_k: solution.params.parse("split_k").unwrap_or(0),
                kernel: solution.name.to_string(),
                is_timed: true,
            };
            (hit.kind, hit.tuned_m.unwrap(), row)
        });
        let want = oracle(&tables, &key, m, false);
        assert_eq!(got, want.map(|(kind, m, row)| (kind, m, row.clone())), "query {at}: {key:?} M={m}, seed {SEED:#x}");
        *kinds.entry(hit.kind.to_string()).or_default() += 1;
        changed_by_untimed += usize::from(oracle(&tables, &key, m, true) != want);
    }
    let rows = vocabulary.rows.len();
    println!("{} files, {rows} rows, {QUERIES} queries: {kinds:?}", files.len());
    println!("{changed_by_untimed} answers would be a hand-routed row without a time in AITER");
    for kind in ["exact", "padded", "default"] {
        assert!(kinds.get(kind).is_some_and(|hits| *hits > QUERIES / 20), "hardly any {kind} answer: {kinds:?}");
    }
}
