//! The messages of the engine protocol, version 1: a line of JSON each. `docs/protocol.md` of deltamark defines them.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::types::Time;

pub const VERSION: u32 = 1;

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Request {
    Hello { protocol: u32 },
    Open(Open),
    Feed(Feed),
    Apply,
    Changes,
    Answer,
    State,
    End,
    Close,
}

/// The query to maintain, and the form of its inputs and of its changes.
#[derive(Clone, Debug, Deserialize)]
pub struct Open {
    pub query: String,
    pub parameters: BTreeMap<String, Value>,
    pub workers: usize,
    pub collect: bool,
    pub directory: String,
    pub relations: BTreeMap<String, Relation>,
    pub answer: Vec<(String, String)>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Relation {
    /// A bound of the number of live rows.
    pub rows: u64,
}

/// One or several batches of changes: a file for each relation that changes.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Feed {
    /// The last time of the last batch.
    pub time: Time,
    /// The last time of each batch; absent if there is only one.
    pub ends: Option<Vec<Time>>,
    pub relations: BTreeMap<String, String>,
}

impl Feed {
    /// Returns the last time of each batch.
    pub fn ends(&self) -> &[Time] {
        self.ends.as_deref().unwrap_or(std::slice::from_ref(&self.time))
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    Hello { protocol: u32, name: String, output: &'static str, maintains: bool, several: bool },
    Applied { changes: usize, seconds: f64 },
    AppliedAll { changes: Vec<usize>, seconds: Vec<f64> },
    Changes { file: String },
    Refused { refused: String },
    Error { error: String },
    Done {},
}

/// Reads the next request; `None` at the end of the input.
pub fn receive() -> Option<Result<Request, String>> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) => None,
        Ok(_) => Some(parse(&line).map_err(|error| format!("not a request: {error}: {}", line.trim()))),
        Err(error) => Some(Err(format!("cannot read a request: {error}"))),
    }
}

/// Parses by way of a value: serde cannot read numbers of a tagged enum if some crate lets them have any precision.
fn parse(line: &str) -> serde_json::Result<Request> {
    serde_json::from_str::<Value>(line).and_then(serde_json::from_value)
}

pub fn send(reply: &Reply) {
    let mut line = serde_json::to_vec(reply).expect("a reply is always JSON");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    // A harness that has gone away reads no replies; the end of the input ends the program.
    let _ = out.write_all(&line).and_then(|()| out.flush());
}
