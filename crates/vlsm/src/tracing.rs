//! The store's events as events of the crate `tracing`: one event for each, at the level that an
//! operator expects.
//!
//! | level | events |
//! |---|---|
//! | error | a background failure, lost or damaged files |
//! | warn | a full device, panics of user code, files that stay, no direct I/O, waits from 100 ms |
//! | info | opened, recovering, space again, closed, ingested |
//! | debug | waits from 1 ms, jobs, chains that were waited for |
//! | trace | rotations, WAL files, installs, chains that stand behind L0 |

use tracing::{Level, event};
use vlsm_core::Micros;
use vlsm_core::event::Event;

/// A wait at least this long is a warning.
const LONG_WAIT: Micros = Micros(100_000);

/// Emits an event of the store as an event of the crate `tracing`, with the target `vlsm`. Pass it
/// as the listener, or call it from a listener. Needs the feature `tracing`.
///
/// The message is the text of the event. The fields are `event` ([`Event::name`]) and, if it is
/// known, `keyspace`. A wait also has `cause` and `micros`. With the feature `log` of `tracing`,
/// applications without a subscriber get the events through the crate `log`.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// let db = vlsm::Db::builder(path).listener(vlsm::to_tracing).open()?;
/// # db.close()
/// # }
/// ```
pub fn to_tracing(event: &Event) {
    // The macro `event!` needs a constant level.
    macro_rules! emit {
        ($level:expr) => {{
            let (name, keyspace) = (event.name(), event.keyspace());
            match event {
                Event::Waited { cause, took, .. } => event!(
                    target: "vlsm", $level, event = name, keyspace, cause = cause.name(),
                    micros = took.0, "{event}"
                ),
                _ => event!(target: "vlsm", $level, event = name, keyspace, "{event}"),
            }
        }};
    }
    match level_of(event) {
        Level::ERROR => emit!(Level::ERROR),
        Level::WARN => emit!(Level::WARN),
        Level::INFO => emit!(Level::INFO),
        Level::DEBUG => emit!(Level::DEBUG),
        Level::TRACE => emit!(Level::TRACE),
    }
}

fn level_of(event: &Event) -> Level {
    match event {
        Event::BackgroundError { .. }
        | Event::WalDamaged { .. }
        | Event::WalLost { .. }
        | Event::SstLost { .. } => Level::ERROR,
        Event::OutOfSpace { .. }
        | Event::CallbackPanicked { .. }
        | Event::NotRemoved { .. }
        | Event::WalUnmapped { .. }
        | Event::Buffered { .. } => Level::WARN,
        Event::Waited { took, .. } if *took >= LONG_WAIT => Level::WARN,
        Event::Opened { .. }
        | Event::SlowPath { .. }
        | Event::Recovering { .. }
        | Event::SpaceReturned { .. }
        | Event::Ingested { .. }
        | Event::Closed => Level::INFO,
        Event::Rotated { .. }
        | Event::WalSwitched { .. }
        | Event::Installed { .. }
        | Event::ChainStood { .. } => Level::TRACE,
        _ => Level::DEBUG,
    }
}
