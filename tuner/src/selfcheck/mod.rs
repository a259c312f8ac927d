//! What the owner of a card runs in the first hour, and sends: everything that says whether this house works on it.
//!
//! | part | holds |
//! |---|---|
//! | [`redact`] | personal data, and how it is kept out |
//! | [`step`] | one command of `tune` as a child with a time limit |
//! | [`routes`] | lists of solutions, and stored solutions asked for again |
//! | [`copy`] | the database of the sweep, written anew without personal data |
//! | [`bundle`], [`tables`] | the files |
//! | [`problems`] | what is tuned |
//!
//! Whatever touches a vendor's library does so in a child process: a library that crashes or hangs is a finding, and the
//! bundle is written all the same.

pub mod bundle;
pub mod copy;
pub mod problems;
pub mod redact;
pub mod routes;
pub mod step;
pub mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tgemm_db::format::untuned;
use tgemm_db::store::Store;
use tgemm_db::{Environment, Recorded};

use crate::sweep::{BenchSettings, Halt, Session};
use crate::worker::Interrupt;
use bundle::Bundle;
use redact::Redactor;
use routes::{Asking, Lists, Route};
use step::Ran;

/// The longest that a command may take which only looks.
const LOOK_MAX: Duration = Duration::from_secs(120);
/// How far past its budget a command may go before it is ended.
const GRACE: Duration = Duration::from_secs(60);
/// Shares of the budget: lists, sweep, verification; stored solutions get what is left.
const LISTS_SHARE: f64 = 0.15;
const SWEEP_SHARE: f64 = 0.5;
const VERIFY_SHARE: f64 = 0.15;

/// What to check.
#[derive(Clone, Debug)]
pub struct Options {
    /// Device as on the command line.
    pub device: String,
    /// Time for lists, sweep and verification.
    pub budget: Duration,
    /// The problems; `None`: the usual dozen.
    pub problems: Option<Vec<Recorded>>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Findings {
    /// Why the device could not be opened, if it could not.
    pub no_device: Option<String>,
    /// Solutions by library, at the greatest effort over all problems.
    pub listed: BTreeMap<String, usize>,
    /// Stored solutions that were asked for again, and went as they should.
    pub routes_held: usize,
    /// All that were asked for.
    pub routes: usize,
    /// Commands with how they ended.
    pub steps: Vec<(String, String, f64)>,
    /// Commands that did not end by themselves, or that must not fail and did.
    pub broken: Vec<String>,
}

impl Findings {
    /// Did everything go as it should?
    pub fn is_whole(&self) -> bool {
        self.no_device.is_none() && self.broken.is_empty() && self.routes > 0 && self.routes_held == self.routes
    }

    /// In sentences.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (step, how, took_s) in &self.steps {
            text += &format!("{step}: {how}, {took_s:.1} s\n");
        }
        if let Some(why) = &self.no_device {
            return text + &format!("no device: {why}\n");
        }
        for (library, count) in &self.listed {
            text += &format!("{library}: {count} solutions on its lists\n");
        }
        text += &format!(
            "{} of {} stored solutions went as they should when asked for again\n",
            self.routes_held, self.routes
        );
        self.broken.iter().for_each(|step| text += &format!("broken: {step}\n"));
        text
    }
}

/// Runs everything; the bundle as a tar file, and what was found.
///
/// # Errors
/// No scratch folder, or a bundle that cannot be packed. Whatever a library does is a finding, not an error.
pub fn gather(options: &Options, redactor: &Redactor, interrupt: &Interrupt) -> anyhow::Result<(Vec<u8>, Findings)> {
    let folder = tempfile::tempdir().context("no scratch folder can be made")?;
    let mut check = Check {
        options,
        interrupt,
        folder: folder.path(),
        bundle: Bundle::new(redactor),
        redactor,
        findings: Findings::default(),
        log: String::new(),
    };
    check.look_around();
    match check.open() {
        Ok(environment) => check.on_device(&environment),
        Err(halt) => check.findings.no_device = Some(halt.to_string()),
    }
    check.finish()
}

/// A check that is going on.
struct Check<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    folder: &'a Path,
    bundle: Bundle<'a>,
    redactor: &'a Redactor,
    findings: Findings,
    log: String,
}

impl Check<'_> {
    /// Runs a command, notes how it ended, and keeps its words: those for people in the log unless `people` names a file.
    fn step(&mut self, args: &[&str], limit: Duration, file: Option<&str>, people: Option<&str>) -> Ran {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let ran = step::run(&args, limit, self.interrupt);
        let name = args.iter().filter(|arg| !arg.contains('/')).cloned().collect::<Vec<_>>().join(" ");
        if ran.code.is_none() {
            self.findings.broken.push(format!("{name}: {}", ran.how));
        }
        self.findings.steps.push((name.clone(), ran.how.clone(), ran.took_s));
        self.log += &format!("== {name}: {}, {:.3} s\n", ran.how, ran.took_s);
        match people {
            Some(people) => self.bundle.add(people, &ran.stderr),
            None => self.log += &ran.stderr,
        }
        if let Some(file) = file {
            self.bundle.add(file, &ran.stdout);
        }
        ran
    }

    fn look_around(&mut self) {
        for (file, args) in [
            ("doctor.txt", &["doctor"][..]),
            ("doctor.json", &["doctor", "--json"]),
            ("devices.txt", &["devices"]),
            ("devices.json", &["devices", "--json"]),
        ] {
            let ran = self.step(args, LOOK_MAX, Some(file), None);
            if ran.code.is_some_and(|code| code != 0) {
                self.findings.broken.push(format!("{}: {}", args.join(" "), ran.how));
            }
        }
    }

    /// The device's environment, by a worker of its own.
    fn open(&mut self) -> Result<Environment, Halt> {
        let settings = BenchSettings {
            effort: tgemm_kernels::Effort::Minimal,
            seed: 1,
            rotation_bytes: 1,
            between: tgemm_kernels::Between { kernels: Some(0), ..tgemm_kernels::Between::default() },
            streams: Some(0),
        };
        let mut session = Session::new(&self.options.device, settings, 1000.0, self.interrupt.clone());
        let (environment, absent) = session.open()?;
        let clean = self.redactor.environment(&environment);
        let text = serde_json::json!({ "environment": clean, "absent": absent });
        self.bundle.add("environment.json", &format!("{text}\n"));
        Ok(environment)
    }

    fn on_device(&mut self, environment: &Environment) {
        let rows = self.options.problems.clone().unwrap_or_else(|| problems::dozen(&environment.device));
        let rows: Vec<Recorded> = rows.iter().map(|row| self.redactor.recorded(row)).collect();
        let text = untuned::to_text(&rows);
        self.bundle.add("problems.csv", &text);
        self.list(&rows);
        let (csv, db) = (self.folder.join("problems.csv"), self.folder.join("sweep.sqlite"));
        if let Err(e) = std::fs::write(&csv, text) {
            self.findings.broken.push(format!("scratch folder: {e}"));
            return;
        }
        self.sweep(&csv, &db);
        match Store::open_read_only(&db) {
            Ok(store) => self.ask_again(&store),
            Err(e) => self.findings.broken.push(format!("the sweep's database: {e}")),
        }
    }

    fn asking(&self, share: f64) -> Asking<'_> {
        let until = Instant::now() + self.options.budget.mul_f64(share);
        Asking { device: &self.options.device, until, interrupt: self.interrupt }
    }

    fn list(&mut self, rows: &[Recorded]) {
        let lists = self
            .asking(LISTS_SHARE)
            .lists(rows)
            .unwrap_or_else(|halt| Lists { failed: vec![(String::new(), halt.to_string())], ..Lists::default() });
        for offer in lists.offers.iter().filter(|offer| offer.effort == "full") {
            *self.findings.listed.entry(offer.library.clone()).or_default() += offer.baselines + offer.candidates;
        }
        self.bundle.add("lists.csv", &tables::lists(&lists));
        self.bundle.add("solutions.csv", &tables::solutions(&lists));
    }

    fn sweep(&mut self, csv: &Path, db: &Path) {
        let budget = |share: f64| self.options.budget.mul_f64(share).max(Duration::from_secs(1));
        let (sweep_time, verify_time) = (budget(SWEEP_SHARE), budget(VERIFY_SHARE));
        let seconds = |time: Duration| format!("{:.1}s", time.as_secs_f64());
        let choices = self.folder.join("choices.csv");
        let (csv, db, tuned) = (text(csv), text(db), text(&choices));
        let device = self.options.device.clone();
        let time = seconds(sweep_time);
        let files = ["sweep", &csv, "--db", &db, "--csv", &tuned];
        let args = [&files[..], &["--device", &device, "--verbose", "--json", "--budget", &time]].concat();
        self.step(&args, sweep_time + GRACE, Some("sweep.jsonl"), Some("sweep.txt"));
        self.step(&["report", "--db", &db], LOOK_MAX, Some("report.md"), None);
        let args = ["verify", "--db", &db, "--device", &device, "--json", "--budget", &seconds(verify_time)];
        self.step(&args, verify_time + GRACE, Some("verify.jsonl"), None);
        if let Ok(text) = std::fs::read_to_string(&choices) {
            self.bundle.add("choices.csv", &text);
        }
    }

    /// Stored solutions in fresh workers, and the database itself.
    fn ask_again(&mut self, store: &Store) {
        let mut routes: Vec<Route> = Vec::new();
        let share = 1.0 - LISTS_SHARE - SWEEP_SHARE - VERIFY_SHARE;
        match self.routes(store, share, &mut routes) {
            Ok(()) => {}
            Err(e) => self.findings.broken.push(format!("stored solutions: {e:#}")),
        }
        self.findings.routes = routes.len();
        self.findings.routes_held = routes.iter().filter(|route| route.holds()).count();
        self.bundle.add("routes.csv", &tables::routes(&routes));
        let clean: PathBuf = self.folder.join("clean.sqlite");
        let copied = copy::redacted(store, &clean, self.redactor).map_err(anyhow::Error::from);
        match copied.and_then(|()| Ok(std::fs::read(&clean)?)) {
            Ok(bytes) => self.bundle.add_clean("sweep.sqlite", bytes),
            Err(e) => self.findings.broken.push(format!("the copy of the database: {e:#}")),
        }
    }

    fn routes(&self, store: &Store, share: f64, routes: &mut Vec<Route>) -> anyhow::Result<()> {
        let asking = self.asking(share);
        for (id, _) in store.environments()? {
            for row in store.recorded()? {
                routes.extend(asking.again(&row.problem, &store.trials(id, &row.problem)?)?);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<(Vec<u8>, Findings)> {
        let log = std::mem::take(&mut self.log);
        self.bundle.add("log.txt", &log);
        let now = jiff::Timestamp::now().strftime("%Y-%m-%d");
        let text = format!(
            "tgemm {} self-check of {}, {now}\n\n{}\n{FILES}",
            env!("CARGO_PKG_VERSION"),
            self.options.device,
            self.findings.summary()
        );
        self.bundle.add_first("README.txt", &text);
        Ok((self.bundle.to_tar().context("the bundle cannot be packed")?, self.findings))
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// What is in a bundle, for its reader.
const FILES: &str = "\
doctor.*          every library: where it was looked for, which file was loaded, its version, symbols it lacks
devices.*         devices with their libraries
environment.json  the device that was checked, as a worker sees it
problems.csv      what was tuned
lists.csv         how many solutions each library lists, by problem and effort
solutions.csv     the first of them by index and name
sweep.jsonl       the sweep's events: every candidate with outcome and time
sweep.txt         the same for people
sweep.sqlite      the sweep's database
choices.csv       what it chose
report.md         that in tables
verify.jsonl      each choice measured again
routes.csv        stored solutions asked for again in a fresh worker: what was asked, what ran
log.txt           how each command ended, and its warnings

Home folders are written as ~, names of users and hosts and network addresses as <user>, <host>, <address>.
";
