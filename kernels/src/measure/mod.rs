//! Operands of a problem, reference, gate and timing.
