//! How many sets of operands it takes so that none is still in the cache when its turn comes again, and in how many places
//! activations lie meanwhile. Pure arithmetic.

/// Most sets of one rotation. Problems so small that this does not pass the cache stay in it in an engine too, or are
/// dominated by the cost of the call.
pub const COPIES_MAX: usize = 4096;

/// The rotation passes the last-level cache this many times over.
pub const CACHE_MULTIPLE: u64 = 3;

/// Places that activations lie in, in turn, where they are small. Which part of the cache holds a small `x`, from where every
/// compute unit of the device fetches it at once, is up to 4 % of a kernel's time (`docs/results/h200.md`); an engine's lie
/// here and there, and a figure of one place would be that place's.
pub const PLACES: usize = 8;

/// All places together take at most this share of the last-level cache, so that `x` stays warm. A large `x` lies in all parts
/// of the cache anyway.
const PLACES_CACHE_SHARE: u64 = 16;

/// Where the device does not say how large its cache is: as if it were this large.
pub const CACHE_BYTES_ASSUMED: u64 = 64 << 20;

/// Plain weights and outputs take at most this share of the memory to be had; the rest is for packed forms, which may be
/// twice as large and several.
pub const PLAIN_SHARE: f64 = 0.2;

/// Bytes that a rotation should pass through: `asked`, or by the cache where that is 0.
pub fn bytes_wanted(asked: u64, last_level_cache_bytes: u64) -> u64 {
    if asked == 0 { cache_bytes(last_level_cache_bytes).saturating_mul(CACHE_MULTIPLE) } else { asked }
}

fn cache_bytes(said: u64) -> u64 {
    if said == 0 { CACHE_BYTES_ASSUMED } else { said }
}

/// Places for an `x` of `x_bytes`: 1 to [`PLACES`].
pub fn places(x_bytes: u64, last_level_cache_bytes: u64) -> usize {
    let room = cache_bytes(last_level_cache_bytes) / PLACES_CACHE_SHARE / x_bytes.max(1);
    usize::try_from(room).unwrap_or(PLACES).clamp(1, PLACES)
}

/// Launches of one round: every one of `copies` sets as often as the others, and every one of `places`.
pub fn round(copies: usize, places: usize) -> usize {
    let copies = copies.max(1);
    copies * places.max(1).div_ceil(copies)
}

/// Sets of `set_bytes` that pass `wanted` bytes, as far as `room` bytes allow: at least 1, at most [`COPIES_MAX`].
pub fn copies(wanted: u64, set_bytes: u64, room: u64) -> usize {
    let set = set_bytes.max(1);
    let count = wanted.div_ceil(set).min(room / set).max(1);
    usize::try_from(count).unwrap_or(COPIES_MAX).min(COPIES_MAX)
}

/// Copies of a packed form of `pack_bytes` that pass as many bytes as `sets` sets of `set_bytes` do, at most one a set.
pub fn packs(sets: usize, set_bytes: u64, pack_bytes: u64) -> usize {
    let bytes = (sets as u64).saturating_mul(set_bytes);
    usize::try_from(bytes.div_ceil(pack_bytes.max(1))).unwrap_or(sets).clamp(1, sets.max(1))
}

/// The least number of sets that still measures the same thing: a [`CACHE_MULTIPLE`]th of the planned ones, which passes
/// the cache once.
pub fn copies_min(planned: usize) -> usize {
    planned.div_ceil(CACHE_MULTIPLE as usize)
}

/// Where in a round of `round` launches the next arm starts, after one that began at `start` and made `calls`: on the set that
/// has rested longest.
pub fn advance(start: usize, calls: u32, round: usize) -> usize {
    let round = round.max(1);
    (start % round + calls as usize % round) % round
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn larger_forms_need_fewer_copies() {
        assert_eq!(packs(48, 100, 200), 24);
        assert_eq!(packs(48, 100, 100), 48);
        assert_eq!(packs(48, 100, 10), 48, "smaller forms go with their set");
        assert_eq!(packs(5, 100, 201), 3);
        assert_eq!(packs(1, 100, 1000), 1);
        assert_eq!(packs(0, 0, 0), 1);
    }

    proptest! {
        #[test]
        fn sets_cover_what_is_wanted_or_fill_the_room(wanted in 0u64..1 << 40, set in 0u64..1 << 34, room in 0u64..1 << 40) {
            let count = copies(wanted, set, room);
            prop_assert!((1..=COPIES_MAX).contains(&count));
            let bytes = count as u64 * set.max(1);
            prop_assert!(bytes >= wanted || count == COPIES_MAX || bytes + set.max(1) > room);
            prop_assert!(count == 1 || bytes <= room);
            prop_assert!(count == 1 || bytes - set.max(1) < wanted, "one set fewer would not do");
            prop_assert!(copies(wanted, set, room / 2) <= count);
            prop_assert!((1..=count).contains(&copies_min(count)));
        }

        #[test]
        fn a_round_has_every_set_as_often_and_every_place(copies in 1usize..5000, x_bytes in 0u64..1 << 32, cache in 0u64..1 << 32) {
            let places = places(x_bytes, cache);
            prop_assert!((1..=PLACES).contains(&places));
            prop_assert!(places == 1 || places as u64 * x_bytes <= cache_bytes(cache) / PLACES_CACHE_SHARE);
            let round = round(copies, places);
            prop_assert!(round.is_multiple_of(copies) && round >= places && round < copies + places);
        }

        #[test]
        fn an_arm_never_starts_on_what_was_just_used(start in 0usize..5000, calls in 1u32..9999, sets in 2usize..5000) {
            let next = advance(start, calls, sets);
            let last_used = (start + calls as usize - 1) % sets;
            prop_assert!(next < sets);
            prop_assert_eq!(next, (last_used + 1) % sets);
        }
    }

    #[test]
    fn examples() {
        // Three times 260 MiB over a 1024x3072 bf16 weight with its 4 outputs.
        assert_eq!(copies(bytes_wanted(0, 260 << 20), (1024 * 3072 + 4 * 1024) * 2, u64::MAX), 130);
        assert_eq!(copies(bytes_wanted(0, 260 << 20), 57344 * 8192 * 2, u64::MAX), 1);
        assert_eq!(bytes_wanted(5, 260 << 20), 5);
        assert_eq!(bytes_wanted(0, 0), 3 * CACHE_BYTES_ASSUMED);
        assert_eq!(advance(3, u32::MAX, 1), 0);
        assert_eq!(copies_min(130), 44);
        // One token of 4096 bf16 features, and 2048 tokens of them, beside 50 MiB of cache.
        assert_eq!([1, 2048].map(|m| places(m * 4096 * 2, 50 << 20)), [8, 1]);
        assert_eq!([1, 2, 5, 8, 360].map(|copies| round(copies, 8)), [8, 8, 10, 8, 360]);
    }
}
