//! The conversation with the harness, for an engine that maintains queries.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;

use crate::protocol::{Feed, Open, Reply, Request, VERSION, receive, send};
use crate::types::Time;

/// A query that is open.
pub trait Maintained {
    /// Reads the files of some batches.
    fn feed(&mut self, batches: &Feed) -> Result<(), String>;
    /// Applies the batch that was read and ends with this time; returns the number of changes.
    fn apply(&mut self, end: Time) -> Result<usize, String>;
    /// Returns the changes since the last call, and forgets them.
    fn changes(&mut self) -> Result<Vec<RecordBatch>, String>;
}

/// Answers requests until the harness closes the program. `open` opens a query, maintains it, and returns the reply to
/// the request that ended it.
pub fn serve(name: &str, output: &'static str, open: impl Fn(Open) -> Reply) {
    // The harness shows the last line of the standard error of a program that fails.
    std::panic::set_hook(Box::new(|panic| eprintln!("{}", panic.to_string().replace('\n', " "))));
    while let Some(request) = receive() {
        match request {
            Ok(Request::Hello { protocol }) => {
                if protocol != VERSION {
                    eprintln!("the harness speaks version {protocol} of the protocol; this program speaks {VERSION}");
                }
                send(&Reply::Hello { protocol: VERSION, name: name.into(), output, maintains: true, several: true });
            }
            Ok(Request::Open(query)) if query.workers == 0 => send(&Reply::Error { error: "no workers".into() }),
            Ok(Request::Open(query)) => send(&open(query)),
            Ok(Request::Close) => return,
            Ok(other) => send(&Reply::Error { error: format!("not a request while no query is open: {other:?}") }),
            Err(error) => send(&Reply::Error { error }),
        }
    }
}

/// Confirms that a query is open, and answers requests up to `end`.
pub fn maintain(query: &mut impl Maintained, directory: &str) {
    send(&Reply::Done {});
    let (mut files, mut fed) = (0, Feed::default());
    while let Some(request) = receive() {
        let reply = request.and_then(|request| match request {
            Request::Feed(batches) => {
                fed = batches;
                query.feed(&fed).map(|()| Some(Reply::Done {}))
            }
            Request::Apply => {
                let mut apply = |&end: &Time| {
                    let start = Instant::now();
                    let changes = query.apply(end)?;
                    Ok::<_, String>((changes, start.elapsed().as_secs_f64()))
                };
                if fed.ends.is_none() {
                    let (changes, seconds) = apply(&fed.time)?;
                    return Ok(Some(Reply::Applied { changes, seconds }));
                }
                let (changes, seconds) = fed.ends().iter().map(apply).collect::<Result<_, _>>()?;
                Ok(Some(Reply::AppliedAll { changes, seconds }))
            }
            Request::Changes => {
                files += 1;
                let file = format!("changes-{files}.arrow");
                write(&Path::new(directory).join(&file), &query.changes()?).map(|()| Some(Reply::Changes { file }))
            }
            Request::State => Ok(Some(Reply::Done {})),
            Request::End => Ok(None),
            Request::Close => std::process::exit(0),
            other => Err(format!("not a request while a query is open: {other:?}")),
        });
        match reply {
            Ok(Some(reply)) => send(&reply),
            Ok(None) => return,
            Err(error) => send(&Reply::Error { error }),
        }
    }
    std::process::exit(0);
}

fn write(path: &Path, batches: &[RecordBatch]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let file = File::create(path).map_err(|error| failed(&error))?;
    let schema = batches.first().ok_or("no changes to write")?.schema();
    let mut writer = FileWriter::try_new_buffered(file, &schema).map_err(|error| failed(&error))?;
    batches.iter().try_for_each(|batch| writer.write(batch)).map_err(|error| failed(&error))?;
    writer.finish().map_err(|error| failed(&error))
}
