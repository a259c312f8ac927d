//! File formats, one file each. Readers are total: any bytes give rows plus `file:line: reason`.
