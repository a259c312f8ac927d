//! What a caller has open, and what was answered.

use tgemm::constraints::{TgemmConstraints, tgemm_constraints_close};
use tgemm::database::{TgemmDatabase, tgemm_database_close};
use tgemm::lookup::{TgemmHit, TgemmSite, tgemm_site_close};
use tgemm::recorder::{TgemmRecorder, tgemm_recorder_close};
use tgemm::text::TgemmText;

use super::memory::Memory;
use super::products::{self, Products};
use crate::feed::Feed;

/// Handles of one kind that are open at once.
const OPEN_MAX: usize = 4;
/// Answers that are kept to be looked at again.
const ANSWERS_MAX: usize = 16;

/// Whose an answer is: how long its texts are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Database(*mut TgemmDatabase),
    Site(*mut TgemmSite),
}

pub(super) struct Database {
    pub(super) handle: *mut TgemmDatabase,
    /// No other database of this program has or had it.
    pub(super) number: usize,
}

/// What is known of a database by its number, whether it is open or only its sites are.
#[derive(Default)]
struct Told {
    /// Lookups that succeeded.
    lookups: u64,
    /// Reloads that did.
    reloads: u64,
}

pub(super) struct Site {
    pub(super) handle: *mut TgemmSite,
    pub(super) database: usize,
}

/// An answer with its texts as they were first.
struct Answer {
    owner: Owner,
    /// Number of the database that it is from, and that one's reloads until then.
    database: usize,
    reloads: u64,
    texts: [TgemmText; 5],
    were: [Vec<u8>; 5],
}

/// All of it.
#[derive(Default)]
pub(super) struct Model {
    pub(super) databases: Vec<Database>,
    pub(super) sites: Vec<Site>,
    pub(super) constraints: Vec<*mut TgemmConstraints>,
    pub(super) recorders: Vec<*mut TgemmRecorder>,
    pub(super) products: Products,
    answers: Vec<Answer>,
    told: Vec<Told>,
}

/// One of those that are open, if there is one; rarely none.
pub(super) fn pick<'a, T>(open: &'a [T], feed: &mut Feed<'_>) -> Option<&'a T> {
    match feed.rarely(32) {
        true => None,
        false => open.get(feed.below(open.len())),
    }
}

fn bytes(text: &TgemmText) -> &[u8] {
    assert!(!text.data.is_null(), "a text without data");
    // SAFETY: the header says that it can be read now; AddressSanitizer knows whether that is so.
    unsafe { std::slice::from_raw_parts(text.data.cast::<u8>(), text.bytes) }
}

impl Model {
    /// Must one be closed before another is opened?
    pub(super) fn is_full<T>(open: &[T]) -> bool {
        open.len() >= OPEN_MAX
    }

    pub(super) fn add_database(&mut self, handle: *mut TgemmDatabase) {
        self.databases.push(Database { handle, number: self.told.len() });
        self.told.push(Told::default());
    }

    pub(super) fn reloaded(&mut self, at: usize) {
        self.told[self.databases[at].number].reloads += 1;
    }

    /// Lookups of a database and its sites that succeeded.
    pub(super) fn lookups(&self, database: usize) -> u64 {
        self.told[database].lookups
    }

    /// Counts an answer of the database with this number, and keeps it if the caller's structure has room for all of it.
    pub(super) fn add_answer(&mut self, owner: Owner, database: usize, memory: &Memory) {
        self.told[database].lookups += 1;
        if memory.bytes().len() < size_of::<TgemmHit>() {
            return;
        }
        // SAFETY: as large as that, and any bytes are one.
        let hit = unsafe { memory.pointer::<TgemmHit>().read_unaligned() };
        assert!(hit.kind <= 4 && (hit.kind != 0 || hit.tuned_m == 0), "{hit:?}");
        let texts = [hit.library, hit.version, hit.revision, hit.name, hit.params];
        let were = texts.map(|text| {
            assert!(std::str::from_utf8(bytes(&text)).is_ok(), "a text that is no UTF-8");
            bytes(&text).to_vec()
        });
        if self.answers.len() == ANSWERS_MAX {
            self.answers.remove(0);
        }
        let reloads = self.told[database].reloads;
        self.answers.push(Answer { owner, database, reloads, texts, were });
    }

    /// Looks at every answer that must still be there.
    pub(super) fn read_all(&self) {
        for answer in &self.answers {
            for (text, was) in answer.texts.iter().zip(&answer.were) {
                assert!(bytes(text) == was, "the text of an answer has changed");
            }
        }
    }

    /// Answers that are gone.
    fn forget(&mut self, owner: Owner) {
        self.answers.retain(|answer| answer.owner != owner);
    }

    pub(super) fn close_database(&mut self, at: usize) {
        let Database { handle, .. } = self.databases.remove(at);
        self.forget(Owner::Database(handle));
        // SAFETY: open until now.
        unsafe { tgemm_database_close(handle) };
    }

    pub(super) fn close_site(&mut self, at: usize) {
        let Site { handle, .. } = self.sites.remove(at);
        self.forget(Owner::Site(handle));
        // SAFETY: open until now.
        unsafe { tgemm_site_close(handle) };
    }

    /// A database is trimmed: what was answered before its last reload is gone, also by its sites.
    pub(super) fn trimmed(&mut self, at: usize) {
        let number = self.databases[at].number;
        let reloads = self.told[number].reloads;
        self.answers.retain(|answer| answer.database != number || answer.reloads == reloads);
    }

    /// Closes everything, sites last: they outlive their database.
    pub(super) fn close(&mut self) {
        products::close_all(self);
        while !self.databases.is_empty() {
            self.close_database(0);
            self.read_all();
        }
        while !self.sites.is_empty() {
            self.close_site(0);
            self.read_all();
        }
        for constraints in self.constraints.drain(..) {
            // SAFETY: open until now.
            unsafe { tgemm_constraints_close(constraints) };
        }
        for recorder in self.recorders.drain(..) {
            // SAFETY: open until now, or that of the process, which stays.
            unsafe { tgemm_recorder_close(recorder) };
        }
    }
}
