//! TPC-H on dbsp, as an engine of deltamark: see `README.md`.

mod cells;
#[macro_use]
mod columns;
mod data;
mod dates;
mod engine;
mod flow;
mod input;
mod output;
mod parameters;
mod protocol;
mod queries;
mod serve;
mod types;

use parameters::Parameters;
use protocol::Reply;

/// The version that `Cargo.toml` requires.
const NAME: &str = "dbsp 0.349.0";

#[global_allocator]
static ALLOCATOR: dbsp::mimalloc::MiMalloc = dbsp::mimalloc::MiMalloc;

fn main() {
    serve::serve(NAME, "batches", |open| {
        let Some(query) = queries::find(&open.query) else {
            return Reply::Refused { refused: format!("not a query of this program: {}", open.query) };
        };
        match query(&Parameters(&open)).and_then(|plan| engine::run(&open, plan)) {
            Ok(()) => Reply::Done {},
            Err(error) => Reply::Error { error },
        }
    });
}
