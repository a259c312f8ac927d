//! Which of several choices for one problem is better: what a merge goes by too, so that a merged table answers as its
//! parts would.

pub(crate) use tgemm_db::merge::compare;
