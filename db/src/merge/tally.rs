//! One fixed-size note a row, and who wins.

use std::cmp::Ordering;

use super::identity::{Ids, Place, content, layer};
use super::order::Standing;
use super::source::Spot;
use super::{Fate, MergeError, ROWS_MAX};
use crate::choice::Choice;
use crate::device::Device;
use crate::problem::Problem;
use crate::solution::Solution;

/// What is remembered of a row.
#[derive(Clone, Copy, Debug)]
struct Note {
    content: u128,
    bound: f64,
    time_us: f64,
    spot: Spot,
    layer: u32,
    m: u32,
    place: u32,
    solution: u32,
    tuned_at: u32,
    source: u32,
}

/// All notes, and the values that they name by number.
#[derive(Debug, Default)]
pub(super) struct Tally {
    notes: Vec<Note>,
    layers: Ids<Problem>,
    places: Ids<Place>,
    devices: Ids<Device>,
    /// By number of the place: the number of its device.
    device_of: Vec<u32>,
    solutions: Ids<Solution>,
    stamps: Ids<String>,
}

/// A row of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Winner {
    pub(super) source: u32,
    pub(super) spot: Spot,
}

impl Tally {
    /// Notes a row of `source`.
    pub(super) fn note(&mut self, choice: &Choice, source: u32, spot: Spot) -> Result<(), MergeError> {
        if self.notes.len() == ROWS_MAX {
            return Err(MergeError::TooManyRows);
        }
        let standing = Standing::of(choice);
        let (layer, m) = layer(&choice.problem);
        let place = Place::of(choice);
        let device = self.devices.of(place.device());
        let place = self.places.of(&place);
        if place as usize == self.device_of.len() {
            self.device_of.push(device);
        }
        self.notes.push(Note {
            content: content(choice),
            bound: standing.bound,
            time_us: standing.time_us,
            spot,
            layer: self.layers.of(&layer),
            m,
            place,
            solution: self.solutions.of(&choice.solution),
            tuned_at: self.stamps.of(&choice.tuned_at),
            source,
        });
        Ok(())
    }

    fn standing(&self, note: &Note) -> Standing<'_> {
        Standing {
            bound: note.bound,
            tuned_at: self.stamps.get(note.tuned_at),
            time_us: note.time_us,
            solution: self.solutions.get(note.solution),
        }
    }

    /// Better first. Behind what the rule looks at stands the rest of the row, and behind that, of equal rows, where
    /// they stand: so one set of rows has one result.
    fn compare(&self, a: &Note, b: &Note, names: &[u32]) -> Ordering {
        let name = |note: &Note| names[note.source as usize];
        self.standing(a)
            .compare(&self.standing(b))
            .then_with(|| a.content.cmp(&b.content))
            .then_with(|| name(a).cmp(&name(b)))
            .then_with(|| (a.spot.line, a.spot.at).cmp(&(b.spot.line, b.spot.at)))
    }

    /// The winners in the order of the result (layers in their order, each by ascending tokens, then by device, the
    /// better first), and `tell` of each other row's source, and to which it lost. `names` are the sources' ranks by name.
    pub(super) fn decide(mut self, names: &[u32], mut tell: impl FnMut(u32, Fate)) -> Vec<Winner> {
        let mut notes = std::mem::take(&mut self.notes);
        let key = |note: &Note| (note.layer, note.m, note.place);
        notes.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then_with(|| self.compare(a, b, names)));
        let mut winner: Option<Note> = None;
        notes.retain(|note| match &winner {
            Some(best) if key(best) == key(note) => {
                let is_same = best.content == note.content;
                tell(note.source, if is_same { Fate::Identical } else { Fate::LostTo(best.source as usize) });
                false
            }
            _ => {
                tell(note.source, Fate::Won);
                winner = Some(*note);
                true
            }
        });
        let (layers, devices) = (self.layers.ranks(), self.devices.ranks());
        let place =
            |note: &Note| (layers[note.layer as usize], note.m, devices[self.device_of[note.place as usize] as usize]);
        notes.sort_unstable_by(|a, b| {
            place(a)
                .cmp(&place(b))
                .then_with(|| self.compare(a, b, names))
                .then_with(|| self.places.get(a.place).cmp(self.places.get(b.place)))
        });
        notes.iter().map(|note| Winner { source: note.source, spot: note.spot }).collect()
    }
}
