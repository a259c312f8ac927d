//! Whose tables count: the user's before the site's before what ships.

use std::path::{Path, PathBuf};

/// The environment variable that names the user's tables, `:`-separated, the first counting most. It adds to the others and
/// replaces none.
pub const ENV_DATABASES: &str = "TGEMM_DB";

/// A table inside the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// What messages call it.
    pub name: &'static str,
    /// Its text, in any format that is read.
    pub text: &'static str,
}

/// Tables in three groups. At one M of a site the first table that has a row which may run answers; whatever is exact
/// goes before whatever is borrowed, in any of them.
///
/// ```
/// # use tgemm_db::{Environment, device::{Device, Vendor}};
/// # let here = Environment { device: Device::named(Vendor::Cpu, "x86_64-v4", 8), builds: vec![],
/// #     driver: String::new(), vars: Default::default() };
/// use tgemm_lookup::{Database, Layers, Shipped};
///
/// let shipped = Shipped { name: "defaults.csv", text: "M,N,K,bias,dtype,libtype,solidx,us\n" };
/// let layers = Layers::from_env().with_site(["/etc/engine/tuned.csv".into()]).with_shipped([shipped]);
/// let (database, report) = Database::open_layers(&layers, &here);
/// println!("{report}"); // a line for each table, in the order in which they count
/// # assert!(database.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layers {
    /// Counts most.
    pub user: Vec<PathBuf>,
    /// What the machine's or the engine's owner put there.
    pub site: Vec<PathBuf>,
    /// Counts least.
    pub shipped: Vec<Shipped>,
}

impl Layers {
    /// The user's tables as `TGEMM_DB` names them; unset means none.
    pub fn from_env() -> Layers {
        Layers::from_list(&std::env::var_os(ENV_DATABASES).unwrap_or_default())
    }

    /// The user's tables as a `:`-separated list names them.
    pub fn from_list(list: &std::ffi::OsStr) -> Layers {
        let paths = std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty());
        Layers { user: paths.collect(), ..Layers::default() }
    }

    /// And these tables of the site.
    pub fn with_site(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Layers {
        self.site.extend(paths);
        self
    }

    /// And these that ship.
    pub fn with_shipped(mut self, tables: impl IntoIterator<Item = Shipped>) -> Layers {
        self.shipped.extend(tables);
        self
    }

    /// All tables in the order in which they count.
    pub(crate) fn tables(&self) -> impl Iterator<Item = Table<'_>> {
        self.files().map(Table::File).chain(self.shipped.iter().map(Table::Shipped))
    }

    /// All files in the order in which they count.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.user.iter().chain(&self.site).map(PathBuf::as_path)
    }
}

/// One table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Table<'a> {
    File(&'a Path),
    Shipped(&'a Shipped),
}

impl Table<'_> {
    /// What messages call it.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Table::File(path) => path,
            Table::Shipped(shipped) => Path::new(shipped.name),
        }
    }
}
