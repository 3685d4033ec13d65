//! TPC-H on differential dataflow, as an engine of deltamark: see `README.md`.

mod dates;
mod engine;
mod flow;
mod input;
mod output;
mod parameters;
mod protocol;
mod queries;
mod sums;
mod types;

use parameters::Parameters;
use protocol::{Reply, Request, VERSION, receive, send};

/// The versions that `Cargo.toml` requires.
const NAME: &str = "differential-dataflow 0.25.1 (timely 0.31.0)";

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // The harness shows the last line of the standard error of a program that fails.
    std::panic::set_hook(Box::new(|panic| eprintln!("{}", panic.to_string().replace('\n', " "))));
    while let Some(request) = receive() {
        match request {
            Ok(Request::Hello { protocol }) => {
                if protocol != VERSION {
                    eprintln!("the harness speaks version {protocol} of the protocol; this program speaks {VERSION}");
                }
                send(&Reply::Hello { protocol: VERSION, name: NAME.into(), output: "stream", maintains: true });
            }
            Ok(Request::Open(open)) => {
                if open.workers == 0 {
                    send(&Reply::Error { error: "no workers".into() });
                    continue;
                }
                let Some(query) = queries::find(&open.query) else {
                    send(&Reply::Refused { refused: format!("not a query of this program: {}", open.query) });
                    continue;
                };
                match query(&Parameters(&open)) {
                    Ok(plan) => match engine::run(open, plan) {
                        Ok(()) => send(&Reply::Done {}),
                        Err(error) => send(&Reply::Error { error }),
                    },
                    Err(error) => send(&Reply::Error { error }),
                }
            }
            Ok(Request::Close) => return,
            Ok(other) => send(&Reply::Error { error: format!("not a request while no query is open: {other:?}") }),
            Err(error) => send(&Reply::Error { error }),
        }
    }
}
