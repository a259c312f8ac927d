//! What a launch does, and what the script has it do wrong.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::memory::{ANYONE, bytes_at_mut};
use super::product::compute;
use super::{GemmWork, Host, ILLEGAL_ADDRESS, Refused, Work};
use crate::gemm::{Factor, Gemm, Matrix, Scale};
use crate::script::Fault;
use crate::trace::{How, Line};

/// How many elements are written behind the output.
const ELEMENTS_BEHIND: usize = 16;

/// Time that a fill, a copy or another kernel takes.
const SMALL_WORK_US: f64 = 2.0;

impl Host {
    /// Enqueues a product, unless its solution is scripted to refuse.
    pub fn enqueue_gemm(&mut self, stream: usize, work: GemmWork) -> Result<(), Refused> {
        match work.solution.fault {
            Fault::ErrorStatus(status) => return Err(Refused::Status(status)),
            Fault::Abort => std::process::abort(),
            Fault::Segfault => segfault(),
            Fault::CaptureFails if self.capture_status(stream).is_ok_and(|status| status != 0) => {
                self.spoil(stream);
                return Err(Refused::Failed);
            }
            _ => {}
        }
        self.enqueue(stream, &Work::Gemm(Box::new(work))).map_err(|_| Refused::Failed)
    }

    /// Runs `work`: advances the clock, does what it does, traces it.
    pub(super) fn run(&mut self, stream: usize, work: &Work, how: How) {
        self.launches += 1;
        let cost_us = match work {
            Work::Gemm(work) => work.solution.sample_us(&work.gemm, &self.device, self.launches),
            _ => SMALL_WORK_US,
        };
        if let Ok(on) = self.stream(stream) {
            on.clock_us += cost_us;
        }
        match work {
            Work::Gemm(work) => self.run_gemm(stream, work),
            Work::Set { to, byte, bytes } => {
                if self.reaches(&[(*to, *bytes)]) {
                    bytes_at_mut(*to, *bytes).fill(*byte);
                    self.memory.note_write(*to, *bytes, ANYONE);
                }
            }
            Work::Copy { to, from, bytes } => {
                crate::abi::write_bytes(*to, &crate::abi::read_bytes(*from, *bytes));
                self.memory.note_write(*to, *bytes, ANYONE);
            }
            Work::Kernel { .. } => {}
        }
        self.traced(stream, work, how, cost_us);
    }

    /// Do all ranges lie in memory? If not, the device is lost.
    fn reaches(&mut self, ranges: &[(usize, usize)]) -> bool {
        let holds = ranges.iter().all(|(address, bytes)| self.memory.holds(*address, *bytes));
        if !holds {
            self.lost = Some(ILLEGAL_ADDRESS);
        }
        holds
    }

    fn run_gemm(&mut self, stream: usize, work: &GemmWork) {
        let (gemm, fault) = (&work.gemm, work.solution.fault);
        match fault {
            Fault::Hang => {
                if let Ok(on) = self.stream(stream) {
                    on.is_hung = true;
                }
                return;
            }
            Fault::IllegalAddress => {
                self.lost = Some(ILLEGAL_ADDRESS);
                return;
            }
            _ => {}
        }
        let read = operands(gemm);
        let output = (gemm.d.address, gemm.d.span_bytes(gemm.batch));
        if !self.reaches(&read) || !self.reaches(&[output]) || output.1 == 0 {
            return;
        }
        let writer = self.signature(work, &read);
        let repeats = !matches!(fault, Fault::OutOfBounds | Fault::Nondeterministic);
        if repeats && !reads_output(gemm) && self.memory.is_by(output.0, output.1, writer) {
            return;
        }
        let needed = usize::try_from(work.solution.workspace_bytes(gemm)).unwrap_or(usize::MAX);
        if needed > 0 && self.memory.holds(work.workspace, needed) {
            // Partial sums were here: whatever the caller had in it is gone.
            bytes_at_mut(work.workspace, needed).fill(0xa5);
            self.memory.note_write(work.workspace, needed, ANYONE);
        }
        let behind = write_output(gemm, fault, self.launches);
        self.memory.note_write(output.0, output.1 + behind, ANYONE);
        if behind == 0 {
            self.memory.note_write(output.0, output.1, writer);
        }
    }

    /// Two launches of one signature give the same bytes: the product, the factors' values, and the operands' versions.
    fn signature(&self, work: &GemmWork, read: &[(usize, usize)]) -> u64 {
        let mut hasher = DefaultHasher::new();
        work.gemm.hash(&mut hasher);
        [work.gemm.alpha, work.gemm.beta].map(|factor| factor.value().to_bits()).hash(&mut hasher);
        work.solution.fault.hash(&mut hasher);
        for (address, bytes) in read {
            self.memory.version(*address, *bytes).hash(&mut hasher);
        }
        // 0 is anyone's.
        hasher.finish().max(1)
    }

    pub(super) fn traced(&mut self, stream: usize, work: &Work, how: How, us: f64) {
        let none = Line { library: "", index: 0, kernel: "", m: 0, n: 0, k: 0, batch: 0, stream, how, us, process: 0 };
        let base = Line { process: std::process::id(), ..none };
        match work {
            Work::Gemm(work) => {
                let Gemm { m, n, k, batch, .. } = work.gemm;
                let (library, index, kernel) = (work.library, work.index.into(), work.solution.name.as_str());
                self.trace.write(&Line { library, index, kernel, m, n, k, batch, ..base });
            }
            Work::Kernel { name } => self.trace.write(&Line { library: "module", kernel: name, ..base }),
            Work::Set { .. } | Work::Copy { .. } => {}
        }
    }
}

/// Does the launch read what it writes?
fn reads_output(gemm: &Gemm) -> bool {
    let range = |matrix: &Matrix| (matrix.address, matrix.address + matrix.span_bytes(gemm.batch));
    let ((c, c_end), (d, d_end)) = (range(&gemm.c), range(&gemm.d));
    gemm.beta.value() != 0.0 && c < d_end && d < c_end
}

/// The ranges that a launch reads: (address, bytes).
fn operands(gemm: &Gemm) -> Vec<(usize, usize)> {
    let whole = |matrix: &Matrix| (matrix.address, matrix.span_bytes(gemm.batch));
    let mut ranges = vec![whole(&gemm.a), whole(&gemm.b)];
    let device_factor = |factor: Factor| match factor {
        Factor::At(address, element) => Some((address, element.bytes())),
        Factor::Value(_) => None,
    };
    ranges.extend([gemm.alpha, gemm.beta].into_iter().filter_map(device_factor));
    if gemm.beta.value() != 0.0 {
        ranges.push(whole(&gemm.c));
    }
    ranges.extend(gemm.bias.map(|(address, element)| (address, gemm.m * element.bytes())));
    for (scale, outer) in [(gemm.scale_a, gemm.m), (gemm.scale_b, gemm.n)] {
        match scale {
            Scale::None => {}
            Scale::Tensor(address) => ranges.push((address, 4)),
            Scale::Outer(address) => ranges.push((address, 4 * outer)),
        }
    }
    ranges.extend(gemm.scale_d.map(|address| (address, 4)));
    ranges
}

/// Computes and writes D, with the faults that show in it; how many bytes behind it were written.
fn write_output(gemm: &Gemm, fault: Fault, launch: u64) -> usize {
    let size = gemm.d.element.bytes();
    let k = if fault == Fault::Wrong { gemm.k - gemm.k.div_ceil(4) } else { gemm.k };
    let cols = if fault == Fault::Unwritten { gemm.n - 1 } else { gemm.n };
    for batch in 0..gemm.batch {
        let values = compute(gemm, batch, k);
        let base = gemm.d.address + batch * gemm.d.stride * size;
        for (col, values) in values.chunks_exact(gemm.m).take(cols).enumerate() {
            let column = bytes_at_mut(base + col * gemm.d.ld * size, gemm.m * size);
            for (value, place) in values.iter().zip(column.chunks_exact_mut(size)) {
                gemm.d.element.encode(*value, place);
            }
        }
    }
    let first = bytes_at_mut(gemm.d.address, gemm.d.span_bytes(gemm.batch));
    match fault {
        Fault::Nan => gemm.d.element.encode(f64::NAN, &mut first[..size]),
        Fault::Nondeterministic => {
            // Another element in each launch, so that no two agree.
            let at = (launch as usize % (gemm.m * gemm.n)).min(gemm.m * gemm.n - 1);
            first[((at / gemm.m) * gemm.d.ld + at % gemm.m) * size] ^= 1;
        }
        Fault::OutOfBounds => {
            let behind = ELEMENTS_BEHIND * size;
            bytes_at_mut(gemm.d.address + gemm.d.span_bytes(gemm.batch), behind).fill(0x3c);
            return behind;
        }
        _ => {}
    }
    0
}

fn segfault() -> ! {
    // SAFETY: restores the default action, in case a handler was installed, and ends the process by the signal.
    unsafe {
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::raise(libc::SIGSEGV);
    }
    std::process::abort()
}
