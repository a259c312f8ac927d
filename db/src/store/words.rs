//! Problems, solutions, environments and constraints: stored once each, rows refer to them by number.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::columns::{Columns, bounded, integer};
use super::error::Fault;
use super::known::{ById, Recent};
use crate::choice::Constraints;
use crate::device::{Build, Device, Environment, Vendor};
use crate::problem::Problem;
use crate::solution::{Numerics, Params, Solution};

/// The number of `problem`, stored now if it is new.
pub(super) fn problem_id(connection: &Connection, problem: &Problem) -> Result<i64, Fault> {
    let key = problem.to_string();
    if let Some(id) = find_problem(connection, &key)? {
        return Ok(id);
    }
    let [m, n, k] = match problem {
        Problem::Gemm(gemm) => [gemm.m, gemm.site.n, gemm.site.k],
        // vLLM's tables do not say `model_dim`; the key says 0 then, and the schema wants every size above that.
        Problem::Moe(moe) => [moe.m, moe.site.inter_dim, moe.site.model_dim.max(1)],
    };
    let mut insert = connection.prepare_cached("INSERT INTO problem (key, m, n, k) VALUES (?1, ?2, ?3, ?4)")?;
    Ok(insert.insert(params![key, m, n, k])?)
}

/// The number of the problem with this key.
pub(super) fn find_problem(connection: &Connection, key: &str) -> Result<Option<i64>, Fault> {
    let mut find = connection.prepare_cached("SELECT id FROM problem WHERE key = ?1")?;
    Ok(find.query_row([key], |row| row.get(0)).optional()?)
}

fn build_id(connection: &Connection, build: &Build) -> Result<i64, Fault> {
    let Build { library, version, revision } = build;
    let mut find =
        connection.prepare_cached("SELECT id FROM build WHERE library = ?1 AND version = ?2 AND revision = ?3")?;
    if let Some(id) = find.query_row(params![library, version, revision], |row| row.get(0)).optional()? {
        return Ok(id);
    }
    let mut insert = connection.prepare_cached("INSERT INTO build (library, version, revision) VALUES (?1, ?2, ?3)")?;
    Ok(insert.insert(params![
        bounded("a library name", library)?,
        bounded("a library version", version)?,
        bounded("a library revision", revision)?
    ])?)
}

/// The number of the solution's identity (build, index, name, parameters, weight form), stored now if it is new.
pub(super) fn solution_id(connection: &Connection, solution: &Solution) -> Result<i64, Fault> {
    let Build { library, version, revision } = &*solution.build;
    let (name, parameters, form): (&str, _, _) =
        (&solution.name, solution.params.to_string(), solution.weight_form.name());
    let mut find = connection.prepare_cached(
        "SELECT id FROM solution
         WHERE build = (SELECT id FROM build WHERE library = ?1 AND version = ?2 AND revision = ?3)
             AND solution_index = ?4 AND name = ?5 AND params = ?6 AND weight_form = ?7",
    )?;
    let identity = params![library, version, revision, solution.index, name, parameters, form];
    if let Some(id) = find.query_row(identity, |row| row.get(0)).optional()? {
        return Ok(id);
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO solution (build, solution_index, name, params, weight_form) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    Ok(insert.insert(params![
        build_id(connection, &solution.build)?,
        solution.index,
        bounded("a solution name", name)?,
        bounded("parameters", &parameters)?,
        form
    ])?)
}

/// The identities of all solutions that `filter` admits, by number; [`Promises`] completes one.
pub(super) fn solutions(
    connection: &Connection,
    filter: &str,
    parameters: impl rusqlite::Params,
) -> Result<ById<Solution>, Fault> {
    let mut builds: HashMap<i64, Arc<Build>> = HashMap::new();
    let mut select = connection.prepare_cached(&format!(
        "SELECT solution.id, build.id, library, version, revision, solution_index, name, params, weight_form
         FROM solution JOIN build ON build.id = solution.build {filter}"
    ))?;
    let mut rows = select.query(parameters)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut c = Columns::of(row, "solution");
        let (id, build): (i64, i64) = (c.get()?, c.get()?);
        let read = Build { library: c.get()?, version: c.get()?, revision: c.get()? };
        let solution = Solution {
            build: Arc::clone(builds.entry(build).or_insert_with(|| Arc::new(read))),
            index: c.get()?,
            name: c.get::<String>()?.into(),
            params: c.parse::<Params>("params")?,
            weight_form: c.parse("weight_form")?,
            workspace_bytes: 0,
            numerics: Numerics::Exact,
            deterministic: None,
            graph_safe: None,
        };
        found.push((id, solution));
    }
    Ok(ById::new(found))
}

/// What a solution needs and promises for one problem: the part of it that is no identity.
pub(super) struct Promises {
    pub(super) workspace_bytes: u64,
    pub(super) numerics: Numerics,
    pub(super) deterministic: Option<bool>,
    pub(super) graph_safe: Option<bool>,
}

impl Promises {
    /// From the next four columns: workspace_bytes, numerics, deterministic, graph_safe.
    pub(super) fn read(c: &mut Columns<'_>, numerics: &mut Recent<Numerics>) -> Result<Promises, Fault> {
        Ok(Promises {
            workspace_bytes: c.unsigned()?,
            numerics: c.recent("numerics", numerics)?,
            deterministic: c.known()?,
            graph_safe: c.known()?,
        })
    }

    /// The whole solution.
    pub(super) fn complete(self, identity: i64, identities: &ById<Solution>) -> Result<Solution, Fault> {
        let found = identities.get(identity);
        let found = found.ok_or_else(|| Fault::Damaged(format!("no solution has the number {identity}")))?;
        let Promises { workspace_bytes, numerics, deterministic, graph_safe } = self;
        Ok(Solution { workspace_bytes, numerics, deterministic, graph_safe, ..found.clone() })
    }
}

/// What makes an environment: everything but the cache size. The order of fields is the canonical order.
#[derive(Serialize, Deserialize)]
struct Identity {
    device: DeviceIdentity,
    builds: Vec<Build>,
    driver: String,
    vars: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct DeviceIdentity {
    vendor: Vendor,
    arch: String,
    compute_units: u32,
    memory_gib: Option<u32>,
    chip_id: Option<u32>,
    partition: Option<String>,
}

/// The canonical text of an environment: fields in declaration order, builds sorted.
fn environment_text(environment: &Environment) -> Result<String, Fault> {
    let Environment { device, builds, driver, vars } = environment.clone();
    let Device { vendor, arch, compute_units, memory_gib, chip_id, partition, last_level_cache_bytes: _ } = device;
    let device = DeviceIdentity { vendor, arch, compute_units, memory_gib, chip_id, partition };
    let mut identity = Identity { device, builds, driver, vars };
    identity.builds.sort();
    let text = serde_json::to_string(&identity).map_err(|e| Fault::Damaged(e.to_string()))?;
    bounded("an environment", &text)?;
    Ok(text)
}

/// The number of `environment`, stored now if it is new; a known cache size replaces an older one.
pub(super) fn environment_id(connection: &Connection, environment: &Environment) -> Result<i64, Fault> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO environment (identity, last_level_cache_bytes) VALUES (?1, ?2)
         ON CONFLICT (identity) DO UPDATE SET last_level_cache_bytes = excluded.last_level_cache_bytes
             WHERE excluded.last_level_cache_bytes > 0",
    )?;
    let text = environment_text(environment)?;
    upsert.execute(params![text, integer(environment.device.last_level_cache_bytes)])?;
    let mut find = connection.prepare_cached("SELECT id FROM environment WHERE identity = ?1")?;
    Ok(find.query_row([text], |row| row.get(0))?)
}

/// Every environment by number.
pub(super) fn environments(connection: &Connection) -> Result<BTreeMap<i64, Arc<Environment>>, Fault> {
    let mut select = connection.prepare_cached("SELECT id, last_level_cache_bytes, identity FROM environment")?;
    let mut rows = select.query([])?;
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let mut c = Columns::of(row, "environment");
        found.insert(c.get()?, Arc::new(read_environment(&mut c)?));
    }
    Ok(found)
}

/// The environment with this number.
pub(super) fn environment(connection: &Connection, id: i64) -> Result<Option<Environment>, Fault> {
    let mut select =
        connection.prepare_cached("SELECT last_level_cache_bytes, identity FROM environment WHERE id = ?1")?;
    let mut rows = select.query([id])?;
    rows.next()?.map(|row| read_environment(&mut Columns::of(row, "environment"))).transpose()
}

/// From the next two columns: last_level_cache_bytes, identity.
fn read_environment(c: &mut Columns<'_>) -> Result<Environment, Fault> {
    let last_level_cache_bytes = c.unsigned()?;
    let Identity { device, builds, driver, vars } = json(&c.get::<String>()?, "environment")?;
    let DeviceIdentity { vendor, arch, compute_units, memory_gib, chip_id, partition } = device;
    let device = Device { vendor, arch, compute_units, memory_gib, chip_id, partition, last_level_cache_bytes };
    Ok(Environment { device, builds, driver, vars })
}

/// The canonical text of constraints: fields in declaration order, sets sorted.
pub(super) fn constraints_text(constraints: &Constraints) -> Result<String, Fault> {
    let text = serde_json::to_string(constraints).map_err(|e| Fault::Damaged(e.to_string()))?;
    bounded("constraints", &text)?;
    Ok(text)
}

/// The number of `constraints`, stored now if they are new.
pub(super) fn constraints_id(connection: &Connection, constraints: &Constraints) -> Result<i64, Fault> {
    let text = constraints_text(constraints)?;
    let mut find = connection.prepare_cached("SELECT id FROM constraints WHERE identity = ?1")?;
    if let Some(id) = find.query_row([&text], |row| row.get(0)).optional()? {
        return Ok(id);
    }
    Ok(connection.prepare_cached("INSERT INTO constraints (identity) VALUES (?1)")?.insert([&text])?)
}

/// All constraints by number.
pub(super) fn constraints(connection: &Connection) -> Result<HashMap<i64, Arc<Constraints>>, Fault> {
    let mut select = connection.prepare_cached("SELECT id, identity FROM constraints")?;
    let mut rows = select.query([])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(1)?;
        found.insert(row.get(0)?, Arc::new(json(&text, "constraints")?));
    }
    Ok(found)
}

fn json<T: serde::de::DeserializeOwned>(text: &str, table: &'static str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::Stored {
        table,
        column: "identity",
        value: text.into(),
        reason: error.to_string(),
    })
}
