//! Tables and files made from the records of a run.
