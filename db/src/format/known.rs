//! Values by the text that says them, for readers of rows that say the same again and again.

use super::intern::mix;

/// So many texts of one hash are kept side by side; with one alone, two texts that alternate would drive each other out.
const WAYS: usize = 4;

/// What texts mean, as far as it is remembered: hostile tables of ever new texts take no more memory than others.
#[derive(Debug)]
pub(crate) struct Known<T> {
    slots: Vec<Option<(Box<str>, T)>>,
    /// Which of the [`WAYS`] is given up next.
    next: usize,
}

impl<T: Clone> Known<T> {
    /// Remembers about as many as `count`.
    pub(crate) fn of(count: usize) -> Known<T> {
        Known { slots: vec![None; count.next_power_of_two().max(WAYS)], next: 0 }
    }

    /// The places where `text` may stand.
    fn places(&self, text: &str) -> std::ops::Range<usize> {
        let groups = self.slots.len() / WAYS;
        // The upper bits of a product are the well-mixed ones.
        let group = mix(0, text).checked_shr(u64::BITS - groups.ilog2()).unwrap_or(0) as usize;
        group * WAYS..(group + 1) * WAYS
    }

    /// What `text` means: as remembered, else as `read` reads it.
    pub(crate) fn get<E>(&mut self, text: &str, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let places = self.places(text);
        let found = self.slots[places.clone()].iter().flatten().find(|(have, _)| **have == *text);
        if let Some((_, value)) = found {
            return Ok(value.clone());
        }
        let value = read()?;
        let free = self.slots[places.clone()].iter().position(Option::is_none);
        let way = free.unwrap_or_else(|| {
            self.next = (self.next + 1) % WAYS;
            self.next
        });
        self.slots[places.start + way] = Some((text.into(), value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_keeps_its_value_however_many_there_are() {
        for slots in [0, 1, 4, 64] {
            let mut known = Known::of(slots);
            for round in 0..3 {
                for number in 0..100 {
                    let text = format!("text {number}");
                    assert_eq!(known.get(&text, || Ok::<_, ()>(number)), Ok(number), "round {round}");
                }
            }
            assert_eq!(known.slots.len(), slots.max(WAYS));
        }
    }

    #[test]
    fn what_fits_is_read_once_and_what_fails_is_not_remembered() {
        let mut known = Known::of(4096);
        let mut reads = 0;
        for _ in 0..5 {
            for number in 0..500 {
                let read = || {
                    reads += 1;
                    Ok::<_, ()>(number)
                };
                known.get(&format!("text {number}"), read).unwrap();
            }
        }
        assert!(reads < 550, "{reads}");
        assert_eq!(known.get("bad", || Err("no")), Err("no"));
        assert_eq!(known.get("bad", || Ok::<_, ()>(1)), Ok(1));
    }
}
