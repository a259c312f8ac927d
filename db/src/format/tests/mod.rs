//! What holds for every reader and writer together.

mod aiter;
mod corpus;
mod hostile;
mod round_trip;
