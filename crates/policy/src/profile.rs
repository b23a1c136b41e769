//! Named profiles: a shape, a schedule, an admission and their sizes.

use serde::{Deserialize, Serialize};

/// placeholder
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PolicyOptions {}

/// placeholder
#[derive(Debug, Clone)]
pub struct Profile {}
