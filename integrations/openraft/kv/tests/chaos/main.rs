//! Three real nodes under a nemesis, and the histories of their clients.

mod checked;
mod checker;
