//! Blocks that were thrown away because something else was at work on the device, and how calm is waited for.

use std::time::Duration;

/// The first wait after a disturbed block, and how often it doubles.
const CALM_FIRST: Duration = Duration::from_millis(20);
const CALM_DOUBLINGS_MAX: u32 = 5;

/// What was thrown away.
#[derive(Clone, Debug, Default)]
pub struct Disturbances {
    /// How many blocks.
    pub blocks: u32,
    /// What the last one was.
    pub last: String,
    in_a_row: u32,
}

impl Disturbances {
    /// Counts a disturbed block and waits for calm, longer each time in a row.
    pub fn wait_for_calm(&mut self, why: String) {
        let wait = CALM_FIRST * (1 << self.in_a_row.min(CALM_DOUBLINGS_MAX));
        self.blocks += 1;
        self.in_a_row += 1;
        self.last = why;
        std::thread::sleep(wait);
    }

    /// A block went undisturbed.
    pub fn calm(&mut self) {
        self.in_a_row = 0;
    }

    /// Adds those of another device.
    pub fn add(&mut self, other: Disturbances) {
        self.blocks += other.blocks;
        if other.blocks > 0 {
            self.last = other.last;
        }
    }
}
