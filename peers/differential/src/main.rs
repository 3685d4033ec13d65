//! TPC-H on differential dataflow, as an engine of deltamark: see `README.md`.

mod cells;
#[macro_use]
mod columns;
mod dates;
mod engine;
mod exchange;
mod flow;
mod input;
mod output;
mod parameters;
mod protocol;
mod queries;
mod serve;
mod sums;
mod types;

use parameters::Parameters;
use protocol::Reply;

/// The versions that `Cargo.toml` requires.
const NAME: &str = "differential-dataflow 0.25.1 (timely 0.31.0)";

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    serve::serve(NAME, "stream", |open| {
        let Some(query) = queries::find(&open.query) else {
            return Reply::Refused { refused: format!("not a query of this program: {}", open.query) };
        };
        match query(&Parameters(&open)).and_then(|plan| engine::run(open, plan)) {
            Ok(()) => Reply::Done {},
            Err(error) => Reply::Error { error },
        }
    });
}
