//! The messages between parent and worker: JSON behind a 4-byte little-endian length.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tgemm_db::outcome::{ErrorFigures, Outcome};
use tgemm_db::{Environment, Problem, Solution};
pub use tgemm_kernels::measure::{MixEntry, MixTurn};
use tgemm_kernels::{Ask, Between, Effort};

/// The longest message either side accepts.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// What the parent asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Open this device.
    Open {
        /// As on the command line: `cpu`, `scripted:FILE`.
        device: String,
        /// Streams that its process is to have used besides; `None`: as many as is usual for the device.
        streams: Option<u32>,
    },
    /// Turn to this problem: make its operands, forget the former one.
    Problem {
        /// What is to be computed.
        problem: Problem,
        /// Every way in which it is asked for.
        asks: Vec<Ask>,
        /// How many candidates to list.
        effort: Effort,
        /// Seed of the operands' values.
        seed: u64,
        /// Bytes that weights and outputs rotate over; 0 is three times the last-level cache.
        rotation_bytes: u64,
        /// What stands between two launches.
        between: Between,
    },
    /// List what engines get by default for a problem, without turning to it.
    Baselines {
        /// What is to be computed.
        problem: Problem,
        /// Every way in which it is asked for.
        asks: Vec<Ask>,
    },
    /// List solutions that differ from this one in one respect.
    Neighbours {
        /// Which.
        solution: Solution,
    },
    /// Prepare this solution and pack its weights.
    Load {
        /// Which.
        solution: Solution,
    },
    /// Run it twice and hold the result against the reference.
    Verify {
        /// The number that [`Reply::Loaded`] gave.
        id: usize,
        /// A candidate that takes longer, microseconds, is not timed any further; `None`: it always is.
        enough_us: Option<f64>,
    },
    /// Time these one after the other.
    Measure {
        /// In order.
        block: Vec<Entry>,
    },
    /// Make fresh operands at other addresses.
    Refresh {
        /// Seed of their values.
        seed: u64,
    },
    /// Turn to several problems that are timed together: make their operands and load these solutions; forget what was open.
    Mix {
        /// The problems.
        parts: Vec<MixPart>,
        /// One round: whose turn it is, and what comes before.
        round: Vec<MixTurn>,
        /// Seed of the operands' values.
        seed: u64,
        /// As for one problem.
        rotation_bytes: u64,
    },
    /// Time whole rounds of the mix, one entry after the other.
    MeasureMix {
        /// In order.
        block: Vec<MixEntry>,
    },
    /// Forget this candidate and free its packed weights.
    Drop {
        /// Which.
        id: usize,
    },
}

/// One entry of a block to be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The candidate.
    pub id: usize,
    /// Launches to average over.
    pub calls: u32,
}

/// One problem of a mix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixPart {
    /// What is computed.
    pub problem: Problem,
    /// All that may run it.
    pub solutions: Vec<Solution>,
}

/// A solution that a library offers for the problem in hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The solution.
    pub solution: Solution,
    /// If it is a baseline: the call it stands for.
    pub baseline_via: Option<String>,
}

/// What the worker answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The device is open.
    Opened {
        /// What it is.
        environment: Environment,
        /// Libraries that could not be opened, with the reason.
        absent: Vec<(String, String)>,
    },
    /// The operands are there.
    Ready {
        /// All solutions on offer, baselines first.
        candidates: Vec<Candidate>,
    },
    /// Solutions near another.
    Neighbours {
        /// They may be known already.
        solutions: Vec<Solution>,
    },
    /// The solution is prepared.
    Loaded {
        /// Its number from now on.
        id: usize,
        /// What really runs, read back.
        ran: Solution,
        /// Time to pack the weights once, microseconds.
        pack_us: Option<f64>,
    },
    /// It ran twice.
    Verified {
        /// Right or not.
        outcome: Outcome,
        /// How far off.
        error: Option<ErrorFigures>,
        /// Time of one launch, operands in the cache, microseconds.
        call_us: f64,
        /// May it be captured into a graph? `None`: not known.
        graph_safe: Option<bool>,
    },
    /// The mix is ready.
    Mixed {
        /// For each problem, the numbers of its solutions from now on, in their order.
        ids: Vec<Vec<usize>>,
    },
    /// Microseconds a call, or a round of a mix; one figure an entry.
    Measured {
        /// In the order of the block.
        times_us: Vec<f64>,
    },
    /// Something else was at work on the device: the figures mean nothing, and may be had again.
    Disturbed {
        /// What.
        why: String,
    },
    /// Done; nothing to say.
    Done,
    /// It could not be done; the worker lives on.
    Failed {
        /// What that makes of the candidate.
        outcome: Outcome,
    },
}

/// Sends one message.
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let body = serde_json::to_vec(message).map_err(io::Error::other)?;
    if body.len() > MESSAGE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "a message of {} bytes; at most {MESSAGE_BYTES_MAX} are sent",
            body.len()
        )));
    }
    let mut whole = Vec::with_capacity(4 + body.len());
    whole.extend_from_slice(&(body.len() as u32).to_le_bytes());
    whole.extend_from_slice(&body);
    to.write_all(&whole)
}

/// The body's length, from the first four bytes of a message.
pub fn body_bytes(head: [u8; 4]) -> io::Result<usize> {
    let bytes = u32::from_le_bytes(head) as usize;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "a message of {bytes} bytes announced; at most {MESSAGE_BYTES_MAX} are read"
        )));
    }
    Ok(bytes)
}

/// Reads one message; `None` where the other side has closed between messages.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = [0u8; 4];
    match from.read_exact(&mut head) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut body = vec![0; body_bytes(head)?];
    from.read_exact(&mut body)?;
    serde_json::from_slice(&body).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_absurd_lengths_are_refused() {
        let mut pipe = Vec::new();
        send(&mut pipe, &Request::Measure { block: vec![Entry { id: 3, calls: 7 }] }).unwrap();
        send(&mut pipe, &Request::Drop { id: 1 }).unwrap();
        let mut from = &pipe[..];
        match receive::<Request>(&mut from).unwrap() {
            Some(Request::Measure { block }) => assert_eq!(block, [Entry { id: 3, calls: 7 }]),
            other => panic!("{other:?}"),
        }
        assert!(matches!(receive::<Request>(&mut from).unwrap(), Some(Request::Drop { id: 1 })));
        assert!(receive::<Request>(&mut from).unwrap().is_none());
        assert!(receive::<Request>(&mut &[255u8, 255, 255, 255][..]).is_err());
        assert!(receive::<Request>(&mut &[2u8, 0, 0, 0, b'{'][..]).is_err(), "a torn body is an error");
    }

    #[test]
    fn infinite_times_survive() {
        // JSON has no infinity; a figure that is no number must not read back as one.
        let mut pipe = Vec::new();
        send(&mut pipe, &Reply::Measured { times_us: vec![1.5, f64::NAN] }).unwrap();
        assert!(receive::<Reply>(&mut &pipe[..]).is_err());
    }
}
